// Command ctl is what people touch: it brings a stack up on one machine, and
// it speaks to Temporal and to the workers of any other.
//
// It never dials a host and holds no key of the store; what Temporal keeps it
// opens with the payload key, as workers do. Commands and state go
// through Temporal; bytes (live text, transcripts, output) come from a worker's
// HTTP API.
//
// # What goes where
//
// Results go to standard output: text for people, or with -o json one object,
// or one object a line for lists and streams. Progress, questions and errors go
// to standard error. Colour is used on a terminal only, and what hosts and
// models wrote reaches a terminal only through clean. An error is one line,
//
//	ctl: what failed: why (what to do)
//
// and with -o json also {"error":{"kind","message","hint"}} on standard output.
//
// # Exit codes
//
//	0 done · 1 the work failed · 2 usage or bad input · 3 not found
//	4 cannot reach · 5 timed out waiting · 6 refused · 7 a person is needed
//	130 interrupted by the user
//
// # Adding a command
//
// A command is a function of *app in a file of its own and a line in commands.
// It asks the app for what it needs (temporal, worker, print), returns errors
// made by usage, notFound, refused and their like, and never calls os.Exit.
package main
