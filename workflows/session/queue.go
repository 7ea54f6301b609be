package session

import (
	"cmp"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// A turn keeps the number that was promised to its message, unless the session puts a
// message of its own before it.

func (s *messagesPart) checkUnsend(u protocol.Unsend) error {
	if err := s.ends(); err != nil {
		return err
	}
	if err := kit.Short([]kit.Text{{What: "by", Is: u.By, Max: kit.MaxWord}}); err != nil || u.Message == "" {
		return kit.Refuse(protocol.RefusedBadInput, "take back a message of session %s: give the message's id, and a short name of who takes it back", s.id)
	}
	if slices.ContainsFunc(s.st.Queue, func(q queuedMessage) bool { return q.ID == u.Message }) {
		return nil
	}
	a := s.accepted(u.Message)
	if a == nil {
		return kit.Refuse(protocol.RefusedNotFound, "session %s knows no message %.100q", s.id, u.Message)
	}
	if v := s.st.turn(a.N); v != nil && v.MessageID == u.Message && v.Error != nil && v.Error.Kind == kit.Unsent {
		return kit.Refuse(protocol.RefusedState, "message %.100s was taken back already", u.Message)
	}
	return kit.Refuse(protocol.RefusedState, "message %.100s is in turn %d, which has begun: interrupt it, if it still runs", u.Message, a.N)
}

// takeUnsend removes a message from the queue. Its turn number is not used again, because
// later messages were promised theirs.
func (s *messagesPart) takeUnsend(u protocol.Unsend) (protocol.SessionView, error) {
	if err := s.checkUnsend(u); err != nil {
		return protocol.SessionView{}, err
	}
	i := slices.IndexFunc(s.st.Queue, func(q queuedMessage) bool { return q.ID == u.Message })
	q := s.st.Queue[i]
	s.st.Queue = slices.Delete(s.st.Queue, i, i+1)
	s.st.remember(q.Message, q.N)
	by := "taken back by " + cmp.Or(u.By, "somebody") + " before its turn began"
	s.st.putTurn(protocol.TurnView{Session: s.id, N: q.N, MessageID: q.ID, Act: string(q.Do), Status: "interrupted", EndedAt: workflow.Now(s.ctx),
		Error: &protocol.Failure{Kind: kit.Unsent, Message: by}})
	s.track(q.ID, kindMessage, q.N, voided)
	s.note(conversation.Note{Type: protocol.EntryState, Turn: q.N, Text: fmt.Sprintf("message %s was %s", q.ID, by),
		Data: map[string]string{"message": q.ID, "by": u.By}})
	s.st.UpdatedAt = workflow.Now(s.ctx)
	s.st.Held = s.st.Held && len(s.st.Queue) > 0
	if l := s.st.Limit; l != nil && l.Message == q.ID {
		s.bounds.stopWaiting()
	}
	if s.opt.CloseAfter && len(s.st.Queue) == 0 && !s.st.Running && s.st.Close == nil {
		s.st.Close = &protocol.Close{By: u.By}
	}
	return s.view(), nil
}

func (st *State) putTurn(v protocol.TurnView) {
	i, _ := slices.BinarySearchFunc(st.Turns, v.N, func(t protocol.TurnView, n int) int { return t.N - n })
	st.Turns = slices.Insert(st.Turns, i, v)
	st.trim()
}

// makeRoom makes the number after the running turn free for a message of the session's own.
func (s *messagesPart) makeRoom() {
	for i := range s.st.Queue {
		s.st.Queue[i].N++
	}
	for i := range s.st.Turns {
		if v := &s.st.Turns[i]; v.N > s.st.TurnN {
			v.N++
		}
	}
	for i := range s.st.Seen {
		if m := &s.st.Seen[i]; m.N > s.st.TurnN {
			m.N++
		}
	}
	s.st.NextN++
}

// checkAct checks a message that compacts or reviews.
func (s *messagesPart) checkAct(m protocol.Message) error {
	switch {
	case m.Review != nil && m.Do != protocol.ActReview:
		return kit.Refuse(protocol.RefusedBadInput, "message %s: the field review is only allowed with do: review", m.ID)
	case m.Do == "":
		return nil
	case m.Do != protocol.ActCompact && m.Do != protocol.ActReview:
		return kit.Refuse(protocol.RefusedBadInput, "message %s: unknown do %.100q: use compact or review", m.ID, m.Do)
	case m.Text != "" || m.Blob != "" || m.Chars != 0:
		return kit.Refuse(protocol.RefusedBadInput, "message %s: a %s takes no text", m.ID, m.Do)
	case m.Mode != "" && m.Mode != "queue" || m.Turn != 0:
		return kit.Refuse(protocol.RefusedBadInput, "message %s: a %s is a turn of its own and cannot steer another", m.ID, m.Do)
	case m.Model != "" || m.Effort != "":
		return kit.Refuse(protocol.RefusedBadInput, "message %s: a %s has the session's model (ctl session set changes it)", m.ID, m.Do)
	case len(m.Inputs) > 0 || shapeOf(m) != nil:
		return kit.Refuse(protocol.RefusedBadInput, "message %s: a %s takes no files and no output schema", m.ID, m.Do)
	case m.Do == protocol.ActCompact && s.st.NextN == 0:
		return kit.Refuse(protocol.RefusedState, "session %s has had no turn: there is nothing to compact", s.id)
	}
	r := m.Review
	if r == nil {
		return nil
	}
	if err := r.Check(); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "message %s: %v", m.ID, err)
	}
	if err := kit.Short([]kit.Text{{What: "base", Is: r.Base, Max: kit.MaxWord}, {What: "commit", Is: r.Commit, Max: kit.MaxWord}, {What: "instructions", Is: r.Instructions, Max: maxInline}}); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "message %s: %v", m.ID, err)
	}
	return nil
}

func (s *messagesPart) checkSteer(m protocol.Message) error {
	switch v := s.st.turn(s.st.TurnN); {
	case !s.st.Running && m.Turn != 0:
		return kit.Refuse(protocol.RefusedState, "session %s has no running turn to steer: turn %d does not run", s.id, m.Turn)
	case !s.st.Running:
		return kit.Refuse(protocol.RefusedState, "session %s has no running turn to steer", s.id)
	case m.Turn != 0 && m.Turn != s.st.TurnN:
		return kit.Refuse(protocol.RefusedState, "session %s runs turn %d, not turn %d, which was to be steered", s.id, s.st.TurnN, m.Turn)
	case v != nil && v.Act != "":
		return kit.Refuse(protocol.RefusedState, "turn %d of session %s is a %s, which takes no messages: send it as the next turn, or interrupt this one", s.st.TurnN, s.id, v.Act)
	}
	return nil
}

// acting returns the act of the running turn, or "". Such a turn takes no messages.
func (s *messagesPart) acting() string {
	if v := s.st.turn(s.st.TurnN); v != nil && s.st.Running {
		return v.Act
	}
	return ""
}

// tooLate voids a message that was meant for an ended turn alone.
func (s *messagesPart) tooLate(p pendingSend) {
	s.track(p.Send.ID, string(conversation.SendSteer), p.Send.Turn, voided)
	s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("turn %d ended before message %s could steer it, and it was meant for that turn alone", p.Send.Turn, p.Send.ID),
		Data: map[string]string{"message": p.Send.ID}})
}

func (s *messagesPart) queue() []protocol.QueuedView {
	out := []protocol.QueuedView{}
	if s.st.Ended {
		return out
	}
	for _, q := range s.st.Queue {
		text := q.Text
		if q.Review != nil {
			text = cmp.Or(q.Review.Instructions, cmp.Or(q.Review.Base, q.Review.Commit))
		}
		out = append(out, protocol.QueuedView{ID: q.ID, N: q.N, Act: string(q.Do), Text: kit.Cut(text, 200), By: q.By})
	}
	return out
}

// actSum is the part of sum for an act or a named turn.
func actSum(m protocol.Message) string {
	if m.Do == "" && m.Turn == 0 {
		return ""
	}
	out := fmt.Sprintf("\x00%s\x00%d", m.Do, m.Turn)
	if r := m.Review; r != nil {
		out += "\x00" + r.Base + "\x00" + r.Commit + "\x00" + r.Instructions
	}
	return out
}

func (s *messagesPart) queued() int {
	if s.st.Ended {
		return 0
	}
	return len(s.st.Queue)
}

// turnViews lists the kept turns, and those promised to queued messages.
func (s *messagesPart) turnViews() []protocol.TurnView {
	out := append([]protocol.TurnView{}, s.st.Turns...)
	for i := range out {
		readTurnOutput(&out[i])
	}
	for _, q := range s.st.Queue {
		v := protocol.TurnView{Session: s.id, N: q.N, MessageID: q.ID, Status: "queued"}
		if s.st.Ended {
			v.Status, v.EndedAt = "interrupted", s.st.UpdatedAt
			v.Error = &protocol.Failure{Kind: "closed", Message: "the session ended before this message had its turn"}
		}
		out = append(out, v)
	}
	return out
}
