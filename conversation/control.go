package conversation

import (
	"fmt"
	"strings"
)

// An Act is what a turn does that takes no message's text. codex begins it by
// another request than turn/start, and no message id comes back with it: what
// the journal does not show of it, no history of codex's tells either. So an
// act that may have reached a process that is gone is void, and never repeated.
//
// Measured on 0.125 to 0.169: review/start is answered with the turn's id, and
// within that turn codex announces a second one, of the reviewer, that never
// ends by itself; thread/compact/start is answered with nothing, and the turn
// is announced behind that. Asked for while a turn runs, a compaction would end
// that turn. Neither can be steered.
type Act string

// The acts.
const (
	ActCompact Act = "compact" // thread/compact/start: the history becomes a summary of it
	ActReview  Act = "review"  // review/start, within the thread
)

// A Review says what is reviewed: one of its members; none of them means what
// is not committed.
type Review struct {
	Base         string `json:"base,omitempty"`         // against this branch
	Commit       string `json:"commit,omitempty"`       // this commit
	Instructions string `json:"instructions,omitempty"` // as these say
}

// Check says what is wrong with what is to be reviewed.
func (r *Review) Check() error {
	if r == nil {
		return nil
	}
	n := 0
	for _, s := range []string{r.Base, r.Commit, r.Instructions} {
		if s != "" {
			n++
		}
	}
	if n > 1 {
		return fmt.Errorf("a review is of one thing: a branch's changes, a commit, or as instructions say")
	}
	return nil
}

type reviewParams struct {
	ThreadID string       `json:"threadId"`
	Target   reviewTarget `json:"target"`
	Delivery string       `json:"delivery"`
}

type reviewTarget struct {
	Type         string `json:"type"`
	Branch       string `json:"branch,omitempty"`
	SHA          string `json:"sha,omitempty"`
	Instructions string `json:"instructions,omitempty"`
}

func (r *Review) target() reviewTarget {
	switch {
	case r == nil:
	case r.Base != "":
		return reviewTarget{Type: "baseBranch", Branch: r.Base}
	case r.Commit != "":
		return reviewTarget{Type: "commit", SHA: r.Commit}
	case r.Instructions != "":
		return reviewTarget{Type: "custom", Instructions: r.Instructions}
	}
	return reviewTarget{Type: "uncommittedChanges"}
}

func (a Act) check() error {
	switch a {
	case "", ActCompact, ActReview:
		return nil
	}
	return fmt.Errorf("%q is none of compact, review", string(a))
}

// sendAct begins a turn that takes no text.
func (m *machine) sendAct(s *send) {
	if s.Do == ActCompact {
		m.ourRequest(s, methodCompact, threadIDParams{ThreadID: m.st.ThreadID})
		return
	}
	m.ourRequest(s, methodReview, reviewParams{ThreadID: m.st.ThreadID, Target: s.Review.target(), Delivery: "inline"})
}

// takeBegun finds the message that an earlier pump has codex's yes for. It is
// not sent again, whatever else is uncertain.
func (m *machine) takeBegun() {
	if s := m.find(m.st.Begins); s != nil {
		s.uncertain = false
		s.written(m.now)
		return
	}
	m.st.Begins = ""
}

// actAnswered takes codex's yes to an act. It says whether the turn's name has
// yet to come: until then the message is not settled, for a pump that found no
// turn and no message would have nothing to wait for.
func (m *machine) actAnswered(s *send, turnID string) (waits bool) {
	if s.Do == "" || turnID != "" || s.settled() {
		return false
	}
	m.st.Begins = s.ID
	s.written(m.now)
	return true
}

// actBegan settles the act that a turn was announced for.
func (m *machine) actBegan() {
	for _, s := range m.sends {
		if s.Kind == SendTurn && s.Do == ActCompact && !s.settled() && (s.wrote || s.uncertain) {
			s.settle(Acknowledged, "")
		}
	}
	m.st.Begins = ""
}

// actsInDoubt gives up acts that a process that is gone may have begun.
func (m *machine) actsInDoubt() {
	for _, s := range m.sends {
		if s.Do != "" && s.doubtful() && s.Incarnation > 0 && s.Incarnation < m.st.Cursor.Incarnation {
			s.settle(Void, fmt.Sprintf("codex cannot say whether it began the %s before its process ended", s.Do))
		}
	}
}

// notSteerable says that codex refused a steer since the running turn is an act.
func notSteerable(e *RPCError) bool {
	text := strings.ToLower(e.Message + string(e.Data))
	return strings.Contains(text, "notsteerable") || strings.Contains(text, "cannot steer")
}

// active is the turn that codex interrupts. Of a review that is the reviewer's
// (measured on 0.130 to 0.169: the review's own is refused).
func (m *machine) active() string { return orWord(m.st.Inner, m.st.TurnID) }

// maxOtherTurn is how often an interrupt is said again that named the wrong one.
const maxOtherTurn = 5

// otherTurn has an interrupt said again that came before the reviewer's turn was
// announced. It says whether it is.
func (m *machine) otherTurn(s *send, try int, e *RPCError) bool {
	if s.Kind != SendInterrupt || s.settled() || m.st.TurnID == "" || !strings.Contains(e.Message, "expected active turn id") || try < s.try || try >= maxOtherTurn {
		return false
	}
	s.try, s.wrote, s.state, s.next = try+1, false, Decided, m.now+backoff(try)
	return true
}
