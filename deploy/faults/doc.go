// Command faults proves what survives: it brings sessions on real parts (codex,
// sshd, Temporal, ctl's own stack; only the model follows a script) to a moment
// of their lives, lets a fault strike, and judges what came of them.
//
//	go run ./deploy/faults [-seed N] [-runs N] [-only FAULT] [-moment MOMENT] [-short] [-markdown FILE]
//
// # Nouns
//
//   - A fault strikes the stack, a host, or one session's process.
//   - A moment is where in its life a session is struck. Its act (a decision, a
//     message, a gate that opens) begins up to some hundred milliseconds before.
//   - A point is a moment of the worker's own, too short to be hit by chance: a
//     verdict that is written and not on record, a file that is planted or kept
//     before codex hears of it, a bound that is reached before the interrupt. The
//     workers stand still while codex comes there, then codex does, its input
//     full where nothing is to reach it, and so it stays until the fault strikes.
//   - A run is one session at one moment under one fault. Runs of a wave are
//     struck together.
//
// The seed decides all that is random: which moments come when, how long before
// the fault each act begins, how long faults last, the order of decisions. A
// run that fails prints the command that repeats it.
//
// # What is judged
//
// Of every run the journals are read on the host itself before the session is
// closed, by a reader of its own that shares no code with the pump:
//
//   - events: each finished item, turn's end, error and request of the journal
//     stands in the transcript once, in order, with its text; nothing stands
//     there that claims to be codex's and is not; seq is contiguous from 1;
//   - answers: each request of codex's was resolved once, or its approval is
//     void or expired on record; each message of ours reached codex once, as
//     codex's journals and the model's own record show; each command that was
//     allowed had its effect once;
//   - the turn ended as codex said, with the text that the model said, or, where
//     codex was gone, as interrupted or unknown; the session goes on with the
//     same thread, in the same process or, if that ended, in the next;
//   - at a point: the policy's word stands on record once, what is handed over
//     is kept once, a bound that is reached is told once, a compaction or review
//     begins once;
//   - left over: after the close no process of the session runs, its folder is
//     gone, its host's slot and its seed are free.
//
// # Seeds
//
// Rows of their own strike a login that rotates, with an issuer of its own, at
// each step of acquire, plant, rotate, save and release, and the store and the
// issuer that it needs (-only seeds, -only "seeds: FAULT", -moment STEP). Each
// comes once for every 200 runs of sessions, and at least once. Of each it is
// judged, when the seed is free again: nobody held it beside another and no
// refresh token was used twice (two holders); the newest token that the issuer
// gave out, unspent, is the one in the store (lost rotations); it is not dead
// unless the issuer said so (dead marks); no session of it left a credential on
// its host. In most rows another session gets the seed afterwards and rotates
// it once more.
//
// # Snapshots
//
// Rows of their own strike a session with a work folder and two hosts at each
// step of how its work is kept and brought back: capture, upload, manifest,
// park, resume, restore (-only snapshots, -only "snapshots: FAULT", -moment
// STEP); as often as those of seeds. A step may be over before the fault is
// there: the session is then brought to it again, until it was struck within,
// and a row whose fault never did so has not run. Each session then moves to
// the other host and back again. Of each it is judged, all along where that
// can be seen:
//
//   - work lost: wherever the session goes on, and in its newest snapshot when
//     its folder is gone, the work folder is as it was, byte for byte; a
//     version that goes from the last host it stood on is in a snapshot that
//     was whole by then; nothing goes while the store takes nothing;
//   - half, said to be whole: each snapshot that says it is complete can be
//     exported, holds a state that the work folder once had and each message
//     of the turns that it says it has, and passes the check (in the end the
//     whole store is read); nothing half stands where a restore failed;
//   - good one hidden: the newest good snapshot that the session names is
//     whole, never none again, and never of an earlier turn than before;
//   - two codexes of the session never run at once;
//   - history: the model sees the first message in each later turn, and each
//     message once;
//   - wrong: anything else, such as what a host keeps of the session, or a
//     credential in a snapshot.
//
// The time to flow again is from the strike until the turn that was struck has
// ended for everyone to see, the fault's own duration included.
package main
