// Command ctl is the command line of Fairlead. It starts a stack on one machine, and talks
// to Temporal and the workers of any stack.
//
// It never connects to a host and holds no key of the store. It encrypts and decrypts
// Temporal's payloads as workers do. Commands and state go through Temporal. Bytes (live
// text, transcripts, output) come from a worker's HTTP API.
//
// # Packages
//
// This package holds the root command. Each noun has a package below internal: session,
// approval, host, seed, batch, schedule, snapshot, policy and stack. They use core
// (streams, output, errors and exit codes), conn (Temporal and the workers), show (text
// that several commands print), live (what attached workers know) and start (the flags of a
// session's start). TestTheRoomsOfAFloorStandApart in the repository's root lists which may
// import which.
//
// # Streams
//
// Results go to standard output, as text or with -o json: one object, or one object per
// line for lists and streams. Progress, questions and errors go to standard error. Only a
// terminal gets colour. Text from hosts and models is printed only through core.Clean. An
// error is one line,
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
// A command is a function of *core.App, in the package of its noun, and a line in the
// noun's Command. It connects with conn.Open, prints with the App's Print, and returns
// errors of core.Usage, core.NotFound, core.Refused and the like. It never calls os.Exit.
package main
