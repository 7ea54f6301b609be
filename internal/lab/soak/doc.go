// Command soak lets sessions of the real codex work for an hour on Temporal with PostgreSQL, with
// faults of all kinds and an upgrade in the middle: `make soak`.
//
//	soak -old FOLDER [-sessions 50] [-lasts 60m] [-every 40s] [-seed N] [-markdown FILE]
//
// FOLDER has ctl and worker of an older commit. The stack begins with them and with three workers,
// and goes on with those of the repository at half of the time.
//
// Each session has one turn after another: a short answer, one that streams for half a minute, a
// command that is approved, and a short answer after the session was parked. A third of the
// sessions asks the model through its gateway. Faults strike one after another. Which, when, and
// what sessions do depends on the seed.
//
// # What is judged
//
//   - work: the model and the transcript have each message of a session once and in order. The
//     text of each answer is whole. Each approved command ran once. In sessions whose codex is
//     killed, which go on by themselves, the transcript has each message once;
//   - tasks: no workflow task failed because a history did not fit the code;
//   - left over: once all sessions are closed, hosts have no process and no folder of a session;
//   - worker: the first worker is spared from faults of workers. Once all sessions are closed, it
//     has as many open files and goroutines as before the first one, with some allowance, and the
//     workers have no more connections to the host than their pools keep at rest. Its memory grows by 1 % or less in 10 minutes, measured in each half after
//     10 minutes, or after a third of the half if that is shorter. Less than 10 minutes are not
//     judged.
package main
