// Package conversation talks to a codex app-server: one JSON object a line, both
// sides ask. It knows neither SSH nor processes nor workflows; it is given
// something to read and write.
//
// # Two ways to talk
//
// A [Conn] is for short talks: a host check, a benchmark, a test. Whoever holds
// it asks and waits, and when it is gone the talk is over. [Handshake] opens it.
//
// [Run] is for sessions. There the process outlives every connection: what it
// writes is a journal, addressed by byte offset, and a pump attaches to it at a
// [Cursor], sends what is due, folds what it reads into a small [PumpState] and
// a transcript, and returns as soon as somebody else has to decide. Between two
// pumps nothing runs and nothing is held.
//
// # Nouns
//
//   - A [Wire] is an attachment to the journal and to the process's input.
//   - A [Send] is a message for codex: a turn's text, a steer, a decision, an
//     interrupt. Its [DeliveryState] says how far it got.
//   - A [Request] is what codex asks and waits for; its digest names what was
//     asked, whenever that is.
//   - An [Entry] is a line of the transcript, a [Delta] a piece of text that
//     streams before its entry is finished. Both go to the [Sink].
//   - A [Problem] is a failure with its kind and a sentence that says what to do.
//
// # What a pump promises
//
//   - The same journal and the same input give the same entries with the same
//     ids, numbers and times, and the same state, however often a worker dies
//     on the way and however the journal is split between pumps. Clocks decide
//     only when a pump asks again, gives up or returns.
//   - A Send reaches codex at most once. If an earlier attempt may have written
//     it, the journal is read up to its length first, and then codex is asked
//     to read the thread, which it answers only behind what it was told before.
//     Decisions are the exception: they may be written twice, since codex acts
//     on the first and ignores the second (measured). So are interrupts: they
//     name their turn, so they wait until codex has answered for it; they are
//     said again where it is not active yet, and go out before a long backlog
//     is read.
//   - A Send is called decided only when it is certain that no attempt of any
//     pump wrote it; else it is sent, until the journal shows more.
//   - A pump returns only when it has read what was in the journal when it
//     attached, so a later attempt is never behind an earlier one; or else at
//     the line where it has folded Limits.Bytes, and then every attempt does.
//   - What was said and never finished, since the turn was interrupted or the
//     process died, is on record as an entry with the status interrupted.
//   - A turn that uses more than Limits.Budget is interrupted by the pump.
//   - No request of codex's is left hanging. What a person decides is reported,
//     all else is answered at once, lines that are too long to read included.
//     Commands, file changes, permissions, questions, calls and forms and pages
//     of MCP servers, our tool ask_human and the approvals of the first protocol
//     are decided by people or a policy, each with the words of Request.Offered,
//     and answered in the shape of their own. That shape is made of the request's
//     own line, which the answering pump reads again from the journal; a decision
//     that does not fit is a no to codex, and Rejected. What holds too much to be
//     shown whole is refused, on record. Rules for the whole codex home are offered
//     where PumpInput.Amend says so.
//   - A thread that cannot be resumed or forked is never replaced by a new one.
//     A fork is made once, with an id of its own, and from then on resumed.
//   - What a thread is to be told ([Tell]) reaches it at most once, before its
//     next turn, as a developer's message that begins no turn and is on record
//     as a state entry.
//   - With a [Broker], codex is logged in with an access token after each start,
//     before its thread is opened, and its requests for a newer one are answered
//     while the pump is attached; no token is in a state, an entry or a result.
//   - Of the tools that a session offers ([Tools]), each call gets one reply that
//     codex takes: progress at once, a question when a person has answered, and
//     what [Options].Tool carries out when that is done, whatever dies meanwhile.
//   - Sandbox, approval policy and cwd go with every start and every resume,
//     since codex forgets the sandbox.
//   - Memory is bounded by the longest line that is allowed; longer ones are
//     reported and skipped. Blank, stray, torn and broken lines are survived.
//     The texts of a result are at most 768 KiB, as JSON is written.
//   - Texts are redacted before they reach the sink or the result, and before
//     they are cut; what streams by is held back where it may begin a secret,
//     across pumps too. Digests are over what was there before.
//
// # What a Conn promises
//
//  1. Notifications reach their handler in the order of the wire.
//  2. The read loop runs no code of the caller's: a handler may call back.
//  3. A request may be answered an hour later; events go on meanwhile.
//  4. A cancelled call returns at once with the context's cause, and leaves
//     nothing behind.
//  5. When the peer goes, every call fails with the one reason, an [ErrClosed].
//  6. A line that is no message, or too long, is reported and skipped.
//  7. Close joins every goroutine.
package conversation
