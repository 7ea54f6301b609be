package conversation

import (
	"time"

	"fairlead.dev/fairlead/conversation/wire"
)

// All waiting of a pump is bounded. Some bounds restart with each attempt. Between two
// attempts, which may be hours, nobody is attached.
//
//   - Limits.Turn counts from when the input was first due (Options.Since), without the
//     time spent waiting for people.
//   - Limits.Quiet keeps running across attempts, from PumpState.AtMS, but not from before
//     Options.Since. A line that restarts it counts from when an attempt reads it.
//   - Limits.Retry does the same, from PumpState.RetryingMS.
//   - With Options.Serves, Limits.Quiet and Limits.Retry restart: between attempts, nobody
//     served the model.
//   - Limits.Request, and the time that an interrupt may take, restart: the lines of an
//     earlier attempt may have been lost with its wire.
//   - Limits.Silence restarts: only an attached pump can notice silence and ask for a sign
//     of life.
//   - Limits.StartUp and the Limits.Request of the opening restart: maybe no pump was
//     attached when codex wrote its first line.
//   - Limits.Attach belongs to one attachment.
//
// A turn that exceeds a limit may have had effects, so it is interrupted and never repeated
// (promise 3 of docs/explanation/guarantees.md). The session's queue is kept. A message
// that codex refused for overload had no effect, so the workflow sends it again later
// (promise 11).

// Defaults of Limits, and bounds that are not configurable.
const (
	defaultSettle  = 100 * time.Millisecond
	defaultRequest = 60 * time.Second
	defaultStartUp = 60 * time.Second
	defaultTurn    = 24 * time.Hour
	defaultAttach  = 12 * time.Hour
	defaultSilence = 2 * time.Minute
	// defaultQuiet is far beyond the 5 minutes of silence after which codex reports a
	// retry, which counts as a word. So it applies only if codex is stuck, or if a provider
	// keeps a stream open and sends nothing.
	defaultQuiet   = 30 * time.Minute
	defaultRetry   = 30 * time.Minute
	defaultExcerpt = 8 << 10
	defaultBytes   = 256 << 20

	// longBacklog is the unread journal beyond which interrupts are sent before it is read.
	longBacklog = 16 << 20

	// Bounds on the texts of a result, at most 768 KiB in all: Temporal takes 2 MiB, and a
	// history is read many times. All are bytes of JSON (see wire.Len).
	maxFinal    = 32 << 10
	maxRequests = 64        // open at once; further ones are refused
	maxAsked    = 128 << 10 // excerpts of all requests together, without:
	maxSummary  = 512
	maxCWD      = 1 << 10
	maxName     = 200
	maxBulk     = 32 << 10  // parts of one request that are never cut
	maxAllBulk  = 128 << 10 // the same of all open requests
	maxURL      = 4 << 10

	maxQuestions = 32 // of one request
	maxProblem   = 4 << 10

	maxOpenItems = 64
	// linger is how long a pump with open requests waits for silent items. It is short:
	// codex has been seen to withhold the end of a quick command while another one waited
	// for approval.
	linger = 2 * time.Second
	// cleanGrace is how long the pump waits for commands that an interrupt left running.
	cleanGrace = 5 * time.Second
	// idleGrace is how long the pump waits for a turn's end once the thread is idle.
	idleGrace = 10 * time.Second
)

func (l Limits) orDefaults() Limits {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&l.Settle, defaultSettle)
	set(&l.Request, defaultRequest)
	set(&l.StartUp, defaultStartUp)
	set(&l.Turn, defaultTurn)
	set(&l.Attach, defaultAttach)
	set(&l.Silence, defaultSilence)
	if l.Quiet == 0 {
		l.Quiet = defaultQuiet
	}
	if l.Retry == 0 {
		l.Retry = defaultRetry
	}
	if l.Line <= 0 {
		l.Line = wire.DefaultMaxLine
	}
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	if l.Excerpt <= 0 {
		l.Excerpt = defaultExcerpt
	}
	return l
}
