package conversation

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
)

// A machine is the pump without its wire, goroutines and clock. Its output and state depend
// only on the lines and the input; time decides only when to ask again, give up or return.
//
// Its parts share a core. Each part owns some fields of the state and may call the parts
// that its comment names. The machine gives each message to its part (machine_messages.go),
// lets the parts do what is due, and decides when to return.
type machine struct {
	*core
	asks      *asks
	autos     *autos
	items     *items
	demands   *demands
	quiet     *quiet
	time      *turnTime
	questions *questions
	logins    *logins
	opening   *opening
	delivery  *delivery
	turns     *turns
	requests  *requests
	calls     *calls
	spending  *spending
	noticed   *noticed
	watch     *watch

	pieces wire.PieceReader

	begun  bool // codex began another turn after the ended one
	result *PumpResult
}

func newMachine(in PumpInput, sink Sink, opt Options, size int64) (*machine, error) {
	m := assemble(newCore(in, sink, opt, size))
	if err := in.validate(m.st); err != nil {
		return nil, fmt.Errorf("pump of session %q: %w", in.Session, err)
	}
	m.opening.fresh = m.st.Opened != m.st.Cursor.Incarnation
	if m.opening.fresh {
		// These requests ended with their codex process.
		m.requests.drop(func(OpenRequest) bool { return true })
		m.st.forgetProcess()
	}
	m.opening.expect()
	m.questions.expect()
	for _, n := range in.Notes {
		m.note(n)
	}
	m.requests.countDecisions()
	m.delivery.resume()
	m.spending.resume()
	m.time.resume()
	m.quiet.resume(m.time.within)
	return m, m.err
}

func assemble(c *core) *machine {
	m := &machine{core: c}
	m.asks = &asks{core: c}
	m.autos = &autos{core: c}
	m.items = newItems(c)
	m.demands = &demands{core: c, byID: map[string]*asked{}}
	m.quiet = &quiet{core: c}
	m.time = &turnTime{core: c}
	m.questions = &questions{core: c, asks: m.asks}
	m.logins = &logins{core: c, asks: m.asks, autos: m.autos}
	m.opening = &opening{core: c, asks: m.asks, logins: m.logins}
	m.delivery = &delivery{core: c, asks: m.asks, demands: m.demands}
	m.spending = &spending{core: c, time: m.time, delivery: m.delivery}
	m.requests = &requests{core: c, autos: m.autos, demands: m.demands, items: m.items, quiet: m.quiet, time: m.time, delivery: m.delivery, spending: m.spending}
	m.calls = &calls{core: c, autos: m.autos, requests: m.requests}
	m.noticed = &noticed{core: c, items: m.items}
	m.turns = &turns{core: c, noticed: m.noticed, items: m.items, quiet: m.quiet, time: m.time, delivery: m.delivery, requests: m.requests, calls: m.calls, spending: m.spending}
	m.watch = &watch{core: c, asks: m.asks, delivery: m.delivery, turns: m.turns, quiet: m.quiet, time: m.time}
	m.delivery.turns = m.turns // messages begin turns, and a turn's end settles messages
	return m
}

// atStart is called once, before the first line.
func (m *machine) atStart() {
	if m.in.From() >= m.size {
		m.caught = true
	}
	if m.size-m.st.Cursor.Offset > longBacklog && !m.opening.fresh && m.st.TurnID != "" && !m.opt.Over {
		m.delivery.interruptNow()
	}
	m.step()
}

// caughtUp is called when every byte up to size has been read; the last line may be
// incomplete.
func (m *machine) caughtUp(now time.Duration) {
	m.now = now
	m.upToDate()
	m.step()
}

// upToDate marks the backlog as read. Time limits of answers start here, because answers
// come after the backlog.
func (m *machine) upToDate() {
	if m.caught {
		return
	}
	m.caught = true
	m.delivery.upToDate()
}

func (m *machine) tick(now time.Duration) {
	m.now = now
	m.step()
}

func (m *machine) brokered(a tokenAnswered, now time.Duration) {
	m.now = now
	if m.result != nil || m.err != nil {
		return
	}
	m.logins.brokered(a)
	m.step()
}

func (m *machine) toolReplied(r toolReplied, now time.Duration) {
	m.now = now
	if m.result != nil || m.err != nil {
		return
	}
	m.calls.replied(r)
	m.step()
}

func (m *machine) wake() time.Duration {
	at := m.lim.Attach
	soon := func(t time.Duration) {
		if t > m.now && t < at {
			at = t
		}
	}
	m.asks.wake(soon)
	m.delivery.wake(soon)
	m.requests.wake(soon)
	m.logins.wake(soon)
	m.calls.wake(soon)
	m.spending.wake(soon)
	m.watch.wake(soon)
	m.turns.wake(soon)
	return at
}

// cancel makes the pump return when it has read the journal up to the length at its start:
// an earlier attempt may have got that far, and both must make the same entries.
func (m *machine) cancel(now time.Duration) {
	m.now, m.canceled = now, true
	m.step()
}

// ended is called when the process has ended and the whole journal was read.
func (m *machine) ended(now time.Duration) {
	m.now, m.caught = now, true
	if m.result != nil || m.err != nil {
		return
	}
	if m.turns.end != nil {
		m.finish(TurnEnded)
		return
	}
	m.items.recordUnfinished(true)
	m.noticed.turnEnds()
	if m.err != nil {
		return
	}
	if m.st.TurnID != "" {
		m.turns.keepBroken()
	}
	m.requests.drop(func(OpenRequest) bool { return true })
	m.st.Items, m.st.Calls = nil, nil
	if m.problem == nil {
		how, tail := "its output ended", ""
		if m.opt.Exit != nil {
			how, tail = m.opt.Exit()
		}
		m.problem = ExitProblem(how, m.redact(tail))
	}
	m.finish(ProcessEnded)
}

func (m *machine) step() {
	if m.result != nil || m.err != nil || !m.caught || m.opt.Over {
		return
	}
	m.advance()
	if m.err == nil && m.result == nil {
		m.verdict()
	}
}

func (m *machine) advance() {
	m.autos.flush()
	if m.turns.end != nil {
		m.delivery.clean()
		m.delivery.ascertain()
		return
	}
	if m.canceled || m.reason != "" {
		return
	}
	m.logins.get()
	m.calls.begin()
	m.expire()
	if m.reason != "" {
		return
	}
	if m.opening.fresh {
		m.opening.open()
	}
	if !m.opening.fresh {
		m.questions.ask()
	}
	if !m.opening.fresh && m.delivery.barrier() {
		m.delivery.deliver()
		m.delivery.clean()
	}
	if !m.opening.fresh {
		m.watch.listen()
	}
}

func (m *machine) expire() {
	m.spending.timeIsUp()
	for _, expire := range []func(){m.asks.expire, m.delivery.expire, m.watch.expire} {
		if expire(); m.reason != "" {
			return
		}
	}
}

// verdict finishes the pump if there is a reason. The order of the cases matters.
func (m *machine) verdict() {
	switch {
	case m.turns.end != nil:
		if m.delivery.cleaned() && m.delivery.ascertained() && !m.turns.mayBeginAnother() && !m.turns.awaitsServers() || m.canceled || m.now-m.turns.endedAt >= cleanGrace {
			m.finish(TurnEnded)
		}
	case m.reason != "":
		m.finish(m.reason)
	case m.canceled:
		m.finish(PumpCancelled)
	case len(m.st.TokenAsks) > 0 && m.now-m.logins.askedAt < tokenGrace: // codex does not wait for long
	case (m.spending.stopping() || m.st.Interrupted) && m.now < m.lim.Attach: // only the turn's end is awaited
	case m.turns.foreignNews():
		m.finish(TurnBegun)
	case m.requests.unreported() && m.calls.calling(): // a tool call does not take long
	case m.requests.unreported() && (m.now-m.lastLine >= m.lim.Settle && !m.st.Owes() || m.now-m.requests.unreportedAt >= 10*m.lim.Settle):
		m.finish(RequestsOpen)
	case m.now >= m.lim.Attach:
		m.finish(Bound)
	case m.requests.unreported() || m.opening.fresh || !m.settled() || len(m.st.Calls) > 0:
	case m.st.TurnID == "":
		m.finish(Bound)
	case m.st.waiting() > 0 && (!m.st.working() || m.now-m.lastLine >= linger):
		m.finish(RequestsOpen)
	case len(m.requests.resolved) > 0 && m.delivery.interruptAt == 0 && m.now-m.requests.resolvedAt >= 10*m.lim.Settle:
		// People may be about to decide the requests that codex has withdrawn, and the turn
		// may go on for hours.
		m.finish(Bound)
	}
}

func (m *machine) settled() bool {
	return m.delivery.settled() && m.questions.settled()
}

func (m *machine) finish(why PumpReason) {
	m.turns.handDiff()
	if m.err != nil {
		return
	}
	r := PumpResult{Reason: why, Turn: m.turns.end, Begun: m.begun, Problem: cutProblem(m.problem), Resolved: m.requests.resolved, Models: m.questions.models}
	if why != ProcessEnded {
		r.Requests = m.requests.report()
	}
	r.Busy = m.st.waiting() > 0 && (m.st.running() > 0 || m.st.Owes())
	r.Judged = m.requests.judged
	r.Waited = m.time.waitedUntilNow()
	m.spending.keep()
	m.st.Rewind = max(m.st.Rewind, m.st.rewind()) // the host may have discarded what is below Rewind
	r.Deliveries = m.delivery.report()
	r.State = m.st
	m.result = &r
}

func orWord(s, or string) string {
	if s == "" {
		return or
	}
	return s
}
