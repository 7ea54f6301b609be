package conversation

import (
	"time"

	"fairlead.dev/fairlead/conversation/wire"
)

// All waiting of a pump is bounded, and some bounds restart with each attempt of a
// pump. If a worker died or the wire was lost, the next attempt may begin minutes or
// hours later. Nobody was attached meanwhile.
//
//   - Limits.Turn belongs to the turn. It counts from the time when the input was first due
//     to run (Options.Since), without the time spent waiting for people.
//   - Limits.Quiet belongs to the model, which could speak while nobody was attached.
//     It also keeps running across attempts: it counts from PumpState.AtMS, but not
//     from before the input was first due (Options.Since). A line that restarts it
//     counts from when an attempt reads it.
//   - Limits.Request, and the time that an interrupt may take, restart. They measure
//     codex's answer to a line. The lines of an earlier attempt may have been lost with its
//     wire, so a missing answer to them shows nothing about codex.
//   - Limits.Silence restarts. Only an attached pump can notice that codex is silent and
//     ask it for a sign of life.
//   - Limits.StartUp and the Limits.Request of the opening restart for the same reason:
//     maybe no pump was attached when codex wrote its first line.
//   - Limits.Attach belongs to one attachment.
//
// A turn that is given up because of one of these limits was begun and may have had
// effects. So the turn is interrupted and never repeated (promise 3). The messages in
// the session's queue are kept. Overload is different: codex refused the message, which
// had no effect, so the workflow waits and sends it again (promise 11).
// docs/explanation/guarantees.md numbers the promises.

// Defaults of Limits, and bounds that are not configurable.
const (
	defaultSettle  = 100 * time.Millisecond
	defaultRequest = 60 * time.Second
	defaultStartUp = 60 * time.Second
	defaultTurn    = 24 * time.Hour
	defaultAttach  = 12 * time.Hour
	defaultSilence = 2 * time.Minute
	// defaultQuiet is far beyond the silence that codex accepts from a provider (5 minutes;
	// then it reports a retry, which counts as a word). So it applies only if codex lives
	// and is stuck without noticing, or if a provider keeps a stream open and sends
	// nothing.
	defaultQuiet   = 30 * time.Minute
	defaultExcerpt = 8 << 10
	defaultBytes   = 256 << 20

	// If more than longBacklog bytes of the journal are unread, interrupts are sent
	// before those bytes are read.
	longBacklog = 16 << 20

	// Bounds on the texts of a result, at most 768 KiB in all, whatever codex says.
	// Temporal takes 2 MiB, and a history is read many times. All are bytes of JSON
	// (see Len).
	maxFinal    = 32 << 10  // final text
	maxRequests = 64        // open at once; further ones are refused
	maxAsked    = 128 << 10 // excerpts of all requests together, without:
	maxSummary  = 512       // summary of one request
	maxCWD      = 1 << 10   // folder of one request
	maxName     = 200       // name of a host, a server or a tool
	maxBulk     = 32 << 10  // questions, permissions and other parts of one request that are never cut
	maxAllBulk  = 128 << 10 // the same of all open requests
	maxURL      = 4 << 10

	maxQuestions = 32      // of one request
	maxProblem   = 4 << 10 // message of a problem, or of a refusal

	maxOpenItems = 64
	// linger is how long a pump with open requests and nothing new to report waits for
	// silent items. It is short, because codex has been seen to withhold the end of a quick
	// command while another command waited for approval.
	linger = 2 * time.Second
	// cleanGrace is how long the pump waits, after a turn's end, for the end of the
	// commands that an interrupt left running.
	cleanGrace = 5 * time.Second
	// If codex reports the thread idle and never reports the end of the turn, the pump
	// gives up the turn after idleGrace.
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
