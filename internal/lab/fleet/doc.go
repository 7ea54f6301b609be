// Command fleet tests what a batch survives. It runs many sessions of the real
// codex on four hosts in two zones with three workers, strikes all of them
// meanwhile, and judges the outcome. codex, sshd, Temporal and all of Fairlead
// are real; only the model follows a script.
//
//	go run ./internal/lab/fleet [-seed N] [-sessions N] [-troubles N] [-markdown FILE]
//
// # Terms
//
//   - A host is a machine made of Linux namespaces, with its own processes,
//     network, name and boot id. It has three slots.
//   - A zone is a network. Its workers run in it and can reach only its hosts
//     and the Temporal server. Attempts to reach a host of another zone are
//     refused and counted.
//   - An item is one session of the batch with one turn. Its command records,
//     outside of its work folder, when it begins and ends, and on which host.
//   - A trouble strikes a host, a zone or the server for a while, once a given
//     number of items have ended. The seed decides the troubles, their targets,
//     times and durations, and the items; all of it is printed before the batch
//     begins.
//
// # What is judged
//
// The judge works on the evidence that was gathered and knows nothing of the
// product:
//
//   - results: each item has one, `ctl batch results` has one line for each,
//     and `ctl batch show` has the same counts;
//   - failures: each item that failed ran on a host when the host was killed,
//     and says that its process ended; no other trouble makes items fail;
//   - effects: the command of a completed item took effect exactly once; that
//     of a failed item at most once, and never if the result says that there
//     was no effect. Items whose effect is unknown are marked so and counted;
//   - slots: a host never ran more codex processes that serve sessions, or more
//     commands, than it has slots;
//   - zones: nobody tried to reach a host from another zone, and all logins
//     came from the host's own zone; a test attempt first shows that violations
//     are detected;
//   - left over: no process or file of Fairlead's is left on a host;
//   - closed: no session runs in Temporal, and as many ended as were begun;
//   - pool: every slot is free, no host is held back, nobody waits;
//   - workers: those that were drained exited with success;
//   - troubles: each one struck; those that came just after the last items had
//     ended are counted.
package main
