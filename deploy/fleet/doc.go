// Command fleet proves what a batch survives: it runs many sessions of the real
// codex over four hosts in two zones with three workers, troubles all of them
// meanwhile, and judges what came of it. Real are codex, sshd, Temporal and all
// of ours; only the model follows a script.
//
//	go run ./deploy/fleet [-seed N] [-sessions N] [-troubles N] [-markdown FILE]
//
// # Nouns
//
//   - A host is a machine as far as Linux can make one of namespaces: processes,
//     network, name and boot id of its own. It has three slots.
//   - A zone is a network: its workers run in it and can reach its hosts, the
//     Temporal server, and nothing else. Who tries to reach a host of another
//     zone is refused and counted.
//   - An item is one session of the batch with one turn. Its command writes down
//     that it begins and that it ends, on which host and when, outside of its
//     work folder.
//   - A trouble befalls a host, a zone or the server for a while, when so many
//     items have ended. The seed decides which, whom, when and for how long, and
//     what the items are; all of it is printed before the batch begins.
//
// # What is judged
//
// The judge looks at what was found (evidence), and knows nothing of the product:
//
//   - results: each item has one, `ctl batch results` one line for each, and
//     `ctl batch show` the same counts;
//   - failures: each item that failed ran on a host when it was killed, and says
//     that its process ended; no other trouble ends anything;
//   - effects: the command of an item that completed took effect exactly once; of
//     one that failed at most once, and never where it is said that there was
//     none. Those of which nobody can know it are counted and are marked so;
//   - slots: never did more codexes serve sessions on a host than it has slots, and
//     never did more commands run there;
//   - zones: nobody tried to reach a host from another zone, and who was let in came
//     from its own; that it would have been seen is tried before;
//   - left over: nothing of ours runs or lies on a host;
//   - closed: no session runs in Temporal, and as many ended as were begun;
//   - pool: every slot is free, no host is held back, nobody waits;
//   - workers: those that were drained ended well;
//   - troubles: each one struck; those that came when the last items had just ended
//     are counted.
package main
