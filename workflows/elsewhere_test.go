package workflows

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// These tests park and move sessions on a real server, where messages can come at the same
// time.

// keeps waits until a session's newest snapshot is of a turn.
func (r *real) keeps(id string, turn int) {
	r.t.Helper()
	r.until("the turn is kept", func() bool { v := r.view(id).Snapshot; return v != nil && v.ID != "" && v.Turn == turn })
}

// losesItsHost has a session run a turn on web-1, and then lose web-1 during the
// next turn. There is also web-2.
func (r *real) losesItsHost(opt session.Options) string {
	r.t.Helper()
	r.update(protocol.PoolID(r.zone), protocol.UpdatePutHost, nil, put("web-2", 3))
	id := r.session("s", opt)
	r.say(id, "m1", "hello")
	r.ended(id, "m1", "completed")
	r.keeps(id, 1)
	r.say(id, "m2", "ask make")
	r.becomes(id, protocol.Waiting)
	r.host.leave("web-1", true)
	r.decide(id, 1, "accept", "")
	r.ended(id, "m2", "interrupted")
	r.until("it goes on", func() bool { return r.host.attached(id) || len(r.view(id).Requests) == 1 })
	if len(r.view(id).Requests) == 1 {
		r.update(protocol.SessionID(id), protocol.SignalInterrupt, nil, protocol.Interrupt{By: "bob"})
	}
	return id
}

func TestALostHostIsLeftAndCleanedWhenItIsBack(t *testing.T) {
	r := newReal(t)
	r.looksOften()
	r.work()
	id := r.losesItsHost(session.Options{OnHostLost: protocol.HostLostMove, OnInterrupt: protocol.InterruptContinue})
	r.ended(id, id+".c1", "interrupted")
	v := r.view(id)
	if v.Host != "web-2" || v.Attempt != 2 {
		t.Errorf("session is %+v", v)
	}
	if h := asked[protocol.HostView](r, protocol.PoolID(r.zone), protocol.QueryHost, "web-1"); h.Used != 0 || h.Unclean != 1 {
		t.Errorf("host is %+v", h)
	}
	if told := r.host.told[id]; len(told) != 1 || !strings.Contains(told[0], "Host web-1") {
		t.Errorf("codex was told %q", told)
	}
	r.host.leave("web-1", false)
	r.until("what was left is gone", func() bool {
		return asked[protocol.HostView](r, protocol.PoolID(r.zone), protocol.QueryHost, "web-1").Unclean == 0
	})
	// The session goes back to the first host.
	r.update(protocol.SessionID(id), protocol.SignalResume, nil, protocol.Resume{Host: "web-1"})
	r.until("it is back", func() bool { v := r.view(id); return v.State == protocol.Idle && v.Host == "web-1" })
	came := r.host.prepared(id)
	if last := came[len(came)-1]; len(came) != 3 || last.Restore.Warm != 0 || last.Claim.Generation <= came[1].Claim.Generation {
		t.Errorf("prepared with %+v", came)
	}
	r.say(id, "m9", "hello")
	r.ended(id, "m9", "completed")
	r.close(id)
}

func TestALoginOfALostHostWaitsForItAndAnotherOfItsPoolDoesNot(t *testing.T) {
	r := newReal(t)
	r.looksOften()
	r.work()
	r.update(protocol.PoolID(r.zone), protocol.UpdatePutHost, nil, put("web-2", 3))
	r.makesSeed("a", "logins")
	r.makesSeed("b", "logins")
	pool := r.zone + "-logins"
	r.until("the pool knows both", func() bool { return len(r.pool(pool).Seeds) == 2 })
	id := r.session("s", session.Options{SeedPool: pool, OnHostLost: protocol.HostLostMove})
	r.say(id, "m1", "hello")
	r.ended(id, "m1", "completed")
	r.keeps(id, 1)
	had := r.view(id).Seed
	r.host.leave("web-1", true)
	r.say(id, "m2", "hello")
	r.until("it has come up", func() bool { v := r.view(id); return v.State == protocol.Interrupted && v.Process.Alive })
	v := r.view(id)
	if v.Host != "web-2" || v.Seed == had || v.Seed == "" {
		t.Errorf("session is %+v, it had %s", v, had)
	}
	if s := r.seed(had); s.State != protocol.SeedRecovering {
		t.Errorf("the login that is on the lost host is %s", s.State)
	}
	r.host.leave("web-1", false)
	r.say(id, "m3", "hello")
	r.ended(id, "m3", "completed")
	r.close(id)
}

// Before snapshots are deleted, a session is asked which snapshot it goes on from.
// It answers while it runs, while it is parked, and after its end.
func TestASessionSaysWhatItGoesOnFrom(t *testing.T) {
	r := newReal(t)
	stop := r.work()
	says := func(session, want string, runs bool) {
		t.Helper()
		now, err := inquiry.AskSession(t.Context(), r.c, session)
		if err != nil || now.Snapshot != want || now.Runs != runs || (now.Run != "") != (runs || want != "" || session != "nobody") {
			t.Errorf("%s says %+v, %v; want %q, %v", session, now, err, want, runs)
		}
	}
	id := r.session("s", session.Options{})
	r.becomes(id, protocol.Idle)
	says(id, "", true)
	r.say(id, "m0", "hello")
	r.ended(id, "m0", "completed")
	r.until("it has a snapshot", func() bool { v := r.view(id); return v.Snapshot != nil && v.Snapshot.ID != "" })
	says(id, r.view(id).Snapshot.ID, true)
	r.update(protocol.SessionID(id), protocol.SignalPark, nil, protocol.Park{})
	r.becomes(id, protocol.Parked)
	good := r.view(id).Snapshot.ID
	says(id, good, true)
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if now, err := inquiry.AskSession(ctx, r.c, id); err == nil {
		t.Errorf("with nobody to answer it says %+v", now)
	}
	r.work()
	says(id, good, true)
	r.close(id)
	says(id, "", false)
	says("nobody", "", false)
}

// Messages and parking may come in any order. No message is lost, and none has two turns.
func TestMessagesWhileASessionParksAllHaveTheirTurn(t *testing.T) {
	r := newReal(t)
	r.work()
	id := r.session("s", session.Options{})
	r.say(id, "m0", "hello")
	r.ended(id, "m0", "completed")
	const tries = 12
	for i := 1; i <= tries; i++ {
		m := fmt.Sprint("m", i)
		r.until("it can park", func() bool { return r.view(id).State == protocol.Idle })
		sent := make(chan error, 1)
		go func() {
			for range i % 4 { // the result does not matter: this only varies the interleaving
				if _, err := r.c.QueryWorkflow(t.Context(), protocol.SessionID(id), "", protocol.QueryState); err != nil {
					sent <- err
					return
				}
			}
			sent <- r.c.SignalWorkflow(t.Context(), protocol.SessionID(id), "", protocol.SignalMessage, protocol.Message{ID: m, Text: "hello"})
		}()
		if err := r.tryUpdate(protocol.SessionID(id), protocol.SignalPark, nil, protocol.Park{}); err != nil && typeOf(err) != protocol.RefusedState {
			t.Errorf("park was answered %v", err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		r.until("the message is there", func() bool { v := r.view(id); return v.Turn.N == i+1 || v.Queue > 0 })
		r.ended(id, m, "completed")
	}
	ran := r.host.ran(id)
	if len(ran) != tries+1 {
		t.Errorf("codex ran %+v", ran)
	}
	r.close(id)
}

func TestCloseWhileParking(t *testing.T) {
	r := newReal(t)
	r.work()
	id := r.session("s", session.Options{})
	r.say(id, "m1", "hello")
	r.ended(id, "m1", "completed")
	r.keeps(id, 1)
	r.host.gate("park " + id)
	r.update(protocol.SessionID(id), protocol.SignalPark, nil, protocol.Park{})
	r.until("it parks", func() bool { return strings.Contains(r.view(id).Waits, "park") })
	if v := r.close(id); v.State != protocol.Closed || v.Close == nil || !v.Close.Wiped {
		t.Errorf("session ended as %+v", v)
	}
	r.until("its slot is free", func() bool {
		return asked[protocol.HostView](r, protocol.PoolID(r.zone), protocol.QueryHost, "web-1").Used == 0
	})
}

func TestAWorkerThatDiesWhileASessionParksIsFollowedByTheNext(t *testing.T) {
	r := newReal(t)
	stop := r.work()
	id := r.session("s", session.Options{})
	r.say(id, "m1", "hello")
	r.ended(id, "m1", "completed")
	r.keeps(id, 1)
	open := r.host.gate("park " + id)
	r.update(protocol.SessionID(id), protocol.SignalPark, nil, protocol.Park{})
	r.until("it parks", func() bool { return strings.Contains(r.view(id).Waits, "park") })
	stop()
	open()
	r.work()
	r.becomes(id, protocol.Parked)
	h := asked[protocol.HostView](r, protocol.PoolID(r.zone), protocol.QueryHost, "web-1")
	if h.Used != 0 || len(h.Holders) != 0 || h.Unclean != 0 {
		t.Errorf("host is %+v", h)
	}
	r.say(id, "m2", "hello")
	r.ended(id, "m2", "completed")
	if came := r.host.prepared(id); len(came) != 2 || came[1].Restore.Warm != came[0].Claim.Generation {
		t.Errorf("prepared with %+v", came)
	}
	r.close(id)
}

func TestTheFolderOfAParkedSessionThatIsTerminatedIsCleanedUp(t *testing.T) {
	r := newReal(t)
	r.looksOften()
	r.work()
	id := r.session("s", session.Options{})
	r.say(id, "m1", "hello")
	r.ended(id, "m1", "completed")
	r.update(protocol.SessionID(id), protocol.SignalPark, nil, protocol.Park{})
	r.becomes(id, protocol.Parked)
	r.terminate(id)
	r.until("it is cleaned up", func() bool {
		h := asked[protocol.HostView](r, protocol.PoolID(r.zone), protocol.QueryHost, "web-1")
		return h.Unclean == 0 && len(h.Leftovers) == 1 && h.Leftovers[0].Removed
	})
}

func TestARolloverWhileASnapshotIsTakenOnARealServer(t *testing.T) {
	r := newReal(t, shortRuns)
	r.work()
	id := r.session("s", session.Options{})
	r.host.gate("snapshot " + id)
	for i := 1; i <= 8; i++ {
		m := fmt.Sprint("m", i)
		r.say(id, m, "hello")
		r.ended(id, m, "completed")
	}
	if runs := r.runs(protocol.SessionID(id)); len(runs) < 2 {
		t.Errorf("there were %d runs", len(runs))
	}
	v := r.view(id).Snapshot
	if v == nil || v.ID != "" || v.Error != nil {
		t.Errorf("snapshots are %+v", v)
	}
	r.host.mu.Lock()
	delete(r.host.gates, "snapshot "+id)
	r.host.mu.Unlock()
	r.update(protocol.SessionID(id), protocol.SignalClose, nil, protocol.Close{})
	if v, err := r.result(id); err != nil || v.State != protocol.Closed {
		t.Errorf("session ended as %+v (%v)", v, err)
	}
}
