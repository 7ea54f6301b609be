package workflows

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// What a session does when a turn failed because the account's limit is
// reached, or the provider's for the rate of requests.
const (
	LimitFail = "fail" // it says so, and waits for a message
	LimitWait = "wait" // it waits until the limit ends, and says the same again
)

const (
	// waitAtMost is how long a session waits for one message to get through, all
	// its tries together, where no policy says so.
	waitAtMost = 6 * time.Hour
	// maxLimitTries is how often it tries meanwhile.
	maxLimitTries = 24
	// leastWait is between two tries, whatever is said of a reset.
	leastWait = 5 * time.Second
	// mostJitter bounds how long after a reset the last of many sessions comes.
	mostJitter = 3 * time.Minute
)

// limitPauses are the pauses where nobody knows when a limit ends; the last one
// is that from then on.
var limitPauses = []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute}

// afterLimitText is what codex is told where the turn that met the limit had
// begun something, so that it cannot be said again.
const afterLimitText = "The last turn was cut off because the limit of the account or of the provider was reached; it has ended now. " +
	"What the turn had begun may be half done or done: look at the present state first, do not blindly repeat what has effects, then go on with the task."

// limitWait is a session's way through a limit, from the first turn that met it
// to one that ended otherwise.
type limitWait struct {
	Kind    string    `json:"kind"`
	Since   time.Time `json:"since"`           // the first turn that met it ended
	Until   time.Time `json:"until"`           // when the next try is due
	Reset   time.Time `json:"reset,omitzero"`  // what is known of the end of the limit
	Tries   int       `json:"tries,omitempty"` // turns that said the same again
	Message string    `json:"message"`         // the one of the session's own that comes next
}

// waitsOut says whether a session waits for the end of a limit of that kind, and
// how long at most. The session's option says so, or else its policies do. Of policies that wait
// the shortest time counts, as it is written there.
func (s *session) waitsOut(kind string) (atMost time.Duration, waits bool) {
	if kind != activities.EndQuota && kind != activities.EndRateLimit || s.opt.OnLimit == LimitFail {
		return 0, false
	}
	waits = s.opt.OnLimit == LimitWait
	for _, r := range s.rulings() {
		w := r.Wait
		if kind == activities.EndQuota && w.Quota || kind == activities.EndRateLimit && w.RateLimit {
			waits = true
			if w.AtMost == 0 {
				w.AtMost = waitAtMost
			}
			if atMost == 0 || w.AtMost < atMost {
				atMost = w.AtMost
			}
		}
	}
	if atMost == 0 {
		atMost = waitAtMost
	}
	return atMost, waits
}

// mayWaitOut says that it may come to that, so that what is said has to be kept.
func (s *session) mayWaitOut() bool {
	_, quota := s.waitsOut(activities.EndQuota)
	_, rate := s.waitsOut(activities.EndRateLimit)
	return quota || rate
}

// limitMet is called before a turn is ended. Where the session is to wait, it
// puts the turn's message before all others once more, to be said when the limit
// has ended; else it says why not.
func (s *session) limitMet(t *activities.TurnEnd) {
	p := t.Problem
	if t.Status != "failed" || p == nil {
		s.st.Limit = nil
		return
	}
	atMost, waits := s.waitsOut(p.Kind)
	if !waits || s.toEnd() || s.overBudget() || s.st.Said == nil && !t.Effects {
		s.st.Limit = nil
		return
	}
	now, l := workflow.Now(s.ctx), s.st.Limit
	if l == nil || l.Kind != p.Kind || !s.runs(l.Message) {
		l = &limitWait{Kind: p.Kind, Since: now}
	}
	l.Until, l.Reset = s.nextTry(l.Tries, now, p.ResetAt, atMost), p.ResetAt
	if why := l.tooLong(atMost); why != "" {
		p.Hint = why + "; " + p.Hint
		s.note(activities.Note{Type: activities.EntryState, Text: "the session does not wait for the end of the limit: " + why})
		s.st.Limit = nil
		return
	}
	l.Tries++
	m := s.st.Shape.of(Message{Text: afterLimitText})
	if !t.Effects {
		m = *s.st.Said
	}
	l.Message = s.sayLater(m)
	s.st.Limit = l
	s.note(activities.Note{Type: activities.EntryState, Text: fmt.Sprintf("the session waits for the end of the limit (%s), until %s; turn %d goes on then", l.Kind, clock(l.Until), s.st.TurnN+1),
		Data: map[string]string{"by": "on_limit=wait", "set_by": s.opt.By, "message": l.Message, "until": l.Until.UTC().Format(time.RFC3339)}})
}

// runs says that the running turn is that message's.
func (s *session) runs(message string) bool {
	v := s.st.turn(s.st.TurnN)
	return v != nil && v.MessageID == message
}

// tooLong says why there is no further try.
func (l *limitWait) tooLong(atMost time.Duration) string {
	switch {
	case l.Tries >= maxLimitTries:
		return fmt.Sprintf("%d tries in a row have met it", l.Tries+1)
	case l.Until.Sub(l.Since) > atMost:
		return fmt.Sprintf("it would wait until %s, longer than %s", clock(l.Until), atMost)
	}
	return ""
}

// nextTry is when the next try is due. Many sessions may have met the same
// limit: each has a moment of its own behind its end, the same at each replay.
func (s *session) nextTry(tries int, now, reset time.Time, atMost time.Duration) time.Time {
	wait := limitPauses[min(tries, len(limitPauses)-1)]
	if tries >= len(limitPauses)-1 {
		wait = max(wait, atMost/16) // so that the tries last that long
	}
	if reset.After(now) {
		wait = reset.Sub(now)
	} else if !reset.IsZero() { // it is over by now
		wait = leastWait
	}
	wait = max(wait, leastWait)
	return now.Add(wait + s.jitter(min(wait/4, mostJitter)))
}

// jitter is a part of most that goes by the session's id.
func (s *session) jitter(most time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.id)) // never fails
	return time.Duration(h.Sum64() % uint64(most+1))
}

// sayLater puts a message of the session's own before all others and returns its
// id. The turns that were promised to those come one later.
func (s *session) sayLater(m Message) string {
	s.st.GoOnN++
	m.ID, m.Mode = fmt.Sprintf("%s.c%d", s.id, s.st.GoOnN), ""
	n := s.st.TurnN + 1
	s.makeRoom()
	s.st.Queue = slices.Insert(s.st.Queue, 0, queuedMessage{N: n, Message: m})
	s.track(m.ID, kindMessage, n, queuedHere)
	if v := s.st.turn(s.st.TurnN); v != nil {
		v.FollowedBy = n
	}
	return m.ID
}

// limited says that the next turn has to wait for the end of a limit. Once its
// message is gone from the queue, nothing waits.
func (s *session) limited() bool {
	return s.waitsForLimit() && workflow.Now(s.ctx).Before(s.st.Limit.Until)
}

func (s *session) waitsForLimit() bool {
	return s.st.Limit != nil && len(s.st.Queue) > 0 && s.st.Queue[0].ID == s.st.Limit.Message
}

// waitIsOver says that the session shows a wait for a limit that has ended with
// nothing to begin behind it.
func (s *session) waitIsOver() bool {
	return !s.st.Running && !s.limited() && (s.st.Status == Waiting || s.st.Status == Parked && s.shown.limited)
}

// stopWaiting gives a session its word again that waits for no limit any more.
func (s *session) stopWaiting() {
	s.st.Limit, s.st.Error = nil, nil
	if s.st.Status == Waiting {
		s.settle()
	}
}

// endLimitWait calls off what the session waits to say: somebody interrupted it.
func (s *session) endLimitWait(by *Interrupt) {
	n := s.st.Queue[0].N
	m := s.st.Queue[0].Message
	s.st.Queue = s.st.Queue[1:]
	s.st.remember(m, n)
	s.track(m.ID, kindMessage, n, voided)
	now := workflow.Now(s.ctx)
	s.st.skipTo(n)
	s.st.Skipped++ // it never began
	s.st.putTurn(TurnView{Session: s.id, N: n, MessageID: m.ID, Status: "interrupted", StartedAt: now, EndedAt: now,
		EndedBy: EndedByPerson, Error: &Failure{Kind: activities.EndInterrupted, Message: interruptedBy(by) + ", while it waited for the end of a limit", Hint: activities.HintOf(activities.EndInterrupted)}})
	s.stopWaiting()
	s.note(activities.Note{Type: activities.EntryState, Turn: n, Text: interruptedBy(by) + ": the session waits for the end of the limit no more"})
	if s.opt.CloseAfter && len(s.st.Queue) == 0 && s.st.Close == nil {
		s.st.Close = &Close{By: s.opt.By}
	}
}

// LimitView is a limit whose end a session waits for.
type LimitView struct {
	Kind    string    `json:"kind"`              // quota, rate_limit
	Since   time.Time `json:"since"`             // when it was met first
	Until   time.Time `json:"until"`             // when the next try is due
	ResetAt time.Time `json:"reset_at,omitzero"` // when it ends, where that is known
	Tries   int       `json:"tries"`
}

func (s *session) limitView() *LimitView {
	if !s.waitsForLimit() {
		return nil
	}
	l := s.st.Limit
	return &LimitView{Kind: l.Kind, Since: l.Since, Until: l.Until, ResetAt: l.Reset, Tries: l.Tries}
}

// limitText says what is waited for.
func (s *session) limitText() string {
	l := s.st.Limit
	what := "the account's limit to end"
	if l.Kind == activities.EndRateLimit {
		what = "the provider's limit of requests to end"
	}
	return fmt.Sprintf("%s, until %s (try %d)", what, clock(l.Until), l.Tries)
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// A wake is a timer for one moment; a new moment takes the place of the old one.
type wake struct {
	ctx    workflow.Context
	what   string
	at     time.Time
	timer  workflow.Future
	cancel workflow.CancelFunc
}

func (w *wake) set(at time.Time) {
	if w.timer != nil && w.at.Equal(at) {
		return
	}
	w.off()
	ctx, cancel := workflow.WithCancel(w.ctx)
	d := max(at.Sub(workflow.Now(w.ctx)), time.Millisecond)
	w.at, w.cancel = at, cancel
	w.timer = workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: w.what})
}

func (w *wake) due() bool { return w.timer != nil && w.timer.IsReady() }

func (w *wake) off() {
	if w.timer != nil && !w.timer.IsReady() {
		w.cancel()
	}
	w.timer = nil
}

// setLimit keeps the timer in step with what is waited for.
func (s *session) setLimit() {
	if s.limited() {
		s.wake.set(s.st.Limit.Until)
	} else {
		s.wake.off()
	}
}

// onLimit is what the session does at a limit, in a word.
func (s *session) onLimit() string {
	if s.mayWaitOut() {
		return LimitWait
	}
	return LimitFail
}
