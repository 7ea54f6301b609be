package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// prepare gets a slot on a host and a seed, and brings codex, the folders and
// the credential there.
func (s *session) prepare() *Failure {
	s.publish()
	spec, f := s.acquire(PoolID(s.opt.Zone), acquire{
		Holder: s.id, Host: s.opt.Host, Labels: s.opt.Labels,
	})
	if f != nil || spec == nil {
		return f
	}
	s.st.Lease = &hostLease{Spec: *spec.Spec, Epoch: spec.Epoch}
	s.st.Generation++
	if s.opt.Seed != "" {
		grant, f := s.acquire(SeedID(s.opt.Seed), acquire{Holder: s.id})
		if f != nil || grant == nil {
			return f
		}
		s.st.Seed, s.st.SeedHeld = grant.Seed, true
	}
	s.become(Preparing)
	s.publish()
	s.st.PumpN++
	name := s.st.Lease.Spec.Name
	out, err := doing(s, setUp(s.ctx, "prepare "+name), sessions.PrepareSession, activities.PrepareSessionInput{
		Claim: s.claim(), Seed: s.st.Seed, Dir: s.opt.Dir, Sandbox: s.opt.Sandbox,
	})
	if err != nil {
		return failureOf("prepare "+name, err)
	}
	s.st.Layout, s.st.Permissions = &out.Layout, out.Permissions
	s.note(activities.Note{Type: "state", Text: "prepared", Data: map[string]string{
		"host": name, "codex": out.CodexVersion, "sandbox": s.opt.Sandbox,
		"approval_policy": s.opt.ApprovalPolicy, "permissions": out.Permissions,
	}})
	if s.st.Close != nil {
		return nil
	}
	s.restart()
	if s.st.Status == Failed {
		return s.st.Error
	}
	return nil
}

// restart starts codex anew, as the next incarnation; the thread is resumed by
// the next pump. It says whether the process runs.
func (s *session) restart() bool {
	name := s.st.Lease.Spec.Name
	if s.st.Incarnation == 0 {
		s.become(Starting)
	} else {
		s.become(Resuming)
	}
	s.publish()
	s.st.PumpN++
	if s.st.Incarnation > 0 {
		// What the last process left behind must not work beside the new one.
		_, err := doing(s, untilDone(s.ctx, "clear "+name), sessions.StopServer, activities.StopServerInput{
			Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation,
		})
		if err != nil {
			s.fail(failureOf("stop the former codex on "+name, err))
			return false
		}
		s.st.PumpN++
	}
	s.st.Incarnation++
	s.st.Pump.Cursor = activities.Cursor{Incarnation: s.st.Incarnation}
	s.st.Pump.Rewind, s.st.Pump.Open, s.st.Pump.TurnID = 0, nil, ""
	for i := range s.st.Sends {
		s.st.Sends[i].Handed = false
	}
	_, err := doing(s, setUp(s.ctx, "start codex on "+name), sessions.StartServer, activities.StartServerInput{
		Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation,
	})
	if err != nil {
		s.fail(failureOf("start codex on "+name, err))
		return false
	}
	s.st.Alive = true
	return true
}

// processEnded takes note that codex is gone. What was never written goes to
// the next process; a turn that had begun is shown as interrupted, or as
// unknown where codex may or may not have had it, and nothing is repeated.
func (s *session) processEnded(gone *activities.ProcessGone, p *activities.Problem) {
	s.st.Alive = false
	f := failureOfProblem(p)
	if f == nil {
		f = &Failure{Kind: "process_exit", Message: "codex is gone",
			Hint: "send a message to go on: the thread is resumed in a new process"}
	}
	if gone != nil && p == nil {
		switch gone.State {
		case "exited":
			f.Message = fmt.Sprintf("codex ended with status %d", gone.Code)
		case "rebooted":
			f.Message = "the host was rebooted while codex ran"
		default:
			f.Message = "codex is gone, and nobody saw how it ended"
		}
		if gone.StderrTail != "" {
			f.Message += ": " + gone.StderrTail
		}
	}
	if s.st.Pump.Opened != s.st.Incarnation {
		s.st.EarlyEnds++
		if s.st.EarlyEnds >= 3 {
			s.giveUpTurn("failed", f)
			s.fail(&Failure{Kind: "process_exit", Hint: "run `ctl host check` on this host",
				Message: fmt.Sprintf("codex ended %d times in a row before it could be used: %s", s.st.EarlyEnds, f.Message)})
			return
		}
	}
	for _, a := range s.st.open() {
		a.State = ApprovalVoid
	}
	if !s.st.Running {
		s.dropSends()
		return
	}
	for i, send := range s.st.Sends {
		if send.Send.Kind != activities.SendTurn {
			continue
		}
		if !send.Handed && !send.Send.Uncertain {
			s.note(activities.Note{Type: "state", Text: "codex ended before the message reached it; it goes to a new process", Data: failureData(f)})
			s.st.Sends = []pendingSend{s.st.Sends[i]}
			return
		}
		s.interrupted("unknown", f)
		return
	}
	s.interrupted("interrupted", f)
}

func (s *session) interrupted(status string, f *Failure) {
	s.giveUpTurn(status, f)
	s.dropSends()
	s.st.Error = f
	s.become(Interrupted)
}

// dropSends voids what can reach no process any more.
func (s *session) dropSends() {
	for _, p := range s.st.Sends {
		if a := s.st.approval(p.Approval); a != nil && a.State != ApprovalExpired && a.State != ApprovalAcknowledged {
			a.State = ApprovalVoid
		}
	}
	s.st.Sends = nil
}

// retire stops a codex that does not answer, or a turn that takes too long.
func (s *session) retire(p *activities.Problem) {
	name := s.st.Lease.Spec.Name
	s.st.PumpN++
	_, err := doing(s, untilDone(s.ctx, "retire codex on "+name), sessions.StopServer, activities.StopServerInput{
		Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation,
	})
	if err != nil {
		s.fail(failureOf("stop codex on "+name, err))
		return
	}
	s.processEnded(nil, p)
}

// refusedByCodex is a handshake or a thread that codex will not have. A thread
// that cannot be resumed is never replaced by a new one.
func (s *session) refusedByCodex(p *activities.Problem) {
	f := failureOfProblem(p)
	if f == nil {
		f = &Failure{Kind: "protocol", Message: "codex refused to begin"}
	}
	s.giveUpTurn("failed", f)
	if s.st.HasTurn {
		s.dropSends()
		s.st.Error = f
		s.become(Interrupted)
		return
	}
	s.fail(f)
}

// acquire asks a pool or a seed for a lease and waits for the answer. Nothing
// is returned when the session is to close first.
func (s *session) acquire(from string, a acquire) (*granted, *Failure) {
	ch := workflow.GetSignalChannel(s.ctx, signalLease)
	if err := workflow.SignalExternalWorkflow(s.ctx, from, "", signalAcquire, a).Get(s.ctx, nil); err != nil {
		return nil, notThere(from, err)
	}
	for {
		var got *granted
		err := s.await(func() bool {
			for got == nil {
				var g granted
				if !ch.ReceiveAsync(&g) {
					break
				}
				if g.From == from {
					got = &g
				}
			}
			return got != nil || s.st.Close != nil
		})
		switch {
		case err != nil:
			return nil, &Failure{Kind: activities.ErrTypeInternal, Message: fmt.Sprintf("wait for %s: %v", from, err)}
		case got == nil:
			s.signalRelease(from)
			return nil, nil
		case got.Refused != nil:
			return nil, got.Refused
		case got.Queued != "":
			s.st.Waits = got.Queued
			s.publish()
		default:
			s.st.Waits = ""
			return got, nil
		}
	}
}

func (s *session) signalRelease(from string) {
	err := workflow.SignalExternalWorkflow(s.ctx, from, "", signalRelease, release{Holder: s.id}).Get(s.ctx, nil)
	if err != nil {
		// The owner finds out by itself that the holder has ended.
		s.log.Warn("lease not given back", "from", from, "error", err)
	}
}

func (s *session) releaseLeases() {
	if s.st.SeedHeld {
		s.signalRelease(SeedID(s.opt.Seed))
		s.st.SeedHeld = false
	}
	if s.st.Lease != nil {
		s.signalRelease(PoolID(s.opt.Zone))
	}
}
