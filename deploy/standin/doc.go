// Package standin is a small program in the place of `codex app-server`: a real
// one takes a hundred megabytes and a model to talk to, this one a few and
// nothing. It speaks the same wire and is there for what needs hundreds of
// sessions at once, or a stream of a known rate: benchmarks and faults.
//
// What it does in a turn, the message says, one act a line:
//
//	ask [COMMAND]        ask for approval of a command, and run it when accepted
//	asks N               N approvals at the same time, of `true`
//	run COMMAND          run a command without asking
//	leave COMMAND        leave a command running in the background
//	say N                a message of N words at once
//	stream R/s for D     R words a second for a time, as in stream 20/s for 60s
//	burst SIZE           messages as fast as they go, as in burst 100MB
//	line SIZE            one message in one line of that length
//	longask SIZE         an approval in one line of that length
//	noise                lines that are no messages: blank, stray, not UTF-8
//	stderr SIZE          that much on standard error
//	sleep D              nothing for a time
//	hang                 nothing for ever
//	exit CODE            leave
//	die                  kill -9
//
// Any other line is said back. A turn ends with the last act; interrupts,
// steers and decisions work as codex has them.
//
// It has no sandbox: commands run as whoever runs it. A thread lives in a
// rollout under CODEX_HOME, from its first turn on, and is resumed from there;
// one process at a time may write it.
//
// The package's tests hold it against the real codex: the same requests to
// both give the same methods in the same order and errors in the same words,
// and what it writes obeys the schema that codex generates.
package standin
