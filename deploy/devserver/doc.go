// Command devserver is the Temporal server of one machine: frontend, history, matching and
// system worker in one process, with SQLite and the Web UI. `ctl up` and the tests run it.
//
//	devserver server start-dev [flags]   run the server until SIGTERM or SIGINT
//	devserver version                    print the versions inside, as JSON
//
// The flags are those that the Go SDK's testsuite.StartDevServer passes, so that the binary
// can be its ExistingPath. Listeners are on loopback unless --ip or --ui-ip says otherwise.
//
// When every part answers, the only line on standard output is JSON:
//
//	{"address":"127.0.0.1:7233","namespace":"default","ui":"http://127.0.0.1:8233","pid":1,"db":"/x/t.db","version":"1.32.1"}
//
// "ui" is empty with --headless, "db" is empty without --db-filename (memory: everything is
// gone at exit), and begins with postgres:// with --postgres. Logs go to standard error.
//
// # Who gets in
//
// By default everybody who reaches a port, for tests. `ctl up` gives these flags:
//
//	--tls-ca, --tls-cert, --tls-key
//	    Every port but the UI's takes TLS 1.3 from clients with a certificate of that
//	    authority. The certificate is also this process's own as a client. The files are
//	    read at each handshake, so they can be replaced while the server runs. The key may
//	    be in the certificate's file.
//	--ui-login FILE
//	    The UI needs a login. Each start writes a new key into FILE, mode 0600. Whoever can
//	    read it can make a link that logs a browser in once; login.go has its form.
//	--ui-codec-upstream, --ui-codec-upstream-token, --ui-codec-token
//	    The UI's server passes what comes to /codec on to a worker, after a login or for the
//	    bearer token of --ui-codec-token. The UI reads payloads through it.
//
// On loopback the UI's server always refuses other Host headers than its own addresses, and
// always refuses the pages of other origins.
//
// Exit status: 0 stopped as asked, 1 failed, 2 bad command line, 6 refused (the file is in
// use, or a newer server has written it).
//
// # The file
//
// FILE is an SQLite database in WAL mode with synchronous=FULL and a single connection:
// whatever the server has acknowledged survives the death of the process, and a power cut
// on a disk that keeps what it has synced. --sqlite-pragma synchronous=1 is faster where
// syncing is slow, but a power cut may lose the last moments. Beside FILE:
//
//	FILE-wal, FILE-shm     SQLite's own; part of the database, never remove them
//	FILE.lock              held for as long as a server runs: one server, one file
//	FILE.version           the server version that last opened FILE
//	FILE.1.29.1.bak        FILE as server 1.29.1 left it
//
// A server newer than FILE.version first copies the database, with the WAL, to FILE.<that
// version>.bak, then upgrades the tables in one transaction, then writes its version into
// FILE.version, and only then opens FILE. A file without FILE.version counts as older; its
// copy is FILE.unstamped.bak. Copies are never overwritten: the next one gets a number. A
// server older than FILE.version refuses to open it. To go back to a copy, with no server
// running:
//
//	rm -f FILE FILE-wal FILE-shm
//	cp FILE.1.29.1.bak FILE
//	echo 1.29.1 > FILE.version
//
// # PostgreSQL
//
// With --postgres the server is as a platform team has it, for rigs and tests: PostgreSQL keeps
// everything, in two databases that are made and upgraded as temporal-sql-tool does. Settings are
// Temporal's own: no worker commands, no fairness, 10 queries a second for a namespace. A missing
// namespace is registered, without any search attribute. --frontends says how many frontends take
// the connections to --port, in turn.
//
// # Namespaces and settings
//
// This is so with SQLite.
//
// At every start each --namespace is created if it is missing, its retention is set to
// --retention, and missing search attributes are added: those of Fairlead and those of
// --search-attribute. Nothing is ever removed or retyped.
//
// Worker commands are on, so that the cancellation of an activity reaches its worker at
// once instead of with the next heartbeat. Fairness of task queues is on. The server does
// not call home. --dynamic-config-value overrides any setting.
package main
