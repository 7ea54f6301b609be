// Package stack is Fairlead on one machine: an embedded Temporal server, a
// worker or some, and the supervisor that keeps them alive, with everything
// they need in one state folder.
//
//	stack.json     how to reach the stack (Info); there while it runs
//	lock           held by the supervisor; its content is the supervisor's pid
//	ports.json     the ports of the last time, to have the same address again
//	identity.txt   the age identity that opens the store: losing it loses everything
//	payload.key    the keys that encrypt what the server keeps: losing them loses its histories
//	temporal.db*   the server's database
//	store/         blobs
//	worker.yaml    the worker's config, written at every start
//	api.sock       the worker's API
//	logs/          temporal.log, worker.log, supervisor.log
//
// A second worker has worker-2.yaml, api-2.sock and worker-2.log, and so on.
// With none, worker.yaml is there for one that is started by hand.
//
// What callers may count on: server and workers are processes of their own; one
// that dies is started again at once (after five deaths within 30 s, with
// pauses); the server keeps its address; one supervisor to a folder. If the
// supervisor itself is killed, server and workers go on, and the next Up or Down
// finds and stops them.
package stack
