package workflows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// A door is a message that comes by signal and by update, in one shape.
type door struct {
	name  string
	ch    workflow.ReceiveChannel
	check func(raw []byte) error
	take  func(raw []byte) (any, error)
}

// listen opens every door before the session does anything that blocks.
func (s *session) listen(ctx workflow.Context) error {
	open := func(name string, check func([]byte) error, take func([]byte) (any, error)) error {
		d := door{name: name, ch: workflow.GetSignalChannel(ctx, name), check: check, take: take}
		s.doors = append(s.doors, d)
		return workflow.SetUpdateHandlerWithOptions(ctx, name,
			func(_ workflow.Context, raw json.RawMessage) (any, error) { return take(raw) },
			workflow.UpdateHandlerOptions{
				Validator:   func(_ workflow.Context, raw json.RawMessage) error { return check(raw) },
				Description: doorTexts[name],
			})
	}
	err := errors.Join(
		open(SignalMessage, checking(s.checkMessage), taking(s.takeMessage)),
		open(SignalDecide, checking(func(d Decide) error { _, err := s.checkDecide(d); return err }), taking(s.takeDecide)),
		open(SignalInterrupt, checking(s.checkInterrupt), taking(s.takeInterrupt)),
		open(SignalClose, checking(s.checkClose), taking(s.takeClose)),
		workflow.SetQueryHandler(ctx, QueryState, func() (SessionView, error) { return s.view(), nil }),
		workflow.SetQueryHandler(ctx, QueryApprovals, func() ([]Approval, error) { return s.approvals(), nil }),
		workflow.SetQueryHandler(ctx, QueryTurn, s.findTurn),
		workflow.SetQueryHandler(ctx, QueryDetail, func() (SessionDetail, error) { return s.detail(), nil }),
	)
	if err != nil {
		return fmt.Errorf("set up session %s: %w", s.id, err)
	}
	return nil
}

var doorTexts = map[string]string{
	SignalMessage:   `what to tell codex: {"id":"unique","text":"…"}`,
	SignalDecide:    `a decision: {"approval":"<session>.<n>","digest":"…","outcome":"accept|decline|cancel"}`,
	SignalInterrupt: `end the running turn: {"by":"…","reason":"…"}`,
	SignalClose:     `end the session: {"by":"…","discard":false}`,
}

// signalled takes a signal, or keeps a record of why not.
func (s *session) signalled(d door, raw converter.RawValue) {
	err := d.check(raw.Payload().GetData())
	if err == nil {
		_, err = d.take(raw.Payload().GetData())
	}
	if err == nil {
		return
	}
	s.st.Refusals = append(s.st.Refusals, Refusal{At: workflow.Now(s.ctx), Name: d.name, Reason: err.Error()})
	s.st.trim()
	s.log.Warn("signal refused", "name", d.name, "reason", err.Error())
}

// drain takes the signals that lie unread. It runs within every wait, and last
// of all before a rollover: a coroutine that received them by itself could be
// left holding one when the run ends (measured: that signal is lost).
func (s *session) drain() {
	for _, d := range s.doors {
		for {
			var raw converter.RawValue
			if !d.ch.ReceiveAsync(&raw) {
				break
			}
			s.signalled(d, raw)
		}
	}
}

func checking[In any](check func(In) error) func([]byte) error {
	return func(raw []byte) error {
		in, err := decode[In](raw)
		if err != nil {
			return err
		}
		return check(in)
	}
}

func taking[In, Out any](take func(In) (Out, error)) func([]byte) (any, error) {
	return func(raw []byte) (any, error) {
		in, err := decode[In](raw)
		if err != nil {
			return nil, err
		}
		return take(in)
	}
}

// decode reads one JSON object and refuses fields that are not ours.
func decode[T any](raw []byte) (T, error) {
	var v T
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, refuse(RefusedBadInput, "message is not the JSON that is expected: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return v, refuse(RefusedBadInput, "message has more than one JSON value")
	}
	return v, nil
}

// ends says whether the session takes no more messages.
func (s *session) ends() error {
	switch {
	case s.st.Status == Closed || s.st.Status == Failed:
		return refuse(RefusedState, "session %s is %s", s.id, s.st.Status)
	case s.st.Close != nil:
		return refuse(RefusedState, "session %s is closing", s.id)
	}
	return nil
}

func (s *session) accepted(id string) *MessageAccepted {
	for i := range s.st.Seen {
		if s.st.Seen[i].MessageID == id {
			return &s.st.Seen[i]
		}
	}
	return nil
}

func (s *session) checkMessage(m Message) error {
	if m.ID != "" && s.accepted(m.ID) != nil {
		return nil
	}
	if err := s.ends(); err != nil {
		return err
	}
	chars := utf8.RuneCountInString(m.Text) + m.Chars
	switch {
	case m.ID == "" || len(m.ID) > 200:
		return refuse(RefusedBadInput, "message needs an id of its own, at most 200 bytes long")
	case m.Text != "" && m.Blob != "":
		return refuse(RefusedBadInput, "message %s has both text and blob", m.ID)
	case m.Blob == "" && strings.TrimSpace(m.Text) == "":
		return refuse(RefusedBadInput, "message %s is empty: say what codex is to do", m.ID)
	case chars > MaxChars:
		return refuse(RefusedBadInput, "message %s has %d characters; codex takes at most %d (put it into a file and name the file)", m.ID, chars, MaxChars)
	case len(m.Text) > 512<<10:
		return refuse(RefusedBadInput, "message %s is %d bytes; above %d it goes through the store (ctl does so)", m.ID, len(m.Text), 512<<10)
	case len(s.st.Queue) >= maxQueue:
		return refuse(RefusedState, "session %s has %d messages queued already", s.id, len(s.st.Queue))
	}
	switch m.Mode {
	case "", "queue":
	case "steer":
		if !s.st.Running {
			return refuse(RefusedState, "session %s has no running turn to steer", s.id)
		}
	default:
		return refuse(RefusedBadInput, "message %s: mode %q is none of queue, steer", m.ID, m.Mode)
	}
	return nil
}

func (s *session) takeMessage(m Message) (MessageAccepted, error) {
	if a := s.accepted(m.ID); a != nil {
		return *a, nil
	}
	if err := s.checkMessage(m); err != nil {
		return MessageAccepted{}, err
	}
	acc := MessageAccepted{Session: s.id, MessageID: m.ID}
	if m.Mode == "steer" {
		acc.N = s.st.TurnN
		s.st.Sends = append(s.st.Sends, pendingSend{Send: activities.Send{
			ID: m.ID, Kind: activities.SendSteer, Text: m.Text, Blob: m.Blob, Turn: s.st.TurnN,
		}})
	} else {
		s.st.NextN++
		acc.N = s.st.NextN
		s.st.Queue = append(s.st.Queue, m)
		s.st.Turns = append(s.st.Turns, TurnView{Session: s.id, N: acc.N, MessageID: m.ID, Status: "queued"})
	}
	s.st.Seen = append(s.st.Seen, acc)
	s.st.UpdatedAt = workflow.Now(s.ctx)
	s.st.trim()
	return acc, nil
}

func (s *session) checkInterrupt(Interrupt) error {
	if err := s.ends(); err != nil {
		return err
	}
	if !s.st.Running {
		return refuse(RefusedState, "session %s has no running turn", s.id)
	}
	return nil
}

func (s *session) takeInterrupt(i Interrupt) (SessionView, error) {
	if err := s.checkInterrupt(i); err != nil {
		return SessionView{}, err
	}
	if s.st.Interrupt == nil {
		s.st.Interrupt = &i
		s.queueInterrupt()
		s.note(activities.Note{Type: activities.EntryState, Text: interruptedBy(&i)})
	}
	return s.view(), nil
}

// queueInterrupt asks codex to end the turn; once for each turn.
func (s *session) queueInterrupt() bool {
	id := fmt.Sprintf("%s.i%d", s.id, s.st.TurnN)
	for _, p := range s.st.Sends {
		if p.Send.ID == id {
			return false
		}
	}
	s.st.Sends = append(s.st.Sends, pendingSend{Send: activities.Send{
		ID: id, Kind: activities.SendInterrupt, Turn: s.st.TurnN,
	}})
	return true
}

func (s *session) checkClose(c Close) error {
	if s.st.Status != Closed && s.st.Status != Failed && s.st.Close != nil && c.Discard && !s.st.Close.Discard {
		return nil
	}
	return s.ends()
}

func (s *session) takeClose(c Close) (SessionView, error) {
	if err := s.checkClose(c); err != nil {
		return SessionView{}, err
	}
	s.st.Close = &c
	return s.view(), nil
}

func (s *session) findTurn(q TurnQuery) (TurnView, error) {
	n := q.N
	if q.MessageID != "" {
		a := s.accepted(q.MessageID)
		if a == nil {
			return TurnView{}, refuse(RefusedNotFound, "session %s knows no message %q", s.id, q.MessageID)
		}
		n = a.N
	}
	if n == 0 {
		n = s.st.TurnN
	}
	t := s.st.turn(n)
	if t == nil {
		return TurnView{}, refuse(RefusedNotFound, "session %s has no turn %d at hand (older ones are in the transcript)", s.id, n)
	}
	return *t, nil
}
