package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strconv"
	"time"
)

// A machine is the pump without its wire: lines and ticks in, lines out, no
// goroutine, no clock. What it hands to the sink and puts into the state
// depends on the lines and the input alone; the time decides only when to ask
// again, when to give up and when to return.
type machine struct {
	in   PumpInput
	opt  Options
	lim  Limits
	sink Sink
	log  *slog.Logger

	st   PumpState
	size int64 // journal length when the wire was attached
	out  [][]byte
	err  error // of the sink, or of encoding

	now      time.Duration // since the pump began
	lastLine time.Duration
	caught   bool // everything up to size was read
	canceled bool

	line    Line // the one at hand
	pieces  pieceReader
	perLine int // entries that it made so far

	fresh   bool // the incarnation has to be opened
	inited  bool
	greeted bool
	// opening says that the opening has begun; before says that initialize
	// had been answered by then.
	opening, before, looked bool
	asks                    [len(askNames)]*ask
	barred                  bool // the barrier was answered
	sends                   []*send
	autos                   []auto
	models                  ModelList

	wants    []tokenWant     // for the driver to ask the broker
	wanted   map[string]bool // those and earlier ones
	loginOf  int64           // generation of the token to log in with
	loginAt  time.Duration   // when codex took the login
	loggedIn bool            // codex said that the login is complete
	tokenAt  time.Duration   // when codex asked for a token last

	calls  []OpenCall               // for the driver to have carried out
	called map[string]time.Duration // those and earlier ones, and since when

	items     map[itemKey][]wireChange // open file changes, for the requests about them
	texts     map[itemKey]*unfinished  // of open items
	held      map[itemKey]tail         // of open items, by their ids
	requests  []*Request               // seen in this pump and open, whole
	demands   map[string]*asked        // what the open requests ask, by their ids
	resolved  []json.RawMessage
	judgedNow []Judged // by a policy, in this pump

	unreportedAt time.Duration // when the oldest unreported request came
	resolvedAt   time.Duration // when the first of resolved was seen
	timed        bool          // the line at hand added to the turn's time
	fault        *Problem      // codex's last word on the running turn, if that is an error
	timeUp       bool          // the turn was interrupted by this pump's clock
	countedAt    time.Duration // when the turn's time was counted last
	turnAt       time.Duration // since when this pump sees the turn run
	idleAt       time.Duration
	quietAt      time.Duration // since when the model has nothing to wait for, and says nothing
	interruptAt  time.Duration

	diff    *TurnDiff // the newest one that this pump has seen
	turnEnd *TurnEnd
	endedAt time.Duration
	reason  PumpReason
	problem *Problem
	result  *PumpResult
}

func newMachine(in PumpInput, sink Sink, opt Options, size int64) (*machine, error) {
	m := &machine{
		in: in, opt: opt, lim: in.Limits.orDefaults(), sink: sink, log: opt.Log,
		st: cloneState(in.State), size: size,
		items: map[itemKey][]wireChange{},
		texts: map[itemKey]*unfinished{},
		held:  map[itemKey]tail{},
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if err := m.validate(); err != nil {
		return nil, fmt.Errorf("pump of session %q: %w", in.Session, err)
	}
	m.fresh = m.st.Opened != m.st.Cursor.Incarnation
	if m.fresh {
		// What waited in an earlier process died with it.
		m.dropOpen(func(OpenRequest) bool { return true })
		m.st.Items, m.st.TurnID, m.st.Idle, m.st.Budget = nil, "", false, ""
		m.modelSpoke()
		m.st.Spent.Over, m.st.Spent.CountedMS, m.st.Spent.Stopped = "", 0, false
		m.st.Trimmed, m.st.Untrimmable = 0, false
		m.st.TokenAsks, m.st.Login, m.st.Calls = nil, 0, nil
		m.st.Begins, m.st.Named, m.st.Inner = "", "", ""
	}
	m.expectAnswers()
	for _, n := range in.Notes {
		m.note(n)
	}
	m.takeTell()
	for _, s := range in.Sends {
		m.sends = append(m.sends, &send{Send: s, state: Decided, uncertain: s.Uncertain || opt.Attempt > 1})
	}
	m.countDecisions()
	m.resumeJudged()
	m.takeBegun()
	m.resumeBudget()
	return m, m.err
}

func cloneState(s PumpState) PumpState {
	s.Open = append([]OpenRequest(nil), s.Open...)
	s.Items = append([]OpenItem(nil), s.Items...)
	s.TokenAsks = append([]json.RawMessage(nil), s.TokenAsks...)
	s.Calls = append([]OpenCall(nil), s.Calls...)
	if s.Rewind > s.Cursor.Offset {
		s.Rewind = s.Cursor.Offset
	}
	return s
}

func (m *machine) validate() error {
	switch {
	case m.in.Prefix == "":
		return fmt.Errorf("no prefix for the ids of requests")
	case m.st.Cursor.Incarnation < 1:
		return fmt.Errorf("incarnation %d: they count from 1", m.st.Cursor.Incarnation)
	case m.st.Cursor.Offset < 0 || m.st.Rewind < 0:
		return fmt.Errorf("cursor %d, rewind %d: offsets are not negative", m.st.Cursor.Offset, m.st.Rewind)
	}
	if m.st.Opened != m.st.Cursor.Incarnation {
		t := m.in.Thread
		if !path.IsAbs(t.CWD) {
			return fmt.Errorf("thread's cwd %q is not absolute (codex would take it as it is)", t.CWD)
		}
		if t.ApprovalPolicy == "" || t.Sandbox == "" && t.Permissions == "" {
			return fmt.Errorf("thread needs an approval policy, and a sandbox or a permission profile")
		}
	}
	if err := CheckTools(m.in.Thread.Tools); err != nil {
		return err
	}
	if err := m.in.Tell.validate(); err != nil {
		return err
	}
	seen := map[string]bool{}
	if m.in.Tell != nil {
		seen[m.in.Tell.ID] = true
	}
	for _, s := range m.in.Sends {
		switch {
		case s.ID == "" || seen[s.ID]:
			return fmt.Errorf("send %q: ids are unique and not empty", s.ID)
		case s.Kind == SendDecision && !validID(s.RPC):
			return fmt.Errorf("send %q: a decision names the request it answers", s.ID)
		case s.Kind != SendDecision && s.Kind != SendTurn && s.Kind != SendSteer && s.Kind != SendInterrupt:
			return fmt.Errorf("send %q: unknown kind %q", s.ID, s.Kind)
		}
		if err := s.checkInputs(); err != nil {
			return err
		}
		if err := errors.Join(s.Do.check(), s.Review.Check()); err != nil {
			return fmt.Errorf("send %q: %w", s.ID, err)
		}
		seen[s.ID] = true
	}
	return nil
}

// atStart is called once, before the first line.
func (m *machine) atStart() {
	if m.in.From() >= m.size {
		m.caught = true
	}
	if m.size-m.st.Cursor.Offset > longBacklog && !m.fresh && m.st.TurnID != "" && !m.opt.Over {
		m.interruptNow()
	}
	m.step()
}

// caughtUp is called when every byte up to size was read, the last line
// perhaps still without its end.
func (m *machine) caughtUp(now time.Duration) {
	m.now = now
	m.upToDate()
	m.step()
}

// upToDate begins what can only be judged behind the backlog: what went out
// before it was read is answered behind it.
func (m *machine) upToDate() {
	if m.caught {
		return
	}
	m.caught = true
	for _, s := range m.sends {
		if s.wrote {
			s.first = m.now
		}
	}
}

// tick lets time pass.
func (m *machine) tick(now time.Duration) {
	m.now = now
	m.step()
}

// cancel asks for the pump's return. It does return only once it has read what
// was in the journal at its start: an earlier attempt may have come that far,
// and the entries of both must be the same.
func (m *machine) cancel(now time.Duration) {
	m.now, m.canceled = now, true
	m.step()
}

// ended is called when the process is gone and its journal read to the end.
func (m *machine) ended(now time.Duration) {
	m.now, m.caught = now, true
	if m.result != nil || m.err != nil {
		return
	}
	if m.turnEnd != nil {
		m.finish(TurnEnded)
		return
	}
	m.recordUnfinished(true)
	if m.err != nil {
		return
	}
	m.dropOpen(func(OpenRequest) bool { return true })
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

// step does whatever is due now and decides whether to return.
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
	m.flushAutos()
	if m.turnEnd != nil {
		m.clean()
		m.ascertain()
		return
	}
	if m.canceled || m.reason != "" {
		return
	}
	m.getTokens()
	m.callTools()
	m.expire()
	if m.reason != "" {
		return
	}
	if m.fresh {
		m.open()
	}
	if !m.fresh {
		m.questions()
	}
	if !m.fresh && m.barrier() {
		m.deliver()
		m.clean()
	}
	if !m.fresh {
		m.listen()
	}
}

// verdict returns from the pump where a rule says so; the order of the rules
// is the order of importance.
func (m *machine) verdict() {
	switch {
	case m.turnEnd != nil:
		if m.cleaned() && m.ascertained() || m.canceled || m.now-m.endedAt >= cleanGrace {
			m.finish(TurnEnded)
		}
	case m.reason != "":
		m.finish(m.reason)
	case m.canceled:
		m.finish(PumpCancelled)
	case len(m.st.TokenAsks) > 0 && m.now-m.tokenAt < tokenGrace: // codex does not wait for long
	case m.stopping() && m.now < m.lim.Attach:
	case m.unreported() && m.calling(): // not for long either
	case m.unreported() && (m.now-m.lastLine >= m.lim.Settle && !m.st.Owes() || m.now-m.unreportedAt >= 10*m.lim.Settle):
		m.finish(RequestsOpen)
	case m.now >= m.lim.Attach:
		m.finish(Bound)
	case m.unreported() || m.fresh || !m.settled() || len(m.st.Calls) > 0:
	case m.st.TurnID == "":
		m.finish(Bound)
	case m.waiting() > 0 && (!m.working() || m.now-m.lastLine >= linger):
		m.finish(RequestsOpen)
	case len(m.resolved) > 0 && m.interruptAt == 0 && m.now-m.resolvedAt >= 10*m.lim.Settle:
		// Somebody may be about to decide what codex asks no more, and the
		// turn may go on for hours.
		m.finish(Bound)
	}
}

// settled reports whether nothing is left to send or to wait for.
func (m *machine) settled() bool {
	for _, s := range m.sends {
		if !s.settled() && !m.tellWaits(s) {
			return false
		}
	}
	return m.asked()
}

// finish builds the result.
func (m *machine) finish(why PumpReason) {
	m.handDiff()
	if m.err != nil {
		return
	}
	r := PumpResult{Reason: why, Turn: m.turnEnd, Problem: m.problem.excerpt(), Resolved: m.resolved, Models: m.models}
	if why != ProcessEnded {
		r.Requests = m.report()
	}
	r.Busy = m.waiting() > 0 && (m.running() > 0 || m.st.Owes())
	r.Judged = m.judgedNow
	m.keepBudget()
	for _, s := range m.sends {
		if s.own {
			continue
		}
		r.Deliveries = append(r.Deliveries, Delivery{ID: s.ID, State: s.told(), Error: excerpt(m.redact(s.text), maxProblem)})
	}
	m.st.Rewind = max(m.st.Rewind, m.rewind()) // what lies below may be gone from the host
	r.State = m.st
	m.result = &r
}

func (m *machine) write(o outgoing) {
	line, err := o.encode()
	if err != nil {
		m.err = fmt.Errorf("encode %s: %w", o.Method, err)
		return
	}
	m.out = append(m.out, line)
}

// entry gives the sink a transcript entry of the line at hand. Its id is the
// line's place, so the same journal gives the same ids for ever.
func (m *machine) entry(e Entry) {
	e.ID = "i" + strconv.Itoa(m.st.Cursor.Incarnation) + "." + strconv.FormatInt(m.line.Offset, 10)
	if m.perLine > 0 {
		e.ID += "-" + strconv.Itoa(m.perLine)
	}
	m.perLine++
	e.At = m.at()
	m.emit(e)
}

// at is the time of the line at hand.
func (m *machine) at() time.Time { return time.UnixMilli(m.st.AtMS).UTC() }

func (m *machine) note(n Note) {
	m.emit(Entry{ID: n.ID, At: n.At.UTC(), Turn: n.Turn, Type: n.Type, Text: n.Text, Data: n.Data})
}

func (m *machine) emit(e Entry) {
	if m.err != nil {
		return
	}
	e.Seq = m.st.Seq + 1
	if err := m.sink.Entry(m.redactEntry(e)); err != nil {
		m.err = fmt.Errorf("hand over transcript entry %d: %w", e.Seq, err)
		return
	}
	m.st.Seq = e.Seq
}

func orWord(s, or string) string {
	if s == "" {
		return or
	}
	return s
}
