// Package conversation talks to a codex app-server. It knows nothing of SSH, processes or
// workflows, only a stream of lines.
//
// The package is larger than others because the machine of a pump is one state machine,
// whose parts share the state of one turn.
//
// [Run] is for sessions, whose process outlives every connection; [wire.Conn] is for short
// conversations. The process's output is a journal, addressed by byte offset. A pump
// attaches to it at a [protocol.Cursor], sends the messages that are due, folds the lines
// that it reads into a small [PumpState] and a transcript, and returns as soon as the
// workflow or a person has to decide. Between two pumps nothing runs.
//
// # Inside a pump
//
// A driver (pump.go) owns the goroutines and the clock. It runs a machine, which takes
// lines and ticks and gives lines for codex. The comment on each part of the machine says
// which fields of PumpState the part owns and which parts it may call; assemble
// (machine.go) hands it only these.
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
//   - noticed: reports beside the items: plans, MCP servers, hooks, reroutes, the context.
//
// # What a pump promises
//
//   - The same journal and the same input give the same entries and the same state, even if
//     workers die, and wherever the journal is split between pumps. Clocks decide only when
//     a pump asks again, gives up or returns.
//   - A Send reaches codex at most once. If an earlier attempt may have written it, the
//     pump first reads the journal up to its length and then asks codex to read the thread,
//     which codex answers only after all earlier lines. Decisions may be written twice,
//     because codex ignores the second (measured); interrupts too, because they name their
//     turn.
//   - A Send has the state Decided only if certainly no attempt of any pump wrote it.
//     Otherwise its state is Sent until the journal shows more.
//   - A pump returns only when it has read all that was in the journal when it attached, or
//     at the line at which it has folded Limits.Bytes. So a later attempt is never behind
//     an earlier one.
//   - A turn belongs to a Send only if codex says so. Other turns are foreign (foreign.go).
//   - A pump whose interrupt codex has accepted stays until the turn has ended.
//   - A message that codex refuses because of overload is sent again. If no turn runs, the
//     pump returns Overloaded.
//   - Every request from codex is answered. Those for a person are reported, the others are
//     answered at once. A decision is one of Request.Offered, and the pump builds the
//     answer from the request's line in the journal. If a decision does not fit, codex gets
//     a decline, and the decision is Rejected. A request that is too large to be shown in
//     full is refused and recorded.
//   - A thread that cannot be resumed or forked is never replaced by a new one. A fork is
//     made once and is resumed from then on.
//   - With a [Broker], codex is logged in after each start, before its thread is opened. No
//     state, entry or result contains a token.
//   - A call that starts or awaits a session, and a delivery that needs a verdict, become
//     requests, which the workflow or a person answers.
//   - Each call of an offered tool ([protocol.Tools]) gets one reply that codex takes.
//   - The longest permitted line bounds memory. Longer lines are reported and skipped.
//     Blank, stray, torn and broken lines do no harm.
//   - Texts are redacted before they are cut and before they reach the sink or the result,
//     streamed texts too (heldback.go). Digests are computed before redaction.
package conversation
