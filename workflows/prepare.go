package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// prepare gets a slot on a host and a seed, and brings codex, the folders and
// the credential there, with what was kept of the session if it goes on. It goes
// on where a former run stopped, and says whether it only stopped to continue as
// new.
func (s *session) prepare() (f *Failure, again bool) {
	s.publish()
	if f := s.pin(); f != nil || s.st.Close != nil {
		return f, false
	}
	if f, again := s.acquireSlot(); s.st.Lease == nil {
		return f, again
	}
	if s.wantsSeed() && !s.st.SeedHeld {
		if f, again := s.acquireSeed(); !s.st.SeedHeld {
			return f, again
		}
	}
	if f := s.cannotBeBrokered(); f != nil {
		return f, false
	}
	if s.st.Begun {
		s.become(Resuming)
	} else {
		s.become(Preparing)
	}
	s.publish()
	if f := s.prepareHost(); f != nil || s.st.Layout == nil || s.st.Close != nil {
		return f, f == nil && s.st.Close == nil
	}
	return s.restart(), false
}

// pin keeps the snapshot that the session begins with from being dropped while
// it waits for a host, and until it has one of its own: who drops it asks.
func (s *session) pin() *Failure {
	from := orElse(s.opt.From, s.opt.Workspace.Snapshot)
	if from == "" || s.st.Pinned {
		return nil
	}
	in := activities.PinSnapshotInput{Snapshot: from, Session: s.id, Run: s.firstRun()}
	for _, f := range s.opt.Files {
		in.Blobs = append(in.Blobs, f.Blob)
	}
	_, err := unlessClosing(s, untilDone(s.ctx, "pin "+from), snapshots.PinSnapshot, in)
	if err != nil && s.st.Close == nil {
		return failureOf("begin with snapshot "+from, err)
	}
	s.st.Pinned = err == nil
	return nil
}

// acquireSlot gets a host: the one that somebody named, or that was asked for,
// or any that fits, rather the one where its folder is.
func (s *session) acquireSlot() (f *Failure, again bool) {
	for s.st.Lease == nil {
		asked := s.st.Resume
		a := s.wantsSlot()
		if s.st.Warm != nil {
			a.Prefer = s.st.Warm.Spec.Name
		}
		// Who named a host, or waits for the end of a run, hears at once that there is none.
		a.Begun = s.st.Begun && !s.opt.CloseAfter
		if asked != nil && asked.Host != "" {
			a.Host, a.Begun = asked.Host, false
		}
		got, f, again := s.acquire(PoolID(s.opt.Zone), a, func() bool { return s.st.Resume != asked })
		switch {
		case got == nil && f == nil && !again && s.st.Close == nil:
			continue // somebody wants it elsewhere
		case got == nil:
			return f, again
		}
		s.cameTo(got.Spec.Name)
		s.st.Lease = &hostLease{Spec: *got.Spec, Epoch: got.Epoch, Labels: got.Labels}
		if w := s.st.Warm; w != nil && w.Spec.Name != got.Spec.Name {
			s.st.Warm = nil // the pool sees to it
		}
		s.st.Attempt++
		// It begins with the time, so that a session whose id was used before,
		// longer ago than Temporal remembers, is above whatever a host or the
		// store still knows of that one.
		s.st.Generation = max(s.st.Generation+1, workflow.Now(s.ctx).Unix())
	}
	return nil, false
}

// cameTo ends the wish to come up, unless it is for another host than the one
// that was granted, since somebody said so only then: it moves there.
func (s *session) cameTo(host string) {
	wish := s.st.Resume
	if wish == nil || wish.Host != "" && wish.Host != host {
		return
	}
	if wish.Host != "" && s.opt.Host != "" {
		s.opt.Host = host // it is pinned to that one from now on
	}
	s.st.Resume = nil
}

// prepareHost makes the host ready for codex. Without a failure and without a
// layout it was called back, or goes on in the next run. However long the line
// of those is who come back at once: all of them come back in the end.
func (s *session) prepareHost() *Failure {
	s.st.Touched = true
	name := s.st.Lease.Spec.Name
	discarded := func() bool { return s.st.Close != nil && s.st.Close.Discard }
	var out activities.PrepareSessionResult
	err := s.inLine(func() bool { return s.st.Close != nil || s.full() }, func() (err error) {
		s.st.PumpN++ // above what an attempt may have said to the host before
		out, err = doingUnless(s, carrying(setUp(s.ctx, "prepare "+name)), discarded, sessions.PrepareSession, activities.PrepareSessionInput{
			Claim: s.claim(), Seed: s.st.Seed, Dir: s.opt.Dir, Sandbox: s.opt.Sandbox, Confine: s.opt.Confine, Credentials: s.opt.Credentials,
			Restore:  s.restoreFrom(),
			Policies: s.policyTexts(),
			Snapshot: s.keeping(), Workspace: s.workspace(),
		})
		return err
	})
	switch {
	case err != nil && discarded(), wasBusy(err):
		return nil // called back, or there was no room yet
	case err != nil:
		f := failureOf("prepare "+name, err)
		if activities.HostFault(f.Kind) {
			s.st.Fault = f
		}
		return f
	}
	s.st.Layout, s.st.Permissions, s.st.Unprotected = &out.Layout, out.Permissions, out.Unprotected
	text := "prepared"
	if out.Unprotected != "" {
		text = "prepared, and the agent can read its credential: " + out.Unprotected
	}
	data := map[string]string{
		"host": name, "codex": out.CodexVersion, "sandbox": s.opt.Sandbox,
		"approval_policy": s.opt.ApprovalPolicy, "permissions": out.Permissions,
	}
	if out.Restored != "" {
		data["restored"], data["snapshot"] = out.Restored, orElse(s.goodSnapshot(), s.opt.From)
	}
	s.cameToWork(out)
	s.note(activities.Note{Type: "state", Text: text, Data: data})
	if out.Differs != "" {
		s.note(activities.Note{Type: "state", Text: "the restored work folder is not quite as it was: " + out.Differs, Data: map[string]string{"host": name}})
	}
	if s.opt.From != "" && !s.st.Begun {
		s.st.ForkOf, s.st.Pump.ThreadID = out.ThreadID, out.ThreadID
	}
	s.tellMoved(out.Restored)
	s.st.Warm, s.st.Begun, s.st.Bare, s.st.LeftOn = nil, true, false, ""
	return nil
}

// restoreFrom is what the session goes on from; nil where it begins.
func (s *session) restoreFrom() *activities.RestoreSpec {
	r := activities.RestoreSpec{Snapshot: s.goodSnapshot()}
	if r.Snapshot == "" && s.opt.From != "" {
		r.Snapshot, r.Fork = s.opt.From, true
	}
	switch {
	case s.st.Warm != nil:
		r.Warm = s.st.Warm.Generation
	case s.st.Bare:
		r.Warm = s.st.Generation // it never left
	case r.Snapshot == "":
		return nil
	}
	return &r
}

// cannotBeBrokered refuses a seed that has no access tokens to give.
func (s *session) cannotBeBrokered() *Failure {
	if s.opt.Credentials != activities.CredentialsBroker || s.st.Seed.Kind == activities.KindChatGPT {
		return nil
	}
	return &Failure{Kind: RefusedBadInput, Hint: "leave --credentials broker out, or name a seed that is a ChatGPT login",
		Message: fmt.Sprintf("seed %s is of kind %s: only a ChatGPT login has access tokens that a broker can give", s.st.Seed.Name, s.st.Seed.Kind)}
}

// restart starts codex anew, as the next incarnation; the thread is resumed by
// the next pump. With no failure the process runs, unless the session is to
// close meanwhile.
func (s *session) restart() *Failure {
	name := s.st.Lease.Spec.Name
	if s.st.Incarnation == 0 {
		s.become(Starting)
	} else {
		s.become(Resuming)
	}
	s.publish()
	s.st.PumpN++
	s.st.Alive = false // it is stopped, or gone already
	if s.st.Incarnation > 0 && !s.st.Stopped {
		// What the last process left behind must not work beside the new one.
		left, err := s.stopServer("clear")
		if left {
			return nil
		}
		if err != nil {
			return failureOf("stop the former codex on "+name, err)
		}
		s.st.PumpN++
		s.st.Stopped = true
	}
	if s.st.Bare {
		if f := s.prepareAgain(); f != nil || s.st.Close != nil {
			return f
		}
	}
	s.st.Stopped = false
	s.st.Incarnation++
	s.st.Pump.Cursor = activities.Cursor{Incarnation: s.st.Incarnation}
	s.st.Pump.Rewind, s.st.Pump.Open, s.st.Pump.TokenAsks, s.st.Pump.TurnID = 0, nil, nil, ""
	for i := range s.st.Sends {
		s.st.Sends[i].Handed = false
	}
	_, err := unlessClosing(s, setUp(s.ctx, "start codex on "+name), sessions.StartServer, activities.StartServerInput{
		Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation,
	})
	if err != nil && s.st.Close == nil {
		return failureOf("start codex on "+name, err)
	}
	s.st.Alive, s.st.ProcessEnd = err == nil, ""
	return nil
}

// prepareAgain makes the folder ready that codex was to leave, and did not. The
// seed is asked for again, since a newer generation of it may be on its way here.
func (s *session) prepareAgain() *Failure {
	s.insists = true
	defer func() { s.insists = false }()
	if s.wantsSeed() {
		if f, _ := s.acquireSeed(); f != nil || s.st.Close != nil {
			return f
		}
	}
	defer func() { s.st.PumpN++ }()
	return s.prepareHost()
}

// unableToStart is a session for which codex could not be started again: if its
// host is lost, and it may, it goes on elsewhere.
func (s *session) unableToStart(f *Failure) {
	if f.Kind == activities.ErrTypeUnreachable && s.mayMove() {
		s.goAway(f)
		return
	}
	s.cannotStart(f)
}

// cannotStart ends the turn for which codex could not go on. A session that
// never had a turn ends with it; another one stops there, with its queue, until
// the next message tells it to try again. Where an earlier process may have had
// the turn's message, nobody found out: that it failed would be too much to say.
func (s *session) cannotStart(f *Failure) {
	status := "failed"
	if s.inDoubt() {
		status = "unknown"
	}
	if s.st.Cut != nil {
		f.Message = excerpt(f.Message+". Before that: "+s.st.Cut.Message, maxFailure)
	}
	s.giveUpTurn(status, f)
	if !s.st.hadTurn() {
		s.fail(f)
		return
	}
	s.st.Error, s.st.Held = f, true
	s.become(Interrupted)
	if s.opt.CloseAfter && s.st.Close == nil {
		s.st.Close = &Close{By: s.opt.By}
	}
}

// hadTurn says that the thread has, or may have, a rollout: it is resumed and
// never replaced.
func (st *sessionState) hadTurn() bool { return st.HasTurn || st.MayHaveTurn }

// refusedByCodex is a handshake or a thread that codex will not have. A thread
// that cannot be resumed is never replaced by a new one.
func (s *session) refusedByCodex(p *activities.Problem) {
	f := failureOfProblem(p)
	if f == nil {
		f = &Failure{Kind: "protocol", Message: "codex refused to begin"}
	}
	if f.Kind == "auth" {
		s.doubtSeed(f.Message, f.Hint)
	}
	if f.Kind == "thread_missing" && !s.st.HasTurn && s.st.MayHaveTurn {
		// The message of which nothing is known did not reach the thread: it
		// never had a turn, so there is nothing to lose.
		s.st.MayHaveTurn = false
		s.note(activities.Note{Type: "state", Text: "the thread never had a turn and cannot be resumed: a new one is started",
			Data: map[string]string{"thread": s.st.Pump.ThreadID}})
		return
	}
	s.cannotStart(f)
}
