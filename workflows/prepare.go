package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// prepare gets a slot on a host and a seed, and brings codex, the folders and
// the credential there. It goes on where a former run stopped, and says whether
// it only stopped to continue as new.
func (s *session) prepare() (f *Failure, again bool) {
	s.publish()
	if s.st.Lease == nil {
		got, f, again := s.acquire(PoolID(s.opt.Zone), acquire{Holder: s.id, Host: s.opt.Host, Labels: s.opt.Labels,
			Seed: s.opt.Seed})
		if got == nil {
			return f, again
		}
		s.st.Lease = &hostLease{Spec: *got.Spec, Epoch: got.Epoch, Labels: got.Labels}
		s.st.Attempt++
		// It begins with the time, so that a session whose id was used before,
		// longer ago than Temporal remembers, is above whatever a host or the
		// store still knows of that one.
		s.st.Generation = max(s.st.Generation+1, workflow.Now(s.ctx).Unix())
	}
	if s.wantsSeed() && !s.st.SeedHeld {
		if f, again := s.acquireSeed(); !s.st.SeedHeld {
			return f, again
		}
	}
	if f := s.cannotBeBrokered(); f != nil {
		return f, false
	}
	s.become(Preparing)
	s.publish()
	s.st.PumpN++
	s.st.Touched = true
	name := s.st.Lease.Spec.Name
	discarded := func() bool { return s.st.Close != nil && s.st.Close.Discard }
	out, err := doingUnless(s, setUp(s.ctx, "prepare "+name), discarded, sessions.PrepareSession, activities.PrepareSessionInput{
		Claim: s.claim(), Seed: s.st.Seed, Dir: s.opt.Dir, Sandbox: s.opt.Sandbox, Credentials: s.opt.Credentials,
	})
	switch {
	case err != nil && discarded():
		return nil, false // called back
	case err != nil:
		return failureOf("prepare "+name, err), false
	}
	s.st.Layout, s.st.Permissions, s.st.Unprotected = &out.Layout, out.Permissions, out.Unprotected
	text := "prepared"
	if out.Unprotected != "" {
		text = "prepared, and the agent can read its credential: " + out.Unprotected
	}
	s.note(activities.Note{Type: "state", Text: text, Data: map[string]string{
		"host": name, "codex": out.CodexVersion, "sandbox": s.opt.Sandbox,
		"approval_policy": s.opt.ApprovalPolicy, "permissions": out.Permissions,
	}})
	if s.st.Close != nil {
		return nil, false
	}
	return s.restart(), false
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
	if s.st.Incarnation > 0 {
		// What the last process left behind must not work beside the new one.
		_, err := unlessClosing(s, untilDone(s.ctx, "clear "+name), sessions.StopServer, activities.StopServerInput{
			Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation, Seed: s.st.Seed,
		})
		if s.st.Close != nil {
			return nil
		}
		if err != nil {
			return failureOf("stop the former codex on "+name, err)
		}
		s.st.PumpN++
	}
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
