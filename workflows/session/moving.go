package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

type moved struct {
	From []string  `json:"from"`           // hosts that it left, in order
	Lost bool      `json:"lost,omitempty"` // the last one was lost
	Cut  int       `json:"cut,omitempty"`  // turn that was cut off
	At   time.Time `json:"at"`
}

// KindHostLost is the kind of the error of a turn that was lost with its host.
const KindHostLost = protocol.EndHostLost

type movingPart struct {
	*core
	turns    *turnsPart
	messages *messagesPart
	bounds   *boundsPart
	snaps    *snapsPart
	process  *processPart
	leases   *leasesPart
	parking  *parkingPart
	ending   *endingPart
}

// cannotMove returns why there is nothing to continue from, or "".
func (s *movingPart) cannotMove() string {
	switch {
	case s.st.Snap.Good != nil || !s.st.hadTurn():
		return ""
	case s.opt.Snapshot.When == protocol.SnapshotOff:
		return "it takes no snapshots, so all of it is on that host"
	case s.st.Snap.Error != nil:
		return "no snapshot of it could be taken, so all of it is on that host: " + kit.Cut(s.st.Snap.Error.Message, kit.MaxWord)
	}
	return "there is no snapshot of it yet, so all of it is on that host"
}

// mayMove reports whether the session leaves a lost host by itself.
func (s *movingPart) mayMove() bool {
	return s.opt.OnHostLost == protocol.HostLostMove && s.cannotMove() == "" && s.st.Close == nil
}

// untilLost bounds ctx by LostAfter, unless the view already shows the host as lost.
func (s *movingPart) untilLost(ctx workflow.Context) workflow.Context {
	if s.st.Lost != nil {
		return ctx
	}
	return workflow.WithScheduleToCloseTimeout(ctx, s.opt.LostAfter)
}

// lostAfter returns the same bound for a pump; 0 means none.
func (s *movingPart) lostAfter() time.Duration {
	if s.st.Lost != nil {
		return 0
	}
	return s.opt.LostAfter
}

func (s *movingPart) hostLost(l protocol.HostLost) {
	name, stays := s.st.Lease.Spec.Name, s.cannotMove()
	f := &protocol.Failure{Kind: KindHostLost, Message: kit.Cut(fmt.Sprintf("host %s cannot be reached since %s: %s", name, l.Since.UTC().Format(time.RFC3339), l.Why), kit.MaxFailure)}
	if s.mayMove() {
		s.goAway(f)
		return
	}
	if stays == "" {
		stays = "on_host_lost is wait"
		f.Hint = fmt.Sprintf("`ctl session resume %s` goes on on another host, from %s", s.id, s.fromWhat())
	} else {
		f.Hint = "it goes on when the host is back; " + stays
	}
	s.st.Lost = &protocol.LostView{Host: name, Since: l.Since, Why: l.Why, Stays: stays}
	s.note(conversation.Note{Type: "error", Text: f.Message, Data: failureData(f)})
	s.st.Error = f
	if s.st.Close != nil {
		s.ending.tellHeldUp(f)
	}
}

func (s *movingPart) hostBack() {
	if s.st.Lost == nil {
		return
	}
	s.note(conversation.Note{Type: "state", Text: "host " + s.st.Lost.Host + " can be reached again"})
	s.st.Lost = nil
	if s.st.Error != nil && s.st.Error.Kind == KindHostLost {
		s.st.Error = nil
	}
}

func (s *movingPart) fromWhat() string {
	if g := s.st.Snap.Good; g != nil {
		return fmt.Sprintf("the snapshot of turn %d", g.Turn)
	}
	return "its beginning"
}

func (s *movingPart) lostFailure() *protocol.Failure {
	l := s.st.Lost
	return &protocol.Failure{Kind: KindHostLost, Message: kit.Cut(fmt.Sprintf("host %s could not be reached since %s: %s", l.Host, l.Since.UTC().Format(time.RFC3339), l.Why), kit.MaxFailure),
		Hint: "send a message to go on: the thread is resumed on another host"}
}

// goAway leaves a host that cannot be reached, and cuts off the running turn.
func (s *movingPart) goAway(f *protocol.Failure) {
	defer s.snaps.hush()()
	name := s.st.Lease.Spec.Name
	m := &moved{From: []string{name}, Lost: true, At: workflow.Now(s.ctx)}
	if was := s.st.Moved; was != nil {
		m.From = append(was.From, name)
	}
	if s.st.Running {
		m.Cut = s.st.TurnN
	}
	s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("the session leaves host %s and goes on elsewhere, from %s", name, s.fromWhat()), Data: failureData(f)})
	s.st.ProcessEnd, s.st.Retired = f.Message, nil
	if end := s.recordLost(); end != nil && s.st.Running {
		f = s.endedThere(end, f)
	}
	s.turns.leaving = true
	s.process.lostProcess(f)
	s.turns.leaving = false
	if s.st.Status == protocol.Failed {
		return
	}
	if s.opt.Host == name {
		s.opt.Host = "" // any host with the labels
	}
	if s.st.Status == protocol.Interrupted {
		s.st.UpAs = protocol.Interrupted
	}
	s.become(protocol.Resuming)
	s.st.Fault = &protocol.Failure{Kind: protocol.ErrTypeUnreachable, Message: f.Message}
	s.st.Moved, s.st.Warm = m, nil
	s.parking.goDown(nil, lease.Release{Left: s.leases.leftNow(f.Message)}, false)
	if s.st.Snap.Good == nil && s.st.ForkOf != "" {
		s.st.Pump.ThreadID, s.st.Pump.ForkedFrom = s.st.ForkOf, ""
	}
}

// recordLost writes to the transcript what pumps read and could not report: nobody reads
// that journal again. If that fails, it notes at least the messages that codex may have
// had. It returns how the running turn ended there, if known.
func (s *movingPart) recordLost() *conversation.TurnEnd {
	if s.st.Again == 0 {
		return nil // the newest pump reported everything
	}
	s.st.PumpN++
	in := pumps.RecordLostInput{Claim: s.claim(), Seed: s.st.Seed, State: s.st.Pump, Notes: s.st.Handing, Turn: s.st.TurnN}
	for _, p := range s.st.Sends {
		if p.maybe() {
			in.Sends = append(in.Sends, p.Send)
		}
	}
	var out pumps.RecordLostResult
	err := s.ending.keepWriting("write what was heard on "+s.hostName(), func(ctx workflow.Context, leave func() bool) (err error) {
		out, err = doingUnless(s.core, ctx, leave, pumpJobs.RecordLost, in)
		return err
	})
	if err != nil {
		s.log.Error("what codex reported on the lost host was not written to the transcript", "error", err)
		for _, send := range in.Sends {
			if send.Kind == conversation.SendTurn || send.Kind == conversation.SendSteer {
				s.note(conversation.Note{Type: protocol.EntryUser, Text: send.Text, Data: map[string]string{"message": send.ID, "delivery": SentThere}})
			}
		}
		return nil
	}
	s.st.Again = 0
	s.st.Pump.Seq = out.Seq
	s.st.Handing = slices.DeleteFunc(s.st.Handing, func(n conversation.Note) bool { return slices.Contains(out.Noted, n.ID) })
	for _, id := range out.Said {
		s.turns.delivered(protocol.Delivery{ID: id, State: protocol.Acknowledged})
	}
	if last := out.Last; last != nil {
		p := &s.st.Pump
		p.TurnID, p.FinalText, p.FinalTruncated, p.Usage, p.AtMS = last.TurnID, last.FinalText, last.FinalTruncated, last.Usage, last.AtMS
		s.carrySpent(*last)
	}
	return out.Ended
}

// carrySpent copies the use of the budget on the lost host. A count never decreases.
func (s *movingPart) carrySpent(last conversation.PumpState) {
	p := &s.st.Pump
	p.Spent.Commands = max(p.Spent.Commands, last.Spent.Commands)
	p.Spent.TimeMS = max(p.Spent.TimeMS, last.Spent.TimeMS)
	if last.Tally.InSession > p.Tally.InSession {
		p.Tally = last.Tally
	}
}

// endedThere handles a turn that ended on the lost host but was reported too late. Its
// answer is shown. But the session goes on from an earlier state, so the turn counts as cut
// off.
func (s *movingPart) endedThere(end *conversation.TurnEnd, f *protocol.Failure) *protocol.Failure {
	if turn := s.st.Sending(conversation.SendTurn); turn != nil {
		s.turns.delivered(protocol.Delivery{ID: turn.Send.ID, State: protocol.Acknowledged})
	}
	p := &s.st.Pump
	p.TurnID, p.FinalText, p.FinalTruncated = end.ID, end.FinalText, end.FinalTruncated
	if v := s.st.turn(s.st.TurnN); v != nil {
		v.Items, v.Usage = end.Items, protocol.UsageView{Input: end.Usage.Input, Output: end.Usage.Output, Cached: end.Usage.Cached, Turns: 1}
	}
	as := end.Status
	if end.Problem != nil {
		as += ": " + kit.Cut(end.Problem.Message, kit.MaxWord)
	}
	out := *f
	out.Message = kit.Cut(fmt.Sprintf("turn %d ended on host %s (%s), but the session goes on from %s, and the turn's work after that is not kept: %s",
		s.st.TurnN, s.hostName(), as, s.fromWhat(), f.Message), kit.MaxFailure)
	return &out
}

// move parks an idle session to go on elsewhere.
func (s *movingPart) move() (again bool) {
	f, again := s.parking.parkAsTold()
	if !again {
		s.leaveAfter(f)
	}
	return again
}

// leaveAfter follows an attempt to park in order to move. f is why it failed, or nil.
func (s *movingPart) leaveAfter(f *protocol.Failure) {
	switch {
	case s.st.Parked != nil || s.st.Close != nil || s.full():
	case s.parking.goesAway(f):
		s.goAway(f)
	case f != nil && (s.parking.wishes() || !s.parking.quiet()): // it tries another host, or tries again later
	case f != nil:
		s.st.Resume = nil
	}
}

func (s *movingPart) waitsToMove() bool { return s.parking.waitsToLeave() && s.st.Resume != nil }

func (s *movingPart) stayAfterAll() {
	s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("host %s is back in time, and a turn runs there: the session stays", s.hostName())})
	s.st.Resume = nil
}

// tellMoved tells codex once where it is and what may be missing.
func (s *movingPart) tellMoved(restored string) {
	m, was := s.st.Moved, s.st.Was
	if m == nil && was != "" && was != s.st.Lease.Spec.Name {
		m = &moved{From: []string{was}, At: workflow.Now(s.ctx)}
	}
	if m == nil || restored == "" || restored == restoredWarm || !s.st.hadTurn() {
		return
	}
	s.st.Moved = m
	s.st.TellN++
	s.st.Tell = &conversation.Tell{ID: fmt.Sprintf("%s.t%d", s.id, s.st.TellN), Text: s.movedText(*m) + s.messages.whereFiles()}
}

// restoredWarm is PrepareSession's result if nothing was copied.
const restoredWarm = "warm"

func (s *movingPart) movedText(m moved) string {
	here, from, dir := s.st.Lease.Spec.Name, strings.Join(m.From, ", then host "), s.st.Layout.WorkDir
	alone := s.opt.Snapshot.Work == protocol.WorkNone
	const empty = " Only the conversation is kept of this session: its working directory, %s, is a new and empty one here."
	if !m.Lost {
		if alone {
			return fmt.Sprintf("This session was moved from host %s to host %s with its conversation."+empty+" Processes that ran on the former host are not here.", from, here, dir)
		}
		return fmt.Sprintf("This session was moved from host %s to host %s with its conversation and its working directory, which is %s now. Processes that ran on the former host are not here.",
			from, here, dir)
	}
	as := "as they were at its beginning"
	if g := s.st.Snap.Good; g != nil {
		as = fmt.Sprintf("as they were at %s, in turn %d", g.At.UTC().Format(time.RFC3339), g.Turn)
	}
	if alone {
		return fmt.Sprintf("Host %s, on which this session ran, was lost; it goes on on host %s with its messages %s."+empty+
			" What was done after that is missing here and may have had effects elsewhere, so look before you repeat anything.", from, here, as, dir)
	}
	return fmt.Sprintf("Host %s, on which this session ran, was lost; it goes on on host %s. The conversation and the working directory, %s, are %s: "+
		"what was done after that is missing here and may have had effects elsewhere, so look before you repeat anything.",
		from, here, dir, as)
}

// toldOf records the delivery of the message about the move. It returns false for other
// messages.
func (s *movingPart) toldOf(d protocol.Delivery) bool {
	if s.st.Tell == nil || d.ID != s.st.Tell.ID {
		return false
	}
	if d.State != protocol.Decided {
		s.st.Tell, s.st.Moved = nil, nil
		return true
	}
	s.st.Tell.Incarnation = 0 // no process has had the message
	return true
}

// saidAgain returns the message of the turn after the loss of a host: that of the cut-off
// turn, unless the newest snapshot was taken in that turn. An older one does not contain
// the task.
func (s *movingPart) saidAgain() protocol.Message {
	if g := s.st.Snap.Good; s.st.Said != nil && !(g != nil && s.st.Snap.Mid && g.Turn == s.st.TurnN) {
		return sentAgain(*s.st.Said)
	}
	return s.st.Shape.of(protocol.Message{Text: GoOnText})
}

func (s *movingPart) checkResume(r protocol.Resume) error {
	if err := s.ends(); err != nil {
		return err
	}
	if err := kit.Short([]kit.Text{{What: "by", Is: r.By, Max: kit.MaxWord}}); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "resume session %s: %v", s.id, err)
	}
	if err := s.putAway(); err != nil {
		return err
	}
	if r.Host != "" && !protocol.NamePattern.MatchString(r.Host) {
		return kit.Refuse(protocol.RefusedBadInput, "resume session %s: %q is not a host name", s.id, kit.Cut(r.Host, kit.MaxWord))
	}
	idle := s.st.Status == protocol.Idle || s.st.Status == protocol.Interrupted || s.bounds.limited()
	switch {
	case s.st.Parked != nil, s.waitsForSlot(), s.waitsToBegin():
		return nil
	case s.waitsForAttempt() && s.st.Lost == nil && (r.Host == "" || r.Host == s.hostName() && !s.waitsToMove()):
		return nil // it tries again now
	case s.st.Lost != nil:
		if why := s.cannotMove(); why != "" {
			return kit.Refuse(protocol.RefusedState, "session %s cannot go on elsewhere: %s", s.id, why)
		}
		if r.Host == s.hostName() {
			return kit.Refuse(protocol.RefusedState, "session %s waits for host %s already", s.id, r.Host)
		}
		return nil
	case s.st.Running && !s.st.Alive:
		return kit.Refuse(protocol.RefusedState, "session %s is starting codex again on host %s: if the host cannot be reached for %v, it counts as lost, and the session can go on elsewhere",
			s.id, s.hostName(), s.opt.LostAfter)
	case s.goesOnHere(r):
		return nil
	case s.st.Running:
		return kit.Refuse(protocol.RefusedState, "session %s runs a turn on host %s: interrupt it first, or wait for its end", s.id, s.hostName())
	case idle && (r.Host == "" || r.Host == s.hostName()):
		return kit.Refuse(protocol.RefusedState, "session %s is %s on host %s: name another host to have it go on there", s.id, s.st.Status, s.hostName())
	case idle && s.opt.Snapshot.When == protocol.SnapshotOff:
		return kit.Refuse(protocol.RefusedState, "session %s takes no snapshots: it cannot go elsewhere", s.id)
	case idle:
		return nil
	}
	return kit.Refuse(protocol.RefusedState, "session %s is %s", s.id, s.st.Status)
}

func (s *movingPart) takeResume(r protocol.Resume) (protocol.SessionView, error) {
	if err := s.checkResume(r); err != nil {
		return protocol.SessionView{}, err
	}
	if s.process.waitsToTalk() && s.waitsForAttempt() && s.st.Lost == nil && (r.Host == "" || r.Host == s.hostName()) {
		s.tryNow() // it stays on its host
		return s.view(), nil
	}
	if s.waitsToMove() && r.Host == "" {
		r.Host = s.st.Resume.Host
	}
	here := s.goesOnHere(r)
	s.bounds.goOn()
	if here {
		s.note(conversation.Note{Type: protocol.EntryState, Text: "the turn that pauses for a budget tries again", Data: map[string]string{"by": r.By}})
		return s.view(), nil
	}
	s.st.Resume = &r
	s.st.Held = s.st.Held && !s.st.Downed
	s.parking.forgetTrouble()
	return s.view(), nil
}

// goesOnHere reports whether a resume has nothing to do but to end the pause of a turn.
func (s *movingPart) goesOnHere(r protocol.Resume) bool {
	return s.bounds.pauses() && s.bounds.limited() && !s.st.Running && s.st.Status == protocol.Waiting && s.st.Parked == nil && s.st.Lost == nil &&
		!s.waitsForAttempt() && (r.Host == "" || r.Host == s.hostName())
}

func (s *movingPart) waitsToBegin() bool { return s.waitsForAttempt() && s.st.Layout == nil }

func (s *movingPart) waitsForSlot() bool {
	return s.st.Begun && s.st.Status == protocol.Resuming && s.st.Lease == nil
}

// mustMove reports whether f is the loss of a host that the session leaves by itself.
func (s *movingPart) mustMove(f *protocol.Failure) bool {
	return f.Kind == protocol.ErrTypeUnreachable && s.mayMove()
}
