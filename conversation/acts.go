package conversation

import (
	"fmt"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

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

func targetOf(r *protocol.Review) reviewTarget {
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

func checkAct(a protocol.Act) error {
	switch a {
	case "", protocol.ActCompact, protocol.ActReview:
		return nil
	}
	return fmt.Errorf("unknown act %q: use compact or review", string(a))
}

func (d *delivery) sendAct(s *send) {
	if s.Do == protocol.ActCompact {
		d.ourRequest(s, wire.MethodCompact, wire.ThreadIDParams{ThreadID: d.st.ThreadID})
		return
	}
	d.ourRequest(s, wire.MethodReview, reviewParams{ThreadID: d.st.ThreadID, Target: targetOf(s.Review), Delivery: "inline"})
}

// takeBegun finds the message that codex accepted in an earlier pump, so that it is not
// sent again.
func (d *delivery) takeBegun() {
	if s := d.find(d.st.Begins); s != nil {
		s.uncertain = false
		s.written(d.now)
		return
	}
	d.st.Begins = ""
}

// awaitsName reports whether codex accepted a message but has yet to name its turn. Until
// then the message stays unsettled, so that the pump waits.
func (d *delivery) awaitsName(s *send, turnID string) (waits bool) {
	if s.Kind != SendTurn || turnID != "" || s.settled() || s.Do == "" && d.st.TurnID != "" {
		return false
	}
	d.st.Begins = s.ID
	s.written(d.now)
	return true
}

func (d *delivery) named(s *send) {
	s.settle(protocol.Acknowledged, "")
	d.st.Begins = ""
}

// actsInDoubt voids acts that an earlier codex process may have begun.
func (d *delivery) actsInDoubt() {
	for _, s := range d.sends {
		if s.Do != "" && s.doubtful() && s.Incarnation > 0 && s.Incarnation < d.st.Cursor.Incarnation {
			s.settle(protocol.Void, fmt.Sprintf("codex cannot say whether it began the %s before its process ended", s.Do))
		}
	}
}

func notSteerable(e *wire.RPCError) bool {
	text := strings.ToLower(e.Message + string(e.Data))
	return strings.Contains(text, "notsteerable") || strings.Contains(text, "cannot steer")
}

const maxOtherTurn = 5

// otherTurn reschedules an interrupt that was sent before codex announced the reviewer's
// turn.
func (d *delivery) otherTurn(s *send, try int, e *wire.RPCError) bool {
	if s.Kind != SendInterrupt || s.settled() || d.st.TurnID == "" || !strings.Contains(e.Message, "expected active turn id") || try < s.try || try >= maxOtherTurn {
		return false
	}
	s.try, s.wrote, s.state, s.next = try+1, false, protocol.Decided, d.now+backoff(try)
	return true
}
