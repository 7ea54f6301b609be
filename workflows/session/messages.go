package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// door takes one kind of message, as a signal or as an update with the same JSON.
type door struct {
	name  string
	ch    workflow.ReceiveChannel
	check func(raw []byte) error
	take  func(raw []byte) (any, error)
}

// listen registers all handlers before anything blocks.
func (s *session) listen(ctx workflow.Context) error {
	s.entry = s.openDoor()
	open := func(name string, check func([]byte) error, take func([]byte) (any, error)) error {
		d := door{name: name, ch: workflow.GetSignalChannel(ctx, name), check: check, take: take}
		s.doors = append(s.doors, d)
		return workflow.SetUpdateHandlerWithOptions(ctx, name,
			func(ctx workflow.Context, raw json.RawMessage) (any, error) {
				s.roll.Took()
				return s.takes(d, raw, s.entry.Accepted(ctx, raw))
			},
			workflow.UpdateHandlerOptions{
				Validator: func(ctx workflow.Context, raw json.RawMessage) error {
					return s.entry.Update(ctx, name, verbs[name], raw, check)
				},
				Description: doorTexts[name],
			})
	}
	s.process.stirs = workflow.GetSignalChannel(ctx, lease.SignalStirred)
	s.lease = workflow.GetSignalChannel(ctx, lease.SignalLease)
	s.calls = workflow.GetSignalChannel(ctx, lease.SignalCall)
	s.goes = workflow.GetSignalChannel(ctx, lease.SignalLeave)
	s.process.reports = workflow.GetSignalChannel(ctx, protocol.SignalProgress)
	s.follows.ended = workflow.GetSignalChannel(ctx, protocol.SignalSessionEnded)
	// Signals of different names that arrive while no worker runs lose their order. With
	// budget first, a raised budget applies to a message sent after it.
	err := errors.Join(
		open(protocol.SignalBudget, checking(s.bounds.checkBudget), taking(s.bounds.takeBudget)),
		open(protocol.SignalMessage, checking(s.messages.checkMessage), taking(s.messages.takeMessage)),
		open(protocol.SignalDecide, checkingOnce(s, protocol.SignalDecide, func(d protocol.Decide) error { _, _, err := s.approvals.checkDecide(d); return err }),
			takingOnce(s, protocol.SignalDecide, s.approvals.takeDecide, s.decideAgain, nil)),
		open(protocol.SignalInterrupt, checkingOnce(s, protocol.SignalInterrupt, s.messages.checkInterrupt),
			takingOnce(s, protocol.SignalInterrupt, s.messages.takeInterrupt, viewAgain[protocol.Interrupt](s), nil)),
		open(protocol.SignalClose, checking(s.ending.checkClose), taking(s.ending.takeClose)),
		open(protocol.SignalPark, checkingOnce(s, protocol.SignalPark, s.parking.checkPark),
			takingOnce(s, protocol.SignalPark, s.parking.takePark, viewAgain[protocol.Park](s), nil)),
		open(protocol.SignalSet, checking(s.choices.checkSet), taking(s.choices.takeSet)),
		open(protocol.SignalUnsend, checking(s.messages.checkUnsend), taking(s.messages.takeUnsend)),
		open(protocol.SignalModels, checking(s.choices.checkModels), taking(s.choices.takeModels)),
		open(protocol.SignalArchive, checking(s.parking.checkArchive), taking(s.parking.takeArchive)),
		open(protocol.SignalUnarchive, checking(s.parking.checkUnarchive), taking(s.parking.takeUnarchive)),
		open(protocol.SignalResume, checkingOnce(s, protocol.SignalResume, s.moving.checkResume),
			takingOnce(s, protocol.SignalResume, s.moving.takeResume, viewAgain[protocol.Resume](s), nil)),
		open(protocol.SignalSnapshot, checkingOnce(s, protocol.SignalSnapshot, s.snaps.checkSnapshot),
			takingOnce(s, protocol.SignalSnapshot, s.snaps.takeTakeSnapshot, s.snapshotAgain, func(a protocol.SnapshotAccepted) int { return a.N })),
		s.answerQueries(ctx),
		s.pushes.listenForPushes(ctx, s.entry),
	)
	if err != nil {
		return fmt.Errorf("set up session %s: %w", s.id, err)
	}
	return nil
}

func (s *session) answerQueries(ctx workflow.Context) error {
	return errors.Join(
		workflow.SetQueryHandler(ctx, protocol.QueryState, func() (protocol.SessionView, error) { return s.view(), nil }),
		workflow.SetQueryHandler(ctx, protocol.QueryApprovals, func() ([]protocol.Approval, error) { return s.views.placedApprovals(), nil }),
		workflow.SetQueryHandler(ctx, protocol.QueryTurn, s.messages.findTurn),
		workflow.SetQueryHandler(ctx, protocol.QueryPolicy, func() (protocol.PolicyTexts, error) {
			return protocol.PolicyTexts{Session: s.opt.Policy, Seed: s.st.SeedPolicy}, nil
		}),
		workflow.SetQueryHandler(ctx, protocol.QueryModels, func() (protocol.ModelsView, error) { return s.choices.modelsView(), nil }),
		workflow.SetQueryHandler(ctx, protocol.QueryDetail, func() (protocol.SessionDetail, error) { return s.views.detail(), nil }),
		workflow.SetQueryHandler(ctx, protocol.QueryAsks, func() (protocol.SessionAsks, error) { return s.asks(), nil }),
		workflow.SetQueryHandler(ctx, protocol.QueryAudit, func() (protocol.AuditView, error) { return s.auditView(), nil }),
		workflow.SetQueryHandler(ctx, protocol.QueryObject, func() (access.Object, error) { return s.shown(), nil }),
		workflow.SetQueryHandler(ctx, workspaces.QueryPlace, func() (workspaces.Place, error) { return s.place.placeView(), nil }),
	)
}

// answerRefused answers queries for a session whose options were refused. The answers
// contain no option of unbounded size.
func answerRefused(ctx workflow.Context, in Input, why error) {
	at := workflow.GetInfo(ctx).WorkflowStartTime.Truncate(time.Microsecond)
	opt := Options{TurnTimeout: in.Options.TurnTimeout}
	s := assembled(&core{id: kit.Cut(in.ID, kit.MaxWord), opt: opt, ctx: ctx, log: workflow.GetLogger(ctx),
		st: &State{lifeState: lifeState{Status: protocol.Failed, CreatedAt: at, UpdatedAt: workflow.Now(ctx)}}})
	s.st.Error = kit.FailureOf("the session did not begin", why)
	s.st.Error.Hint = "begin another session, under another id"
	if err := s.answerQueries(ctx); err != nil {
		s.log.Error("a refused session answers no queries", "session", s.id, "error", err)
	}
}

var doorTexts = map[string]string{
	protocol.SignalMessage:   `what to tell codex: {"id":"unique","text":"…"}`,
	protocol.SignalDecide:    `a decision: {"approval":"<session>.<n>","digest":"…","outcome":"accept|decline|cancel|answer|grant|amend","answers":{…},"grant":{…}}`,
	protocol.SignalInterrupt: `end the running turn: {"by":"…","reason":"…"}`,
	protocol.SignalClose:     `end the session: {"by":"…","discard":false}`,
	protocol.SignalPark:      `give back host and seed while it is idle: {"by":"…"}`,
	protocol.SignalSet:       `what it works with from its next turn on: {"by":"…","model":"…","effort":"…","name":"…"}`,
	protocol.SignalUnsend:    `take back a queued message: {"message":"its id","by":"…"}`,
	protocol.SignalModels:    `ask codex which models it lists: {}`,
	protocol.SignalArchive:   `park it and put it away: {"by":"…"}`,
	protocol.SignalUnarchive: `take it out again: {"by":"…"}`,
	protocol.SignalResume:    `bring it back, or have it go on elsewhere: {"host":"…","by":"…"}`,
	protocol.SignalSnapshot:  `take a snapshot now: {"by":"…"}`,
	protocol.SignalBudget:    `what it may use: {"by":"…","tokens":100000,"turns":20,"time":"8h","turn_timeout":"2h","approvals":50,"commands":500}`,
}

// takes takes an admitted command. Without a principal in the verdict, its signature names it.
func (s *session) takes(d door, raw []byte, v authority.Verdict) (any, error) {
	plain, auth, err := command.Plain(raw)
	if err != nil {
		return nil, kit.Refuse(protocol.RefusedBadInput, "%s: %v", d.name, err)
	}
	s.entry.Took(raw) // whatever the outcome
	out, err := d.take(plain)
	v.Principal = cmp.Or(v.Principal, principalOf(auth))
	s.recordCommand(d.name, string(verbs[d.name]), raw, v, err)
	return out, err
}

// signalled handles a signal, or records its refusal.
func (s *session) signalled(d door, raw converter.RawValue) {
	plain, v, err := s.entry.Signal(d.name, verbs[d.name], raw)
	if err == nil {
		err = d.check(plain)
	}
	if err != nil {
		s.recordCommand(d.name, string(verbs[d.name]), raw.Payload().GetData(), v, err)
	} else {
		_, err = s.takes(d, raw.Payload().GetData(), v) // which is on record
	}
	if err == nil {
		return
	}
	s.st.Refusals = append(s.st.Refusals, protocol.Refusal{At: workflow.Now(s.ctx), Name: d.name, Reason: kit.Cut(err.Error(), 500)})
	s.st.trim()
	s.log.Warn("signal refused", "name", d.name, "reason", err.Error())
}

// drain handles the unread signals, in every wait and last before a rollover. A coroutine
// that received signals by itself could hold one when the run ends, and lose it (measured).
func (s *session) drain() {
	s.process.drainStirred()
	s.process.drainProgress()
	s.follows.drainEnded()
	for _, g := range kit.Unread[lease.Granted](s.lease) {
		s.leases.leased(g)
	}
	for _, l := range kit.Unread[lease.LeaveHost](s.goes) {
		s.parking.leave(l)
	}
	for _, c := range kit.Unread[lease.RollCall](s.calls) {
		s.leases.answerCall(c)
	}
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
		in, err := kit.Decode[In](raw)
		if err != nil {
			return err
		}
		return check(in)
	}
}

func taking[In, Out any](take func(In) (Out, error)) func([]byte) (any, error) {
	return func(raw []byte) (any, error) {
		in, err := kit.Decode[In](raw)
		if err != nil {
			return nil, err
		}
		return take(in)
	}
}

type messagesPart struct {
	*core
	approvals *approvalsPart
	bounds    *boundsPart
	choices   *choicesPart
	parking   *parkingPart
}

// accepted returns the first answer to a message, or nil.
func (s *messagesPart) accepted(id string) *protocol.MessageAccepted {
	for _, q := range s.st.Queue {
		if q.ID == id {
			return &protocol.MessageAccepted{Session: s.id, MessageID: id, N: q.N}
		}
	}
	for _, m := range s.st.Seen {
		if m.ID == id {
			return &protocol.MessageAccepted{Session: s.id, MessageID: id, N: m.N}
		}
	}
	return nil
}

// said returns the digest (see sum) of an accepted message, or "".
func (s *messagesPart) said(id string) string {
	for _, m := range s.st.Seen { // also messages that were queued again
		if m.ID == id {
			return m.Sum
		}
	}
	for _, q := range s.st.Queue {
		if q.ID == id {
			return sum(q.Message)
		}
	}
	return ""
}

// sum digests a message's content. The sender does not count.
func sum(m protocol.Message) string {
	if m.Mode == "queue" {
		m.Mode = "" // queue is the default
	}
	h := sha256.Sum256([]byte(m.Mode + "\x00" + contentOf(m.Blob) + "\x00" + m.Text + extraSum(m) + actSum(m)))
	return hex.EncodeToString(h[:12])
}

// isMessage reports whether blob is a key of a long message. A message must not name any
// other key.
func isMessage(blob string) bool { return owned.Is(blob, owned.Messages) }

// contentOf returns the part of a key that identifies the content.
func contentOf(blob string) string { return blob[strings.LastIndexByte(blob, '/')+1:] }

func (s *messagesPart) checkMessage(m protocol.Message) error {
	if said := s.said(m.ID); said == sum(m) {
		return nil
	} else if said != "" {
		return kit.Refuse(protocol.RefusedState, "message %s: the id is already used for a message with other content: use another id", m.ID)
	}
	if err := s.ends(); err != nil {
		return err
	}
	if err := s.putAway(); err != nil {
		return err
	}
	if m.ID == "" || len(m.ID) > kit.MaxWord || strings.ContainsFunc(m.ID, unicode.IsControl) {
		return kit.Refuse(protocol.RefusedBadInput, "message needs an id of its own, at most %d bytes long", kit.MaxWord)
	}
	chars := utf8.RuneCountInString(m.Text) + m.Chars + extraChars(m)
	switch {
	case strings.HasPrefix(m.ID, s.id+"."):
		return kit.Refuse(protocol.RefusedBadInput, "message %s: ids that begin with %q are reserved for the session's own messages: use another id", m.ID, s.id+".")
	case m.Text != "" && m.Blob != "":
		return kit.Refuse(protocol.RefusedBadInput, "message %s has both text and blob", m.ID)
	case m.Do == "" && m.Blob == "" && strings.TrimSpace(m.Text) == "":
		return kit.Refuse(protocol.RefusedBadInput, "message %s is empty: say what codex is to do", m.ID)
	case m.Blob != "" && !isMessage(m.Blob), m.Chars < 0, m.Blob == "" && m.Chars != 0:
		return kit.Refuse(protocol.RefusedBadInput, "message %s: blob and chars are not what the worker's API returned for a long text: upload the text through the API (ctl does so)", m.ID)
	case chars > protocol.MaxChars:
		return kit.Refuse(protocol.RefusedBadInput, "message %s has %d characters; codex takes at most %d (put it into a file and name the file)", m.ID, chars, protocol.MaxChars)
	case kit.Encoded(m.Text) > maxInline:
		return kit.Refuse(protocol.RefusedBadInput, "message %s takes %d bytes; above %d it goes through the store (ctl does so)", m.ID, kit.Encoded(m.Text), maxInline)
	}
	if err := kit.Short([]kit.Text{{What: "model", Is: m.Model, Max: kit.MaxWord}, {What: "effort", Is: m.Effort, Max: kit.MaxWord}, {What: "by", Is: m.By, Max: kit.MaxWord}}); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "message %s: %v", m.ID, err)
	}
	if err := checkExtras(m); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "message %s: %v", m.ID, err)
	}
	if err := s.approvals.checkRequester(m); err != nil {
		return err
	}
	if err := s.checkAct(m); err != nil {
		return err
	}
	if err := s.choices.refuseModel("message "+m.ID, m.Model, m.Effort, m.AnyModel); err != nil {
		return err
	}
	if m.Turn != 0 && m.Mode != "steer" {
		return kit.Refuse(protocol.RefusedBadInput, "message %s: the field turn is only allowed with mode: steer", m.ID)
	}
	switch m.Mode {
	case "", "queue":
		if s.bounds.overBudget() {
			f := s.bounds.spent()
			return kit.Refuse(protocol.RefusedBudget, "message %s: %s; %s", m.ID, f.Message, f.Hint)
		}
		if u, ok := s.bounds.noTurnLeft(); ok {
			return kit.Refuse(protocol.RefusedBudget, "message %s: its turn would be one more than the %d that the session may have; %s", m.ID, u.Limit, u.Raise(s.id))
		}
	case "steer":
		if err := s.checkSteer(m); err != nil {
			return err
		}
	default:
		return kit.Refuse(protocol.RefusedBadInput, "message %s: unknown mode %.100q: use queue or steer", m.ID, m.Mode)
	}
	if len(s.st.Queue)+len(s.st.Sends) >= maxQueue || s.st.texts()+kit.Encoded(m) > maxTexts {
		return kit.Refuse(protocol.RefusedState, "session %s has %d messages queued already, and no room for more", s.id, len(s.st.Queue))
	}
	return nil
}

func (s *messagesPart) takeMessage(m protocol.Message) (protocol.MessageAccepted, error) {
	if a := s.accepted(m.ID); a != nil {
		return *a, nil
	}
	if err := s.checkMessage(m); err != nil {
		return protocol.MessageAccepted{}, err
	}
	acc := protocol.MessageAccepted{Session: s.id, MessageID: m.ID}
	if m.Mode == "steer" {
		acc.N = s.st.TurnN
		s.approvals.requestedBy(m, false)
		s.st.remember(m, acc.N)
		s.track(m.ID, string(conversation.SendSteer), acc.N, decidedHere)
		s.st.Sends = append(s.st.Sends, pendingSend{Named: m.Turn != 0, By: m.By, Send: withExtras(m, conversation.Send{
			ID: m.ID, Kind: conversation.SendSteer, Text: m.Text, Blob: m.Blob, Turn: s.st.TurnN,
		})})
	} else {
		s.st.NextN++
		acc.N = s.st.NextN
		s.st.Held = false
		s.st.Queue = append(s.st.Queue, queuedMessage{Message: m, N: acc.N})
		s.track(m.ID, kindMessage, acc.N, queuedHere)
	}
	s.st.UpdatedAt = workflow.Now(s.ctx)
	s.st.trim()
	return acc, nil
}

func (s *messagesPart) checkInterrupt(i protocol.Interrupt) error {
	if err := s.ends(); err != nil {
		return err
	}
	if !s.st.Running && !s.bounds.waitsForLimit() && !s.waitsToComeBack() && !s.parking.waitsToLeave() {
		return kit.Refuse(protocol.RefusedState, "session %s has no running turn", s.id)
	}
	if err := kit.Short([]kit.Text{{What: "reason", Is: i.Reason, Max: kit.MaxReason}, {What: "by", Is: i.By, Max: kit.MaxWord}}); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "interrupt session %s: %v", s.id, err)
	}
	return nil
}

func (s *messagesPart) takeInterrupt(i protocol.Interrupt) (protocol.SessionView, error) {
	if err := s.checkInterrupt(i); err != nil {
		return protocol.SessionView{}, err
	}
	if !s.st.Running && s.bounds.waitsForLimit() {
		s.bounds.endLimitWait(&i)
		return s.view(), nil
	}
	if !s.st.Running {
		what := ": the session does not come back by itself"
		if s.parking.waitsToLeave() {
			what = ": the session stays on host " + s.hostName()
		}
		s.st.Down = &i
		s.note(conversation.Note{Type: protocol.EntryState, Text: interruptedBy(&i) + what})
		return s.view(), nil
	}
	if s.st.Interrupt == nil {
		s.st.Interrupt = &i
		s.note(conversation.Note{Type: protocol.EntryState, Text: interruptedBy(&i)})
	}
	// codex drops its requests when it ends the turn.
	s.st.forgetCalls()
	for _, a := range s.st.Open() {
		s.approvals.void(a, "the turn was "+interruptedBy(s.st.Interrupt))
	}
	s.queueInterrupt()
	return s.view(), nil
}

func (s *messagesPart) queueInterrupt() {
	if s.st.Sending(conversation.SendInterrupt) != nil {
		return
	}
	s.st.InterruptN++
	id := fmt.Sprintf("%s.i%d", s.id, s.st.InterruptN)
	s.track(id, string(conversation.SendInterrupt), s.st.TurnN, decidedHere)
	s.st.Sends = append(s.st.Sends, pendingSend{Send: conversation.Send{ID: id, Kind: conversation.SendInterrupt, Turn: s.st.TurnN}})
}

func (s *messagesPart) findTurn(q protocol.TurnQuery) (protocol.TurnView, error) {
	n := q.N
	if q.MessageID != "" {
		a := s.accepted(q.MessageID)
		if a == nil {
			return protocol.TurnView{}, kit.Refuse(protocol.RefusedNotFound, "session %s knows no message %q", s.id, q.MessageID)
		}
		n = a.N
	}
	if n == 0 {
		n = s.st.TurnN
	}
	for _, v := range s.turnViews() {
		if v.N == n {
			return v, nil
		}
	}
	return protocol.TurnView{}, kit.Refuse(protocol.RefusedNotFound, "session %s keeps no turn %d: it does not exist, or only the transcript has it (`ctl transcript`)", s.id, n)
}

// takeFirst queues the message that came with the start. If it is refused, the session
// fails.
func (s *messagesPart) takeFirst(m *protocol.Message) error {
	if m == nil {
		return nil
	}
	//workflowcheck:ignore // reading a schema's JSON is a pure function
	_, err := s.takeMessage(*m)
	if err != nil { // the view shows why
		s.st.Error = kit.FailureOf("first message", err)
		s.become(protocol.Failed)
	}
	return err
}
