// Package standin is a small replacement for `codex app-server`. A real one
// takes a hundred megabytes and needs a model; this one takes a few and needs
// none. It speaks the same protocol, for benchmarks and fault tests that need
// hundreds of sessions at once or a stream of a known rate.
//
// A message says what it does in the turn, one act a line:
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
// It has no sandbox: commands run as its own user. From its first turn on, a
// thread is stored in a rollout under CODEX_HOME, from which it can be resumed.
// Only one process at a time may write it.
//
// The package's tests compare it with the real codex: the same requests result
// in the same methods in the same order and in the same error texts, and its
// output obeys the schema that codex generates.
package standin
