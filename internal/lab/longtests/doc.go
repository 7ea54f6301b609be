// Longtests knows the tests that `make test` leaves to `make rigs`, because they would make
// it too long for every change: storms of faults, and further rows of a promise, on other
// hosts and other versions of codex. list.txt names them.
//
//	go run ./internal/lab/longtests skip        prints the pattern for -skip of go test
//	go run ./internal/lab/longtests run         runs them, and fails unless each of them passed
//	go run ./internal/lab/longtests run PACKAGE runs those of one package
package main
