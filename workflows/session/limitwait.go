package session

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

const (
	// WaitAtMost bounds the wait with one message, over all tries, if no policy does.
	WaitAtMost = 6 * time.Hour
	// MaxLimitTries bounds the tries with one message.
	MaxLimitTries = 24
	// leastWait is the shortest wait, even if the limit has ended.
	leastWait = 5 * time.Second
	// MostJitter bounds the delay that spreads the tries of many sessions.
	MostJitter = 3 * time.Minute
)

// limitPauses apply if the end of a limit is not known. The last one repeats.
var limitPauses = []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute}

// AfterLimitText replaces the message of a turn that met the limit after it had effects.
const AfterLimitText = "The last turn was cut off because the limit of the account or of the provider was reached; it has ended now. " +
	"What the turn had begun may be half done or done: look at the present state first, do not blindly repeat what has effects, then go on with the task."

// limitWait is the state from the first turn that met a limit until a turn ends in another
// way.
type limitWait struct {
	Kind    string    `json:"kind"`
	Since   time.Time `json:"since"`           // end of the first turn that met it
	Until   time.Time `json:"until"`           // when the next try begins
	Reset   time.Time `json:"reset,omitzero"`  // end of the limit, if known
	Tries   int       `json:"tries,omitempty"` // turns that tried again
	Message string    `json:"message"`         // id of the message for the next try
	// AskAt is when to ask the pool for another seed; zero means not at all. Asks counts the
	// questions, and Why is the newest answer.
	AskAt time.Time `json:"ask_at,omitzero"`
	Asks  int       `json:"asks,omitempty"`
	Why   string    `json:"why,omitempty"`
	// Of and Spent say, for kind budget, whose budget is used up. Endless means that nobody knows
	// when there is more.
	Of      string `json:"of,omitempty"`
	Spent   string `json:"spent,omitempty"`
	Endless bool   `json:"endless,omitempty"`
}

// waitsOut reports whether a session waits out a limit, and for how long at most. If
// on_limit is not set, the policies decide. The shortest of their times applies.
func (s *boundsPart) waitsOut(kind string) (atMost time.Duration, waits bool) {
	if kind != protocol.EndQuota && kind != protocol.EndRateLimit || s.opt.OnLimit == protocol.LimitFail {
		return 0, false
	}
	waits = s.opt.OnLimit == protocol.LimitWait || s.opt.OnLimit == protocol.LimitSwitch
	for _, r := range s.approvals.rulings() {
		w := r.Wait
		if kind == protocol.EndQuota && w.Quota || kind == protocol.EndRateLimit && w.RateLimit {
			waits = true
			if w.AtMost == 0 {
				w.AtMost = WaitAtMost
			}
			if atMost == 0 || w.AtMost < atMost {
				atMost = w.AtMost
			}
		}
	}
	if atMost == 0 {
		atMost = WaitAtMost
	}
	return atMost, waits
}

func (s *boundsPart) mayWaitOut() bool {
	_, quota := s.waitsOut(protocol.EndQuota)
	_, rate := s.waitsOut(protocol.EndRateLimit)
	return quota || rate
}

// limitMet is called before a turn is ended. If the turn met a limit to be waited out, its
// message is queued again before all others, unless the wait would be too long.
func (s *boundsPart) limitMet(t *conversation.TurnEnd) {
	p := t.Problem
	if t.Status != "failed" || p == nil {
		s.st.Limit = nil
		return
	}
	// Without the gateway, a provider or a host has written its words.
	if p.Kind == protocol.EndBudget && p.Of != "" && s.credentials() == protocol.CredentialsGateway {
		s.budgetMet(t)
		return
	}
	atMost, waits := s.waitsOut(p.Kind)
	if !waits || s.turns.toEnd() || s.overBudget() || s.st.Said == nil && !t.Effects {
		s.st.Limit = nil
		return
	}
	now, l := workflow.Now(s.ctx), s.st.Limit
	if l == nil || l.Kind != p.Kind || !s.runs(l.Message) {
		l = &limitWait{Kind: p.Kind, Since: now}
	}
	l.Until, l.Reset = s.nextTry(l.Tries, now, p.ResetAt, atMost), p.ResetAt
	how := "on_limit=wait"
	if s.switches(p.Kind) {
		how = bySwitch
		l.AskAt, l.Asks, l.Why = now, 0, ""
		if last := l.Since.Add(atMost); l.Until.After(last) && now.Before(last) {
			l.Until = last // another seed may become free
		}
	}
	if why := l.tooLong(atMost); why != "" {
		p.Hint = why + "; " + p.Hint
		s.note(conversation.Note{Type: protocol.EntryState, Text: "the session does not wait for the end of the limit: " + why})
		s.st.Limit = nil
		return
	}
	l.Tries++
	m := s.st.Shape.of(protocol.Message{Text: AfterLimitText})
	if !t.Effects {
		m = *s.st.Said
	}
	l.Message = s.sayLater(m)
	s.st.Limit = l
	s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("the session waits for the end of the limit (%s), until %s; turn %d goes on then", l.Kind, kit.Clock(l.Until), s.st.TurnN+1),
		Data: map[string]string{"by": how, "set_by": s.opt.By, "message": l.Message, "until": l.Until.UTC().Format(time.RFC3339)}})
}

func (s *boundsPart) runs(message string) bool {
	v := s.st.turn(s.st.TurnN)
	return v != nil && v.MessageID == message
}

func (l *limitWait) tooLong(atMost time.Duration) string {
	switch {
	case l.Tries >= MaxLimitTries:
		return fmt.Sprintf("%d tries in a row ran into the limit", l.Tries+1)
	case l.Until.Sub(l.Since) > atMost:
		return fmt.Sprintf("it would wait until %s, longer than %s", kit.Clock(l.Until), atMost)
	}
	return ""
}

// nextTry returns when the next try begins. Its jitter differs between sessions, since many
// may have met the same limit. It is the same at each replay.
func (s *boundsPart) nextTry(tries int, now, reset time.Time, atMost time.Duration) time.Time {
	wait := limitPauses[min(tries, len(limitPauses)-1)]
	if tries >= len(limitPauses)-1 {
		wait = max(wait, atMost/16) // spreads the tries over atMost
	}
	if reset.After(now) {
		wait = reset.Sub(now)
	} else if !reset.IsZero() { // the limit has ended
		wait = leastWait
	}
	wait = max(wait, leastWait)
	return now.Add(wait + s.jitter(min(wait/4, MostJitter)))
}

func (s *boundsPart) jitter(most time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.id)) // never fails
	return time.Duration(h.Sum64() % uint64(most+1))
}

// sayLater queues a message of the session's own before all others, whose turn numbers rise
// by one, and returns its id.
func (s *boundsPart) sayLater(m protocol.Message) string {
	s.st.GoOnN++
	m.ID, m.Mode = fmt.Sprintf("%s.c%d", s.id, s.st.GoOnN), ""
	n := s.st.TurnN + 1
	s.messages.makeRoom()
	s.st.Queue = slices.Insert(s.st.Queue, 0, queuedMessage{N: n, Message: m})
	s.track(m.ID, kindMessage, n, queuedHere)
	if v := s.st.turn(s.st.TurnN); v != nil {
		v.FollowedBy = n
	}
	return m.ID
}

// limited reports whether the next turn waits for the end of a limit.
func (s *boundsPart) limited() bool {
	return s.waitsForLimit() && (s.st.Limit.Endless || workflow.Now(s.ctx).Before(s.st.Limit.Until))
}

func (s *boundsPart) waitsForLimit() bool {
	return s.st.Limit != nil && len(s.st.Queue) > 0 && s.st.Queue[0].ID == s.st.Limit.Message
}

// waitIsOver reports whether the view still shows a wait that has ended.
func (s *boundsPart) waitIsOver() bool {
	return !s.st.Running && !s.limited() && (s.st.Status == protocol.Waiting || s.st.Status == protocol.Parked && s.views.shown.limited)
}

func (s *boundsPart) stopWaiting() {
	s.approvals.noMoreAsked("the turn waits no more")
	s.st.Limit, s.st.Error = nil, nil
	if s.st.Status == protocol.Waiting {
		s.turns.settle()
	}
}

// endLimitWait handles an interrupt: the message that waits for the end of a limit is void.
func (s *boundsPart) endLimitWait(by *protocol.Interrupt) {
	n := s.st.Queue[0].N
	m := s.st.Queue[0].Message
	s.st.Queue = s.st.Queue[1:]
	s.st.remember(m, n)
	s.track(m.ID, kindMessage, n, voided)
	now := workflow.Now(s.ctx)
	s.st.skipTo(n)
	s.st.Skipped++ // this turn never began
	s.st.putTurn(protocol.TurnView{Session: s.id, N: n, MessageID: m.ID, Status: "interrupted", StartedAt: now, EndedAt: now,
		EndedBy: protocol.EndedByPerson, Error: &protocol.Failure{Kind: protocol.EndInterrupted, Message: interruptedBy(by) + ", while it waited for the end of a limit", Hint: protocol.HintOf(protocol.EndInterrupted)}})
	s.stopWaiting()
	s.note(conversation.Note{Type: protocol.EntryState, Turn: n, Text: interruptedBy(by) + ": the session waits for the end of the limit no more"})
	if s.opt.CloseAfter && len(s.st.Queue) == 0 && s.st.Close == nil {
		s.st.Close = &protocol.Close{By: s.opt.By}
	}
}

func (s *boundsPart) limitView() *protocol.LimitView {
	if !s.waitsForLimit() {
		return nil
	}
	l := s.st.Limit
	return &protocol.LimitView{Kind: l.Kind, Since: l.Since, Until: l.Until, ResetAt: l.Reset, Tries: l.Tries, AsksAt: l.AskAt}
}

func (s *boundsPart) limitText() string {
	l := s.st.Limit
	what := "the account's limit to end"
	if l.Kind == protocol.EndBudget {
		text := "a higher budget of its " + l.Of
		if !l.Endless {
			text += ", or the end of its period, at " + kit.Clock(l.Until)
		}
		return text
	}
	if l.Kind == protocol.EndRateLimit {
		what = "the provider's limit of requests to end"
	}
	text := fmt.Sprintf("%s, until %s (try %d)", what, kit.Clock(l.Until), l.Tries)
	if !l.AskAt.IsZero() {
		text += ", or another seed of pool " + s.opt.SeedPool
		if l.Why != "" {
			text += fmt.Sprintf(" (%s; asked again at %s)", l.Why, kit.Clock(l.AskAt))
		}
	}
	return text
}

func (s *boundsPart) setLimit() {
	if s.limited() && !s.st.Limit.Endless {
		at := s.st.Limit.Until
		if ask := s.st.Limit.AskAt; !ask.IsZero() && ask.Before(at) {
			at = ask
		}
		s.wake.Set(at)
	} else {
		s.wake.Off()
	}
}

func (s *boundsPart) onLimit() string {
	if s.opt.OnLimit == protocol.LimitSwitch {
		return protocol.LimitSwitch
	}
	if s.mayWaitOut() {
		return protocol.LimitWait
	}
	return protocol.LimitFail
}
