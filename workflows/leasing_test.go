package workflows

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

// These tests are about the signals between a session and its seed.

func closes(out places.CloseSessionResult, err error) func(places.CloseSessionInput) (places.CloseSessionResult, error) {
	return func(in places.CloseSessionInput) (places.CloseSessionResult, error) {
		out.Seq = in.Seq + int64(len(in.Notes))
		return out, err
	}
}

func TestASessionGivesItsSeedBackWithNoMoreThanIsCertain(t *testing.T) {
	for name, c := range map[string]struct {
		close            protocol.Close
		end              func(places.CloseSessionInput) (places.CloseSessionResult, error)
		clean, discarded bool
	}{
		"wiped":             {protocol.Close{}, closes(places.CloseSessionResult{Wiped: true, Removed: true}, nil), true, false},
		"not wiped":         {protocol.Close{}, closes(places.CloseSessionResult{Removed: true}, nil), false, false},
		"given up, wiped":   {protocol.Close{Discard: true}, closes(places.CloseSessionResult{Wiped: true, Unsaved: true}, nil), true, true},
		"given up, away":    {protocol.Close{Discard: true}, closes(places.CloseSessionResult{}, finally(protocol.ErrTypeUnreachable)), false, false},
		"another's by then": {protocol.Close{}, closes(places.CloseSessionResult{}, finally(protocol.ErrTypeFenced)), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.ends = c.end
			w.at(time.Second, func() { w.takes(w.send(protocol.SignalClose, c.close)) })
			w.start(session.Options{Seed: "team"})
			r := w.back[0]
			if w.released[0] != "seed/team" || r.Epoch != 7 || r.Generation == 0 || r.Clean != c.clean || r.Discarded != c.discarded {
				t.Errorf("%s got %+v", w.released[0], r)
			}
		})
	}
}

func TestASessionSaysWhereItsSeedWillBeBeforeItIsThere(t *testing.T) {
	w := newWorld(t)
	w.ends(time.Second)
	w.start(session.Options{Seed: "team"})
	a := w.asked[len(w.asked)-1]
	if a.At == nil || a.At.Name != "web-1" || a.Generation == 0 || a.Generation != w.fake.closed[0].Claim.Generation || a.Holder != "s1" {
		t.Errorf("asked with %+v", a)
	}
}

func TestASeedOfAPoolIsTheSessionsSeed(t *testing.T) {
	w := newWorld(t)
	w.at(time.Second, func() {
		if v := w.view(); v.Seed != "team" || v.State != protocol.Idle {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(2 * time.Second)
	w.start(session.Options{SeedPool: "logins"})
	if got := strings.Join(w.released, " "); got != "seed/team pool/default" || w.back[0].Epoch != 7 {
		t.Errorf("released %s with %+v", got, w.back)
	}
	if last := w.asked[len(w.asked)-1]; last.Seed != "team" || len(w.asked) != 3 {
		t.Errorf("the host's pool was told %+v", w.asked)
	}
}

func TestASessionTakesTheGenerationThatWasSavedUnderItsEpoch(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", ""))
	say := func(epoch, generation int64, blob string) {
		w.SignalWorkflow(lease.SignalLease, lease.Granted{From: protocol.SeedID("team"), Epoch: epoch,
			Seed: &protocol.SeedRef{Name: "team", Generation: generation, Blob: blob, Digest: "d", Epoch: epoch}})
	}
	w.at(time.Second, func() { say(7, 4, "newer"); say(6, 9, "of another epoch"); say(7, 2, "older") })
	w.at(2*time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.ends(time.Minute)
	w.start(session.Options{Seed: "team"})
	if s := w.fake.ran[0].Seed; s.Blob != "newer" || s.Generation != 4 || s.Epoch != 7 {
		t.Errorf("the pump had %+v", s)
	}
	if s := w.fake.closed[0].Seed; s.Blob != "newer" {
		t.Errorf("closed with %+v", s)
	}
}

func failsAuth(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	out, err := endsTurn("failed", "")(context.Background(), in)
	out.Pump.Turn.Problem = &protocol.Problem{Kind: "auth", Message: "codex was told 401", Hint: "import it anew"}
	return out, err
}

func TestAnAuthFailureOfATurnIsToldToTheSeed(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", ""), failsAuth, endsTurn("completed", ""), endsTurn("completed", ""))
	for i, id := range []string{"m1", "m2", "m3", "m4"} {
		w.at(time.Duration(i+1)*time.Minute, func() { w.send(protocol.SignalMessage, hello(id)) })
	}
	w.ends(10 * time.Minute)
	w.start(session.Options{Seed: "team"})
	if len(w.reports) != 2 {
		t.Fatalf("reported %+v", w.reports)
	}
	bad, good := w.reports[0], w.reports[1]
	if bad.Verdict != lease.VerdictSuspect || bad.Holder != "s1" || bad.Epoch != 7 || !strings.Contains(bad.Reason, "401") || bad.Hint != "import it anew" {
		t.Errorf("reported %+v", bad)
	}
	if good.Verdict != lease.VerdictAlive || good.Epoch != 7 || good.Began.IsZero() {
		t.Errorf("reported %+v", good)
	}
	if !w.back[0].Proven.After(good.Began) {
		t.Errorf("gave it back with %+v", w.back[0])
	}
}

// A turn that the agent declares failed fails, and its login has worked.
func TestATurnThatTheAgentDeclaresFailedIsFailed(t *testing.T) {
	declares := func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := endsTurn("failed", "Sorry.")(context.Background(), in)
		out.Pump.Turn.Finish = &protocol.Finish{Turn: 2, Outcome: protocol.FinishFailed, Summary: "there is no compiler"}
		out.Pump.Turn.Problem = &protocol.Problem{Kind: protocol.EndAgentFailed, Message: "the agent declared its task failed: there is no compiler", Hint: "say where it is"}
		return out, err
	}
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, failsAuth, declares)
	w.at(time.Minute, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Minute, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(3*time.Minute, func() {
		v := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 2})
		if v.Status != "failed" || v.Finish == nil || v.Finish.Summary != "there is no compiler" || v.Error == nil || v.Error.Kind != protocol.EndAgentFailed || v.FinalText != "Sorry." {
			t.Errorf("turn is %+v", v)
		}
	})
	w.ends(10 * time.Minute)
	w.start(session.Options{Seed: "team", Tools: []string{protocol.ToolFinish}})
	if len(w.reports) != 2 || w.reports[1].Verdict != lease.VerdictAlive {
		t.Errorf("reported %+v", w.reports)
	}
}

func TestACodexThatIsNotLoggedInIsToldToTheSeed(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, refuses("auth", protocol.Decided))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.start(session.Options{Seed: "team"})
	if len(w.reports) != 1 || w.reports[0].Verdict != lease.VerdictSuspect {
		t.Errorf("reported %+v", w.reports)
	}
}

// stderrSays makes a pump that ends with its process, or before its limit, report a kind that
// codex's standard error shows.
func stderrSays(kind string, pump func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error)) func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := pump(ctx, in)
		out.Pump.Problem = &protocol.Problem{Kind: kind, Message: "codex ended: the refresh token was revoked", Hint: "import it anew"}
		if out.Process != nil {
			out.Process.Code, out.Process.StderrTail = 1, "the refresh token was revoked"
		}
		return out, err
	}
}

func TestALoginThatStderrCallsRefusedIsToldToTheSeed(t *testing.T) {
	mute := func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TimedOut, State: opened(in), Deliveries: acked(in)}}, nil
	}
	for name, c := range map[string]struct {
		kind  string
		pump  func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error)
		doubt bool
	}{
		"dies":              {protocol.EndAuth, dies(protocol.Acknowledged, true), true},
		"mute":              {protocol.EndAuth, mute, true},
		"dies of its quota": {protocol.EndQuota, dies(protocol.Acknowledged, true), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = append(w.fake.pumps, stderrSays(c.kind, c.pump))
			if name == "mute" { // the rest of the journal is read
				w.fake.pumps = append(w.fake.pumps, dies(protocol.Acknowledged, true))
			}
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.at(5*time.Minute, func() {
				if v := w.view(); v.State != protocol.Interrupted || v.Error == nil || v.Error.Kind != c.kind || !strings.Contains(v.Error.Message, "revoked") {
					t.Errorf("session is %+v, error %+v", v, v.Error)
				}
				if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1}); turn.EndedBy != protocol.EndedByProcess {
					t.Errorf("turn is %+v", turn)
				}
			})
			w.ends(10 * time.Minute)
			w.start(session.Options{Seed: "team"})
			if doubted := len(w.reports) == 1 && w.reports[0].Verdict == lease.VerdictSuspect && strings.Contains(w.reports[0].Reason, "revoked"); doubted != c.doubt {
				t.Errorf("reported %+v", w.reports)
			}
		})
	}
}

// waitsUntilServed starts a session whose pool answers as given, and closes it once
// it has a host. It returns what the session's view showed meanwhile.
func waitsUntilServed(t *testing.T, answers ...poolAnswer) (w *world, showed []string) {
	w = newWorld(t)
	w.answers = answers
	var look func()
	look = func() {
		v := w.view()
		if v.State != protocol.Queued && v.State != protocol.Failed {
			w.send(protocol.SignalClose, protocol.Close{})
			return
		}
		if n := len(showed); n == 0 || showed[n-1] != v.Waits {
			showed = append(showed, v.Waits)
		}
		w.RegisterDelayedCallback(look, 10*time.Second)
	}
	w.RegisterDelayedCallback(look, 10*time.Second)
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Closed {
		t.Errorf("session is %+v", v)
	}
	return w, showed
}

func TestASessionIsServedByAPoolThatWasBegunAnew(t *testing.T) {
	gone := poolAnswer{err: &temporal.UnknownExternalWorkflowExecutionError{}}
	w, showed := waitsUntilServed(t, poolAnswer{Granted: lease.Granted{Queued: "a slot"}}, gone, gone)
	if got := strings.Join(showed, "; "); len(w.asked) != 4 || !strings.HasPrefix(got, "a slot; ") || !strings.Contains(got, "pool/default") {
		t.Errorf("asked %d times, showed %s", len(w.asked), got)
	}
	for _, a := range w.asked[1:] {
		if !a.Begun || !a.AskedAt.Equal(w.asked[0].AskedAt) || a.Run != w.asked[0].Run || a.Generation != w.asked[0].Generation {
			t.Errorf("asked with %+v, then with %+v", w.asked[0], a)
		}
	}
}

func TestASessionThatIsToAskLaterWaits(t *testing.T) {
	full := poolAnswer{Granted: lease.Granted{Refused: &protocol.Failure{Kind: "busy", Message: "2000 sessions wait already"}, RetryAfter: time.Minute}}
	w, showed := waitsUntilServed(t, full, full)
	if got := strings.Join(showed, "; "); len(w.asked) != 3 || got != "2000 sessions wait already" {
		t.Errorf("asked %d times, showed %s", len(w.asked), got)
	}
}

func TestALeaseThatIsGrantedAtOnceCostsNoTimer(t *testing.T) {
	w := newWorld(t)
	w.SetOnTimerScheduledListener(func(string, time.Duration) { t.Error("a timer was started") })
	w.ends(time.Second)
	w.start(session.Options{Seed: "team"})
}
