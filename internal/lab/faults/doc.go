// Command faults tests what survives a fault. It brings sessions on real parts
// (codex, sshd, Temporal, ctl's own stack; only the model follows a script) to
// a moment of their lives, lets a fault strike, and judges the outcome.
//
// The package is larger than others because each kind of fault has a way to strike and a
// judge of its own.
//
//	go run ./internal/lab/faults [-seed N] [-runs N] [-only FAULT] [-moment MOMENT] [-short] [-postgres] [-markdown FILE] [-write]
//
// # Terms
//
//   - A fault strikes the stack, a host, or one session's process.
//   - A moment is the state in which a session is struck. Its act (a decision,
//     a message, a gate that opens) begins up to some hundred milliseconds
//     before.
//   - A point is a moment inside the worker that is too short to be hit by
//     chance: a verdict not yet recorded, a file planted or kept before codex
//     is told, a bound reached before the interrupt. The workers are stopped
//     while codex gets there. Then codex is stopped, its input full if nothing
//     may reach it, until the fault strikes.
//   - A run is one session at one moment under one fault. The runs of a wave
//     are struck together.
//
// The seed decides everything random: the order of moments, how long before the
// fault each act begins, how long faults last, the order of decisions. A failed
// run prints the command that repeats it.
//
// # What is judged
//
// The journals of every run are read on the host before the session is closed,
// by a reader that shares no code with the pump:
//
//   - events: each finished item, end of a turn, error and request of the
//     journal is in the transcript once, in order, with its text, and nothing
//     else there claims to be codex's; seq is contiguous from 1;
//   - answers: each request of codex's was resolved once, or its approval is
//     recorded as void or expired; each of our messages reached codex once, as
//     its journals and the model's own record show; each allowed command had
//     its effect once; at the moments of the model gateway the model was asked
//     again at most once;
//   - the turn ended as codex said, with the text that the model said, or, if
//     codex was gone, as interrupted or unknown; the session continues with the
//     same thread, in the same process or, if that ended, in the next;
//   - at a point: the policy's verdict is recorded once, a file that is handed
//     over is kept once, a reached bound is reported once, a compaction or
//     review begins once;
//   - left over: after the close no process of the session runs, its folder is
//     gone, its host's slot and its seed are free.
//
// # Seeds
//
// These rows strike a login that rotates, with its own issuer, at each step of
// acquire, plant, rotate, save and release, or strike the store or the issuer
// (-only seeds, -only "seeds: FAULT", -moment STEP). Each row runs once for
// every 200 runs of sessions, and at least once. In most rows another session
// then gets the seed and rotates it once more. When the seed is free again,
// these are judged:
//
//   - two holders: nobody held it beside another, and no refresh token was used
//     twice;
//   - lost rotations: the newest unspent token of the issuer is in the store;
//   - dead marks: the login is not dead unless the issuer said so;
//   - credentials left: no session left a credential on its host.
//
// # Snapshots
//
// These rows strike a session with a work folder and two hosts at each step of
// saving and restoring its work: capture, upload, manifest, park, resume,
// restore (-only snapshots, -only "snapshots: FAULT", -moment STEP). They run
// as often as those of seeds. If a step is over before the fault strikes, the
// session is brought to it again. A row whose fault never struck within its
// step has not run. Each session then moves to the other host and back. These
// are judged, throughout the row if they can be seen:
//
//   - work lost: wherever the session continues, and in its newest snapshot
//     when its folder is gone, the work folder is as it was, byte for byte; a
//     version that is deleted from the last host that had it was already in a
//     complete snapshot; nothing is deleted while the store accepts no writes;
//   - half, said to be whole: each snapshot that is marked complete can be
//     exported, holds a former state of the work folder and each message of the
//     turns that it claims, and passes the check (at the end the whole store is
//     read); a failed restore leaves nothing partial;
//   - good one hidden: the newest good snapshot that the session names is
//     complete, never reverts to none, and is never of an earlier turn than
//     before;
//   - two codexes: two codex processes of the session never run at once;
//   - history: the model sees the first message in each later turn, and each
//     message once;
//   - wrong: anything else, such as leftovers of the session on a host, or a
//     credential in a snapshot.
//
// # Storms
//
// A fault that strikes once does not use up any limit on attempts. Storms
// strike again and again (-only storms, -only "storms: STORM", -moment PHASE).
// They take long and run only if -only names them; -write renews
// docs/reference/storm-matrix.md.
//
// One storm starts many sessions at once, each with a message, on a host
// without codex. From the first second on it strikes every 2 to 6 s: it kills
// workers and the Temporal server, and resets connections, kills them with
// their sshd, or silences them. The plan is printed. Each kind is struck
// independently, however long another one takes to recover.
//
// The others bring sessions to just before a phase of their lives (queued,
// leasing, preparing, and so on) and strike that phase several times in a row:
// the worker, the Temporal server, the connections, or all three at the same
// time. Or they take the hosts, the bastion before them or the store away for
// minutes. They use the stand-in for codex; several run at the same time, each
// on its own stack.
//
// Some hosts are unusual: behind a slow line that is cut while codex is
// uploaded, with an overlay as root, with a tree that is too deep for any path.
// A session runs there. Its strikes are the cuts, the checks of its attachment,
// and the operations on the tree; "all done after" is the total time.
//
// When a storm is over it is judged from outside: every session completed its
// turns (not completed); each command left its word in a file once (effects
// lost, repeated); no message is void (messages void); no process, folder, slot
// or lease is left (left over). "strikes" counts those that found something to
// strike; fewer than half of the plan is a failure. "within" counts those that
// hit an attempt at the phase, and "attempts" is the highest attempt number,
// both as far as they were seen.
//
// The time to flow again is from the strike until the end of the struck turn is
// visible to everyone, including the fault's own duration.
package main
