package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// A session goes on on another host because somebody says so, or because its
// host is lost and its policy allows it. What it goes on from is in the store.

// moved is what codex is to be told once it is there.
type moved struct {
	From []string  `json:"from"`           // hosts
	Lost bool      `json:"lost,omitempty"` // the last of them was
	Cut  int       `json:"cut,omitempty"`  // the turn that was cut off
	At   time.Time `json:"at"`
}

// kindHostLost is of a host that could not be reached for too long.
const kindHostLost = activities.EndHostLost

// cannotMove says why there is nothing to go on from; empty where there is.
func (s *session) cannotMove() string {
	switch {
	case s.st.Snap.Good != nil || !s.st.hadTurn():
		return ""
	case s.opt.Snapshot.When == SnapshotOff:
		return "it takes no snapshots, so all of it is on that host"
	case s.st.Snap.Error != nil:
		return "no snapshot of it could be taken, so all of it is on that host: " + excerpt(s.st.Snap.Error.Message, maxWord)
	}
	return "there is no snapshot of it yet, so all of it is on that host"
}

// mayMove says that the session goes on elsewhere by itself.
func (s *session) mayMove() bool {
	return s.opt.OnHostLost == HostLostMove && s.cannotMove() == "" && s.st.Close == nil
}

// untilLost is for what must happen on a host unless that is lost. Once that is
// on view, and the session stays, there is nothing more to say.
func (s *session) untilLost(ctx workflow.Context) workflow.Context {
	if s.st.Lost != nil {
		return ctx
	}
	return workflow.WithScheduleToCloseTimeout(ctx, s.opt.LostAfter)
}

// stopServer ends what there is of codex on the host, however long it takes. No
// pump is there to say that the host is lost, so this does, and then leaves off
// for who wants the session to go on elsewhere. With no error, and left, it was
// called back.
func (s *session) stopServer(doing string) (left bool, err error) {
	leave := func() bool { return s.st.Close != nil || s.st.Resume != nil && s.st.Lost != nil }
	since, name := workflow.Now(s.ctx), s.hostName()
	for {
		_, err := doingUnless(s, s.untilLost(untilDone(s.ctx, doing+" "+name)), leave, sessions.StopServer, activities.StopServerInput{
			Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation, Seed: s.st.Seed,
		})
		f := failureOf(doing+" "+name, err)
		switch {
		case err == nil:
			s.hostBack()
			return s.st.Close != nil, nil
		case leave():
			return true, nil
		case f.Kind == kindTimeout: // workers were away: of the host nothing is known
		case f.Kind != activities.ErrTypeUnreachable || s.mayMove():
			return false, err
		case s.st.Lost == nil:
			s.hostLost(activities.HostLost{Since: since, Why: f.Message})
			s.publish()
		default:
			if _, err := s.awaitFor(time.Minute, leave); err != nil {
				return false, err
			}
		}
		if leave() {
			return true, nil
		}
		s.st.PumpN++
	}
}

// lostAfter is how long a pump may be without its host before it says so. One
// that nobody may go away from is waited for, once that is on view.
func (s *session) lostAfter() time.Duration {
	if s.st.Lost != nil {
		return 0
	}
	return s.opt.LostAfter
}

// hostLost is called when the host could not be reached for too long.
func (s *session) hostLost(l activities.HostLost) {
	name, stays := s.st.Lease.Spec.Name, s.cannotMove()
	f := &Failure{Kind: kindHostLost, Message: excerpt(fmt.Sprintf("host %s cannot be reached since %s: %s", name, l.Since.UTC().Format(time.RFC3339), l.Why), maxFailure)}
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
	s.st.Lost = &LostView{Host: name, Since: l.Since, Why: l.Why, Stays: stays}
	s.note(activities.Note{Type: "error", Text: f.Message, Data: failureData(f)})
	s.st.Error = f
}

// hostBack is called when a pump has reached its host.
func (s *session) hostBack() {
	if s.st.Lost == nil {
		return
	}
	s.note(activities.Note{Type: "state", Text: "host " + s.st.Lost.Host + " can be reached again"})
	s.st.Lost = nil
	if s.st.Error != nil && s.st.Error.Kind == kindHostLost {
		s.st.Error = nil
	}
}

// fromWhat says where the session would go on from.
func (s *session) fromWhat() string {
	if g := s.st.Snap.Good; g != nil {
		return fmt.Sprintf("the snapshot of turn %d", g.Turn)
	}
	return "its beginning"
}

// lostFailure is why the session leaves a host that it was to wait for.
func (s *session) lostFailure() *Failure {
	l := s.st.Lost
	return &Failure{Kind: kindHostLost, Message: excerpt(fmt.Sprintf("host %s could not be reached since %s: %s", l.Host, l.Since.UTC().Format(time.RFC3339), l.Why), maxFailure),
		Hint: "send a message to go on: the thread is resumed on another host"}
}

// goAway leaves a host that cannot be reached. The turn that ran there is cut
// off; whatever codex still does there is ended by the host's pool once it is
// back, and a login that it rotated is fetched by its seed, before anybody has
// it again.
func (s *session) goAway(f *Failure) {
	defer s.hush()()
	name := s.st.Lease.Spec.Name
	m := &moved{From: []string{name}, Lost: true, At: workflow.Now(s.ctx)}
	if was := s.st.Moved; was != nil {
		m.From = append(was.From, name)
	}
	if s.st.Running {
		m.Cut = s.st.TurnN
	}
	s.note(activities.Note{Type: "state", Text: fmt.Sprintf("the session leaves host %s and goes on elsewhere, from %s", name, s.fromWhat()), Data: failureData(f)})
	s.st.ProcessEnd, s.st.Retired = f.Message, nil
	if end := s.recordLost(); end != nil && s.st.Running {
		f = s.endedThere(end, f)
	}
	s.leaving = true
	s.lostProcess(f)
	s.leaving = false
	if s.st.Status == Failed {
		return
	}
	if s.opt.Host == name {
		s.opt.Host = "" // any that has the labels
	}
	if s.st.Status == Interrupted {
		s.st.UpAs = Interrupted
	}
	s.become(Resuming)
	s.st.Fault = &Failure{Kind: activities.ErrTypeUnreachable, Message: f.Message}
	s.st.Moved, s.st.Warm = m, nil
	s.goDown(nil, release{Left: s.leftNow(f.Message)}, false)
	if s.st.Snap.Good == nil && s.st.ForkOf != "" {
		s.st.Pump.ThreadID, s.st.Pump.ForkedFrom = s.st.ForkOf, ""
	}
}

// recordLost puts on record what pumps have heard on the lost host and did not
// get to tell: nobody will read that journal again. What cannot be found out stays
// as it was, and what was to be said to codex is at least on record as said.
// It returns how the running turn ended there, if that was heard.
func (s *session) recordLost() *activities.TurnEnd {
	if s.st.Again == 0 {
		return nil // the newest one has told all
	}
	s.st.PumpN++
	in := activities.RecordLostInput{Claim: s.claim(), Seed: s.st.Seed, State: s.st.Pump, Notes: s.st.Handing, Turn: s.st.TurnN}
	for _, p := range s.st.Sends {
		if p.maybe() {
			in.Sends = append(in.Sends, p.Send)
		}
	}
	out, err := doing(s, setUp(s.ctx, "write what was heard on "+s.hostName()), sessions.RecordLost, in)
	if err != nil {
		s.log.Error("what was heard on a lost host is not on record", "error", err)
		for _, send := range in.Sends {
			if send.Kind == activities.SendTurn || send.Kind == activities.SendSteer {
				s.note(activities.Note{Type: activities.EntryUser, Text: send.Text, Data: map[string]string{"message": send.ID, "delivery": sentThere}})
			}
		}
		return nil
	}
	s.st.Again = 0
	s.st.Pump.Seq = out.Seq
	s.st.Handing = slices.DeleteFunc(s.st.Handing, func(n activities.Note) bool { return slices.Contains(out.Noted, n.ID) })
	for _, id := range out.Said {
		s.delivered(activities.Delivery{ID: id, State: activities.Acknowledged})
	}
	if last := out.Last; last != nil {
		p := &s.st.Pump
		p.TurnID, p.FinalText, p.FinalTruncated, p.Usage, p.AtMS = last.TurnID, last.FinalText, last.FinalTruncated, last.Usage, last.AtMS
	}
	return out.Ended
}

// endedThere is of a turn that ended on the lost host, which nobody was told in
// time. What codex said is shown; but the session goes on from before that end,
// so the turn is cut off all the same, and none of what hangs on an end is done.
func (s *session) endedThere(end *activities.TurnEnd, f *Failure) *Failure {
	if turn := s.st.sending(activities.SendTurn); turn != nil {
		s.delivered(activities.Delivery{ID: turn.Send.ID, State: activities.Acknowledged})
	}
	p := &s.st.Pump
	p.TurnID, p.FinalText, p.FinalTruncated = end.ID, end.FinalText, end.FinalTruncated
	if v := s.st.turn(s.st.TurnN); v != nil {
		v.Items, v.Usage = end.Items, UsageView{Input: end.Usage.Input, Output: end.Usage.Output, Cached: end.Usage.Cached, Turns: 1}
	}
	as := end.Status
	if end.Problem != nil {
		as += ": " + excerpt(end.Problem.Message, maxWord)
	}
	out := *f
	out.Message = excerpt(fmt.Sprintf("turn %d ended on host %s (%s), but the session goes on from %s, and the turn's work after that is not kept: %s",
		s.st.TurnN, s.hostName(), as, s.fromWhat(), f.Message), maxFailure)
	return &out
}

// move has an idle session go on elsewhere, since somebody said so.
func (s *session) move() {
	f := s.park()
	switch {
	case s.st.Parked != nil || s.st.Close != nil || s.full():
	case f != nil && f.Kind == activities.ErrTypeUnreachable && s.cannotMove() == "":
		s.goAway(f)
	case f != nil:
		s.st.Resume = nil
	}
}

// stayAfterAll drops a wish to go elsewhere that has no reason any more.
func (s *session) stayAfterAll() {
	s.note(activities.Note{Type: "state", Text: fmt.Sprintf("host %s is back in time, and a turn runs there: the session stays", s.hostName())})
	s.st.Resume = nil
}

// tellMoved says to codex, once, where it is and what may be missing.
func (s *session) tellMoved(restored string) {
	m, was := s.st.Moved, s.st.Was
	if m == nil && was != "" && was != s.st.Lease.Spec.Name {
		m = &moved{From: []string{was}, At: workflow.Now(s.ctx)}
	}
	if m == nil || restored == "" || restored == restoredWarm || !s.st.hadTurn() {
		return
	}
	s.st.Moved = m
	s.st.TellN++
	s.st.Tell = &activities.Tell{ID: fmt.Sprintf("%s.t%d", s.id, s.st.TellN), Text: s.movedText(*m) + s.whereFiles()}
}

// restoredWarm is what PrepareSession says where nothing had to travel.
const restoredWarm = "warm"

func (s *session) movedText(m moved) string {
	here, from, dir := s.st.Lease.Spec.Name, strings.Join(m.From, ", then host "), s.st.Layout.WorkDir
	alone := s.opt.Snapshot.Work == activities.WorkNone
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

// toldOf takes note of what became of what codex was to be told.
func (s *session) toldOf(d activities.Delivery) bool {
	if s.st.Tell == nil || d.ID != s.st.Tell.ID {
		return false
	}
	if d.State != activities.Decided {
		s.st.Tell, s.st.Moved = nil, nil
		return true
	}
	s.st.Tell.Incarnation = 0 // so no process has had it, whatever was feared before
	return true
}

// saidAgain is the message of a follow-up turn, after one that was cut off by
// the loss of its host: what the thread goes on from may not have the task.
func (s *session) saidAgain() Message {
	if g := s.st.Snap.Good; s.st.Said != nil && !(g != nil && s.st.Snap.Mid && g.Turn == s.st.TurnN) {
		return s.st.Said.again()
	}
	return s.st.Shape.of(Message{Text: goOnText})
}

func (s *session) checkResume(r Resume) error {
	if err := s.ends(); err != nil {
		return err
	}
	if err := short([]text{{"by", r.By, maxWord}}); err != nil {
		return refuse(RefusedBadInput, "resume session %s: %v", s.id, err)
	}
	if err := s.putAway(); err != nil {
		return err
	}
	if r.Host != "" && !NamePattern.MatchString(r.Host) {
		return refuse(RefusedBadInput, "resume session %s: %q is no name of a host", s.id, excerpt(r.Host, maxWord))
	}
	idle := s.st.Status == Idle || s.st.Status == Interrupted || s.limited()
	switch {
	case s.st.Parked != nil, s.waitsForSlot():
		return nil
	case s.st.Lost != nil:
		if why := s.cannotMove(); why != "" {
			return refuse(RefusedState, "session %s cannot go on elsewhere: %s", s.id, why)
		}
		if r.Host == s.hostName() {
			return refuse(RefusedState, "session %s waits for host %s already", s.id, r.Host)
		}
		return nil
	case s.st.Running && !s.st.Alive:
		return refuse(RefusedState, "session %s starts codex again on host %s: once that cannot be reached for %v it is lost, and the session can go on elsewhere",
			s.id, s.hostName(), s.opt.LostAfter)
	case s.st.Running:
		return refuse(RefusedState, "session %s runs a turn on host %s: interrupt it first, or wait for its end", s.id, s.hostName())
	case idle && (r.Host == "" || r.Host == s.hostName()):
		return refuse(RefusedState, "session %s is %s on host %s: name another host to have it go on there", s.id, s.st.Status, s.hostName())
	case idle && s.opt.Snapshot.When == SnapshotOff:
		return refuse(RefusedState, "session %s takes no snapshots: it cannot go elsewhere", s.id)
	case idle:
		return nil
	}
	return refuse(RefusedState, "session %s is %s", s.id, s.st.Status)
}

func (s *session) takeResume(r Resume) (SessionView, error) {
	if err := s.checkResume(r); err != nil {
		return SessionView{}, err
	}
	s.st.Resume = &r
	s.st.Held = s.st.Held && !s.st.Downed
	s.forgetTrouble()
	return s.view(), nil
}

// waitsForSlot says that it comes up, and no host is certain yet.
func (s *session) waitsForSlot() bool {
	return s.st.Begun && s.st.Status == Resuming && s.st.Lease == nil
}
