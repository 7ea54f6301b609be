// Package stack runs Fairlead on one machine: an embedded Temporal server, workers,
// and the supervisor that keeps them running. All of its files are in one state
// folder.
//
//	stack.json     how to reach the stack (Info); present while it runs
//	lock           held by the supervisor; contains the supervisor's pid
//	supervisor.json  the supervisor's pid and start time
//	ports.json     the ports of the last run, so that addresses stay the same
//	identity.txt   the age identity that decrypts the store: losing it loses everything
//	payload.key    the keys that encrypt the server's payloads: losing them loses its histories
//	temporal.db*   the server's database
//	store/         blobs
//	worker.yaml    the worker's config, written at every start
//	api.sock       the worker's API
//	takeover/      the tasks of each worker, for the worker that takes over when it dies
//	logs/          temporal.log, worker.log, supervisor.log
//
// A second worker has worker-2.yaml, api-2.sock and worker-2.log, and so on. If the stack
// has no worker, worker.yaml is written for a worker that is started by hand.
//
// Guarantees: server and workers are separate processes. A process that dies is restarted
// at once (after five deaths within 30 s, with pauses of at most 15 s) for as long as the
// stack runs. The stack ends only if the first process of a program cannot be started or
// refuses its config. The server keeps its address. A folder has one supervisor. If the
// supervisor itself is killed, server and workers continue, and the next Up or Down finds
// and stops them.
package stack
