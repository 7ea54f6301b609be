// Longtests knows the tests that `make test` leaves out, because they would make it too long
// for every change. rest.txt names those that `make rest` runs, as CI does: further tests of
// promises of which make test runs others. rigs.txt names those that `make rigs` runs: storms of
// faults, and further rows of a promise, on other hosts and other versions of codex.
//
//	go run ./internal/lab/longtests pattern LIST        prints the pattern for -run and -skip of go test
//	go run ./internal/lab/longtests packages LIST       prints the packages
//	go run ./internal/lab/longtests left [PACKAGE...]   prints the packages that have tests which no list names, these first
//	go run ./internal/lab/longtests run LIST [PACKAGE]  runs the tests, and fails unless each of them passed
//
// LIST is rest or rigs.
package main
