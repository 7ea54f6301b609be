// Package stack runs Fairlead on one machine: an embedded Temporal server, workers, and the
// supervisor that keeps them running. All of its files are in one state folder, except for
// a socket whose path would be too long.
//
//	stack.json     how to reach the stack (Info); present while it runs
//	lock           held by the supervisor; contains the supervisor's pid
//	supervisor.json  the supervisor's pid and start time
//	ports.json     the ports of the last run, so that addresses stay the same
//	identity.txt   the age identity that decrypts the store: losing it loses everything
//	payload.key    the keys that encrypt the server's payloads: losing them loses its histories
//	workers.key    the keys with which workers mark what they write, also with authority: local
//	workers.json   since when they mark all of it, and since when authority is required
//	tls/           certificates: whoever can read them may do everything here
//	ui.key         makes one-time links for the UI; the server writes it at each start
//	console.key    makes one-time links for the console; a new one at each start
//	codec.token    opens the codec endpoint at the UI's address; a new one at each start
//	temporal.toml  for TEMPORAL_CONFIG_FILE of Temporal's own programs, with codec.token
//	payloads.json  when an older version was replaced, whose payloads are still read
//	temporal.db*   the server's database
//	store/         blobs
//	worker.yaml    the worker's config, written at every start
//	api.sock       the worker's API
//	codec.sock     the worker's codec endpoint, which the UI's server passes requests on to
//	worker/        records of refused commands that the store has not taken yet
//	takeover/      the tasks of each worker, for the worker that takes over when it dies
//	logs/          temporal.log, worker.log, supervisor.log
//
// A second worker has worker-2.yaml, api-2.sock and worker-2.log. Without workers,
// worker.yaml is for one that is started by hand.
//
// The server takes connections only from clients with a certificate of the stack, on all of
// its ports. The supervisor renews certificates while the stack runs. The UI needs a login:
// Info.Link. So other users of the machine get nothing.
//
// A process that dies is restarted at once, or after a pause if it dies again and again.
// The stack ends only if the first process of a program cannot be started or refuses its
// config. A folder has one supervisor. If it is killed, server and workers continue, and
// the next Up or Down stops them.
package stack
