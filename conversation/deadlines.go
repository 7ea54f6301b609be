package conversation

import (
	"fmt"
	"time"
)

// Defaults of Limits, and bounds that nobody had a reason to set yet.
const (
	defaultSettle  = 100 * time.Millisecond
	defaultRequest = 60 * time.Second
	defaultStartUp = 60 * time.Second
	defaultTurn    = 24 * time.Hour
	defaultAttach  = 12 * time.Hour
	defaultSilence = 2 * time.Minute
	// defaultQuiet is far beyond what codex itself bears of a provider that says
	// nothing (5 minutes, then it says that it tries anew, which counts as a
	// word): so it strikes only where codex lives and does not know that it is
	// stuck, or where a provider keeps a stream alive without a word in it.
	defaultQuiet   = 30 * time.Minute
	defaultExcerpt = 8 << 10
	defaultBytes   = 256 << 20

	// longBacklog is how much of a journal may be read first.
	longBacklog = 16 << 20

	// What a result holds of texts, at most 768 KiB in all, whatever codex says:
	// Temporal takes 2 MiB, and a history is read again and again. All are bytes
	// of JSON (see wireLen).
	maxFinal    = 32 << 10  // final text
	maxRequests = 64        // that may be open; further ones are refused
	maxAsked    = 128 << 10 // of all requests, but for
	maxSummary  = 512       // the summary of each one
	maxCWD      = 1 << 10   // and its folder
	maxName     = 200       // and the name of a host, a server or a tool
	maxBulk     = 32 << 10  // questions, permissions and such of one request, which are never cut
	maxAllBulk  = 128 << 10 // and of all that are open
	maxURL      = 4 << 10

	maxQuestions = 32      // of one request
	maxProblem   = 4 << 10 // message of a problem, or of a refusal

	maxOpenItems = 64
	// linger is how long a pump with nothing to report stays for items that
	// run beside the open requests but say nothing. Not for long: codex has
	// been seen to keep back the end of a quick command while another one
	// waited for its approval.
	linger = 2 * time.Second
	// cleanGrace is how long a turn's end waits for the commands that an
	// interrupt left behind to be ended.
	cleanGrace = 5 * time.Second
	// idleGrace is how long codex may call a thread idle before a turn that
	// never said how it ended is given up.
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
		l.Line = DefaultMaxLine
	}
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	if l.Excerpt <= 0 {
		l.Excerpt = defaultExcerpt
	}
	return l
}

// wake is when the next tick is due.
func (m *machine) wake() time.Duration {
	at := m.lim.Attach
	soon := func(t time.Duration) {
		if t > m.now && t < at {
			at = t
		}
	}
	for _, a := range m.asks {
		switch {
		case a == nil || a.done:
		case a.sent:
			soon(a.first + a.limit)
		case a.next > 0:
			soon(a.next)
		}
	}
	for _, s := range m.sends {
		switch {
		case s.settled():
		case s.wrote:
			soon(s.first + m.lim.Request)
		case s.next > 0:
			soon(s.next)
		}
	}
	if m.unreported() {
		soon(m.lastLine + m.lim.Settle)
		soon(m.unreportedAt + 10*m.lim.Settle)
	}
	if len(m.resolved) > 0 {
		soon(m.resolvedAt + 10*m.lim.Settle)
	}
	if at, bounded := m.timeLeft(); bounded {
		soon(at)
	}
	if m.st.TurnID != "" {
		soon(m.turnAt + m.lim.Turn)
		soon(m.lastLine + m.lim.Silence)
		if m.mayBeQuiet() {
			soon(m.quietAt + m.lim.Quiet)
		}
		if a := m.asks[askLife]; a != nil && a.sent {
			soon(a.first + a.limit)
		}
		if len(m.st.Open) > 0 {
			soon(m.lastLine + linger)
		}
	}
	if a := m.asks[askLogin]; a != nil && a.done && !m.loggedIn {
		soon(m.loginAt + loginGrace)
	}
	if len(m.st.TokenAsks) > 0 {
		soon(m.tokenAt + tokenGrace)
	}
	m.callsWake(soon)
	if m.st.Idle {
		soon(max(m.idleAt, m.lastLine) + idleGrace)
	}
	if m.interruptAt > 0 {
		soon(m.interruptAt + m.lim.Request)
	}
	if m.turnEnd != nil {
		soon(m.endedAt + cleanGrace)
	}
	return at
}

// expire turns what took too long into a reason to return.
func (m *machine) expire() {
	m.timeIsUp()
	for _, a := range m.asks {
		if a == nil || a.done || a.optional || !a.tried || m.now-a.first < a.limit {
			continue
		}
		kind := EndRequestTimeout
		if a.method == methodInitialize {
			kind = EndStartTimeout
		}
		m.giveUp(TimedOut, problem(kind, fmt.Sprintf("codex did not answer %s within %s", a.method, a.limit)))
		return
	}
	for _, s := range m.sends {
		if s.settled() || !s.tried || m.now-s.first < m.lim.Request {
			continue
		}
		if !s.wrote && s.own {
			m.giveUp(TimedOut, problem(EndRequestTimeout, fmt.Sprintf("codex would not interrupt the turn that is over its budget within %s", m.lim.Request)))
			return
		}
		if !s.wrote && s.early {
			m.giveUp(TimedOut, problem(EndRequestTimeout, fmt.Sprintf("codex would not interrupt the running turn within %s: it says that none is active", m.lim.Request)))
			return
		}
		if !s.wrote { // codex said all the time that it is overloaded
			s.settle(Rejected, "codex is overloaded")
			m.problem = problem(EndOverloaded, "codex answered for "+m.lim.Request.String()+" that it is overloaded")
			continue
		}
		m.giveUp(TimedOut, problem(EndRequestTimeout, fmt.Sprintf("codex did not acknowledge the %s %q within %s", s.Kind, s.ID, m.lim.Request)))
		return
	}
	switch {
	case m.st.TurnID == "":
	case m.st.Idle && m.now-max(m.idleAt, m.lastLine) >= idleGrace:
		m.idleTurn()
	case m.interruptAt > 0 && m.now-m.interruptAt >= m.lim.Request:
		m.giveUp(TimedOut, problem(EndRequestTimeout, fmt.Sprintf("the turn did not end within %s of its interrupt", m.lim.Request)))
	case m.mute():
		m.giveUp(TimedOut, problem(EndSilent, fmt.Sprintf("codex said nothing for %s, and did not answer %s within %s", m.lim.Silence, methodRead, m.lim.Request)))
	case m.mayBeQuiet() && m.now-m.quietAt >= m.lim.Quiet:
		m.giveUp(TimedOut, problem(EndQuietAfterTool, fmt.Sprintf("the model said nothing for %s after a tool had ended", m.lim.Quiet)))
	case m.now-m.turnAt >= m.lim.Turn:
		m.giveUp(TimedOut, problem(EndTurnTimeout, m.retried(fmt.Sprintf("the turn did not end within %s", m.lim.Turn))))
	}
}

// listen asks codex for a sign of life when a running turn has been silent for
// long. A process can live and never say a word again: seen after its journal's
// disk was full for a moment. A model may think for long all the same: codex
// answers meanwhile.
func (m *machine) listen() {
	a := m.asks[askLife]
	switch {
	case m.st.TurnID == "" || len(m.st.Open) > 0 && !m.working():
		return
	case a == nil:
		a = &ask{}
		fallthrough
	case a.done || a.sent && m.lastLine > a.first: // any word is a sign
		try := a.try
		if a.tried {
			try++
		}
		a = &ask{method: methodRead, limit: m.lim.Request, optional: true, try: try,
			params: threadReadParams{ThreadID: m.st.ThreadID}}
		m.asks[askLife] = a
	}
	if m.now-m.lastLine >= m.lim.Silence {
		m.ask(askLife)
	}
}

// mute reports whether codex gave no sign of life when it was asked for one.
func (m *machine) mute() bool {
	a := m.asks[askLife]
	return a != nil && a.sent && !a.done && m.lastLine <= a.first && m.now-a.first >= a.limit
}

func (m *machine) giveUp(why PumpReason, p *Problem) {
	if m.reason == "" {
		m.reason, m.problem = why, m.redactProblem(p)
	}
}
