// Command ctl is the command line of Fairlead. It starts a stack on one machine, and talks
// to Temporal and the workers of any stack.
//
// It never connects to a host and holds no key of the store. It encrypts and decrypts
// Temporal's payloads with the payload key, as workers do. Commands and state go through
// Temporal. Bytes (live text, transcripts, output) come from a worker's HTTP API.
//
// # Files
//
// main.go lists the commands, app.go holds what they share, and errors.go has the exit
// codes. connect.go and temporal.go wrap Temporal, with kept.go and recall.go for reading
// it while no worker answers. deliver.go sends a message to a session as an update or a
// signal. workers.go finds the HTTP API of a worker. render.go and output.go print. The
// other files are named after their commands: session*.go, approval*.go, host*.go,
// seed*.go, snapshot*.go, batch*.go, schedule*.go.
//
// # Streams
//
// Results go to standard output, as text or with -o json. JSON is one object, or one object
// per line for lists and streams. Progress, questions and errors go to standard error.
// Colour is used only on a terminal. Text from hosts and models is printed only through
// clean. An error is one line,
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
// A command is a function of *app in a file of its own, and a line in commands. It gets
// what it needs from the app (temporal, worker, print) and returns errors made by usage,
// notFound, refused and similar functions. It never calls os.Exit.
package main
