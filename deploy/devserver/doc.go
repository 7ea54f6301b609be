// Command devserver is the Temporal server of one machine: frontend, history,
// matching and system worker in one process, SQLite underneath, the Web UI
// beside it. `ctl up` runs it, and so do the tests; nothing else is needed to
// have durable workflows on a laptop.
//
//	devserver server start-dev [flags]   run the server until SIGTERM or SIGINT
//	devserver version                    print the versions inside, as JSON
//
// The flags are those of the Temporal CLI's development server as far as the
// Go SDK's testsuite.StartDevServer passes them, so that the binary drops in as
// its ExistingPath. `devserver server start-dev --help` lists them.
//
// # Readiness
//
// When every part answers, one JSON line goes to standard output and nothing
// else ever does:
//
//	{"address":"127.0.0.1:7233","namespace":"default","ui":"http://127.0.0.1:8233","pid":1,"db":"/x/t.db","version":"1.32.1"}
//
// "ui" is empty with --headless, "db" is empty without --db-filename (memory:
// everything is gone at exit). Logs go to standard error. A port of 0 is chosen
// by the operating system. All listeners are on loopback unless --ip or --ui-ip
// says otherwise; those of the inner services always are. Neither the frontend
// nor the UI asks who is calling: do not put them on a network.
//
// Exit status: 0 stopped as asked, 1 failed, 2 bad command line, 6 refused
// (the file is in use, or a newer server has written it).
//
// # The file
//
// FILE is an SQLite database in WAL mode with synchronous=FULL and a single
// connection: whatever the server has acknowledged survives the death of the
// process, and a power cut on a disk that keeps what it has synced.
// --sqlite-pragma synchronous=1 is faster where syncing is slow; a power cut may
// then take the last moments with it, but leaves the file consistent. Beside FILE:
//
//	FILE-wal, FILE-shm     SQLite's own; part of the database, never remove them
//	FILE.lock              held for as long as a server runs: one server, one file
//	FILE.version           the server version that last opened FILE
//	FILE.1.29.1.bak        FILE as server 1.29.1 left it
//
// A server newer than FILE.version first copies the database (what stands in
// the WAL included) to FILE.<that version>.bak, then brings the tables to its
// own schema in one transaction, then writes its version into FILE.version, and
// only then opens FILE. A file without FILE.version, made by some other
// program, counts as older; its copy is FILE.unstamped.bak. Copies are never
// overwritten: the next one gets a number. A server older than FILE.version
// refuses to open it. To go back to a copy, with no server running:
//
//	rm -f FILE FILE-wal FILE-shm
//	cp FILE.1.29.1.bak FILE
//	echo 1.29.1 > FILE.version
//
// # The namespace
//
// Each namespace named by --namespace ("default" if none) is created when it is
// missing. At every start its retention is set to --retention and the search
// attributes below, with those of --search-attribute, are added where they are
// missing; nothing is ever removed or retyped.
//
//	Keyword      FairleadState FairleadHost FairleadSeed FairleadThread FairleadWaits FairleadName FairleadProgress FairleadOrigin
//	Int          FairleadApprovals FairleadTurn
//	Bool         FairleadArchived
//	KeywordList  FairleadLabels
//
// # Server settings
//
// Worker commands are on, so that the cancellation of an activity reaches its
// worker at once instead of with the next heartbeat; fairness of task queues is
// on; list and count calls are not held to the stock 10 a second; the server
// does not call home. --dynamic-config-value overrides any of it.
package main
