// Package conversation talks to a codex app-server: one JSON object per line,
// requests in both directions. It knows nothing of SSH, processes or workflows,
// only a stream.
//
// The package is larger than others because the machine of a pump is one state machine,
// whose parts share the state of one turn.
//
// # Two ways to talk
//
// A [wire.Conn] is for short conversations: a host check, a benchmark, a test.
// [wire.Handshake] opens it, and it ends with the Conn.
//
// [Run] is for sessions. There the process outlives every connection. Its output is a
// journal, addressed by byte offset. A pump attaches to the journal at a [protocol.Cursor],
// sends the messages that are due, folds the lines that it reads into a small [PumpState]
// and a transcript, and returns as soon as the workflow or a person has to decide. Between
// two pumps nothing runs.
//
// # Nouns
//
//   - A [Wire] is an attachment to the journal and to the process's input.
//   - A [Send] is a message for codex: a turn's text, a steer, a decision, an
//     interrupt. Its [protocol.DeliveryState] says how far it got.
//   - A [protocol.Request] is a request from codex that waits for an answer. Its digest is
//     the same whenever codex asks the same again.
//   - An [protocol.Entry] is a line of the transcript; a [protocol.Delta] is streamed text of an
//     unfinished entry. Both go to the [Sink].
//   - A [protocol.Problem] is a classified failure with a sentence that says what to do.
//
// # Inside a pump
//
// A driver (pump.go) owns the goroutines and the clock. It runs a machine, which has no
// goroutines and no clock: it takes lines and ticks, and gives lines for codex. The parts
// of the machine share its core, which holds the input, the state and the current line. The
// comment on each type says which fields of PumpState the part owns and which parts it may
// call; assemble (machine.go) hands it only these.
//
//   - asks: our requests that are no Sends. opening: handshake and thread, with logins for
//     access tokens. questions: requests that no turn needs.
//   - delivery: the Sends, their certainty and their answers.
//   - turns: the turns, with items for open items and their texts.
//   - requests: requests of codex that people or a policy decide, with demands for their
//     full text, autos for answers that are given at once, and calls for calls of our
//     tools.
//   - watch: gives up a turn that does not go on, by turnTime, quiet and limits of its own.
//     spending: enforces the budget.
//
// Functions that depend only on the state are methods of PumpState (state.go).
//
// # What a pump promises
//
//   - The same journal and the same input give the same entries with the same ids, numbers
//     and times, and the same state, even if workers die, and wherever the journal is split
//     between pumps. Clocks decide only when a pump asks again, gives up or returns.
//   - A Send reaches codex at most once. If an earlier attempt may have written it, the
//     pump first reads the journal up to its length, and then asks codex to read the
//     thread. codex answers this request only after all lines that it got before. Decisions
//     are an exception: they may be written twice, because codex acts on the first and
//     ignores the second (measured). Interrupts are another exception, because they name
//     their turn. An interrupt waits until codex has answered the message that begins the
//     turn, is repeated if the turn is not active yet, and is written before a long backlog
//     is read.
//   - A Send has the state decided only if it is certain that no attempt of any
//     pump wrote it. Otherwise its state is sent until the journal shows more.
//   - A pump returns only when it has read all that was in the journal when it attached, or
//     at the line at which it has folded Limits.Bytes. So a later attempt is never behind
//     an earlier one.
//   - Text left unfinished by an interrupt or a dead process is recorded as an
//     entry with the status interrupted.
//   - A turn belongs to a Send only if codex says so. A turn that codex began by
//     itself is foreign: it has its own number and end, and a message waits for it.
//   - A pump whose interrupt codex has accepted stays until the turn has ended.
//   - A message that codex refuses because of overload is sent again. If no turn runs, the
//     pump returns Overloaded, and the workflow waits and shows it.
//   - The pump interrupts a turn that exceeds Limits.Budget.
//   - Every request from codex is answered. Requests for a person are reported. The others,
//     including oversize lines, are answered at once. People or a policy decide commands,
//     file changes, permissions, questions, calls, forms and pages of MCP servers, our tool
//     ask_human and the approvals of the first protocol. Each is decided with one of the
//     words of Request.Offered and answered in its own shape, which the pump builds from
//     the request's line in the journal. If a decision does not fit, codex gets a decline,
//     and the decision is Rejected. A request that is too large to be shown in full is
//     refused, and recorded. Rules for the whole codex home are offered only if
//     PumpInput.Amend is set.
//   - A thread that cannot be resumed or forked is never replaced by a new one. A
//     fork is made once, gets its own id, and is resumed from then on.
//   - A [Tell] reaches its thread at most once, before the next turn, as a
//     developer message that begins no turn. It is recorded as a state entry.
//   - With a [Broker], codex is logged in with an access token after each start,
//     before its thread is opened. Its requests for a newer token are answered
//     while the pump is attached. No state, entry or result contains a token.
//   - Each call of an offered tool ([protocol.Tools]) gets one reply that codex takes, even
//     if a worker dies meanwhile. A report of progress is answered at once, a question
//     after a person's answer, and any other call when [Options].Tool has carried it out.
//   - Sandbox, approval policy and cwd are sent with every start and every resume, because
//     a resume does not restore the sandbox.
//   - The length of the longest permitted line bounds memory. Longer lines are reported and
//     skipped. Blank, stray, torn and broken lines do no harm. The texts of a result are at
//     most 768 KiB, measured as JSON.
//   - Texts are redacted before they reach the sink or the result, and before they are cut.
//     The end of a streamed text is held back while it may begin a secret, also when
//     another pump takes over. Digests are computed before redaction.
//
// # What a Conn promises
//
//  1. Notifications reach their handler in wire order.
//  2. The read loop runs none of the caller's code, so a handler may call the Conn.
//  3. A request may be answered an hour later; events continue meanwhile.
//  4. A cancelled call returns at once with the context's cause and leaves nothing
//     behind.
//  5. When the peer goes away, every call fails with the same reason, an
//     [ErrClosed].
//  6. A line that is no message or is too long is reported and skipped.
//  7. Close joins every goroutine.
package conversation
