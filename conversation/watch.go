package conversation

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// A watch gives up a running turn that does not go on. deadlines.go says which clocks
// continue across attempts. The part owns the ask for a sign of life. It may call the asks,
// and the turns, which end an idle turn. It reads the clocks of the delivery, of the turn's
// time and of the quiet.
type watch struct {
	*core
	asks     *asks
	delivery *delivery
	turns    *turns
	quiet    *quiet
	time     *turnTime
}

func (w *watch) wake(soon func(time.Duration)) {
	if w.st.TurnID != "" {
		soon(w.time.ends())
		soon(w.lastLine + w.lim.Silence)
		if w.quiet.counts() {
			soon(w.quiet.since + w.lim.Quiet)
		}
		if w.quiet.unreached() {
			soon(w.quiet.retried + w.lim.Retry)
		}
		if a := w.asks.all[askLife]; a != nil && a.sent {
			soon(a.first + a.limit)
		}
		if len(w.st.Open) > 0 {
			soon(w.lastLine + linger)
		}
	}
	if w.st.Idle {
		soon(max(w.turns.idleAt, w.lastLine) + idleGrace)
	}
}

func (w *watch) expire() {
	switch {
	case w.st.TurnID == "":
	case w.st.Idle && w.now-max(w.turns.idleAt, w.lastLine) >= idleGrace:
		w.turns.idle()
	case w.delivery.interruptAt > 0 && w.now-w.delivery.interruptAt >= w.lim.Request:
		w.giveUp(TimedOut, problem(protocol.EndRequestTimeout, fmt.Sprintf("the turn did not end within %s of its interrupt", w.lim.Request)))
	case w.mute():
		w.giveUp(TimedOut, problem(protocol.EndSilent, fmt.Sprintf("codex said nothing for %s, and did not answer %s within %s", w.lim.Silence, wire.MethodRead, w.lim.Request)))
	case w.quiet.counts() && w.now-w.quiet.since >= w.lim.Quiet:
		w.giveUp(TimedOut, problem(protocol.EndQuietAfterTool, fmt.Sprintf("the model said nothing for %s after a tool had ended", w.lim.Quiet)))
	case w.quiet.unreached() && w.now-w.quiet.retried >= w.lim.Retry:
		w.giveUp(TimedOut, problem(protocol.EndNetwork, fmt.Sprintf("codex did nothing but try again to reach its provider for %s: %s", w.lim.Retry, w.st.Retrying)))
	case !w.st.waits() && w.now >= w.time.ends():
		w.giveUp(TimedOut, problem(protocol.EndTurnTimeout, w.quiet.withRetry(fmt.Sprintf("the turn did not end within %s", w.lim.Turn))))
	}
}

// listen asks for a sign of life in a long silence. A process can live and never write
// again, as seen after the disk of its journal had been full. While a model thinks, codex
// answers.
func (w *watch) listen() {
	a := w.asks.all[askLife]
	switch {
	case w.st.TurnID == "" || len(w.st.Open) > 0 && !w.st.working():
		return
	case a == nil:
		a = &ask{}
		fallthrough
	case a.done || a.sent && w.lastLine > a.first: // any line is a sign of life
		try := a.try
		if a.tried {
			try++
		}
		a = &ask{method: wire.MethodRead, limit: w.lim.Request, optional: true, try: try,
			params: wire.ThreadReadParams{ThreadID: w.st.ThreadID}}
		w.asks.all[askLife] = a
	}
	if w.now-w.lastLine >= w.lim.Silence {
		w.asks.send(askLife)
	}
}

// mute reports whether codex gave no sign of life when asked.
func (w *watch) mute() bool {
	a := w.asks.all[askLife]
	return a != nil && a.sent && !a.done && w.lastLine <= a.first && w.now-a.first >= a.limit
}
