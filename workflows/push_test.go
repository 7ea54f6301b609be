package workflows

import (
	"context"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

func (f *fakeSessions) PushWorkspace(ctx context.Context, in workspaces.PushWorkspaceInput) (workspaces.PushWorkspaceResult, error) {
	err := f.act(ctx, "push", "push %s", in.Branch)
	return workspaces.PushWorkspaceResult{Commit: "c0ffee", Branch: in.Branch}, err
}

// pushable returns the options of a session that began with a repository.
func pushable() session.Options {
	return session.Options{Workspace: workspaces.Workspace{Repo: &workspaces.Repo{URL: "https://git.example.com/team/app.git"}}, Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotOff}}
}

func (w *world) pushing() bool { return strings.Contains(w.done(), "push ") }

// While git reads the work folder, no turn begins, and the session does nothing else on its
// host. All of that waits until the push is done.
func TestNoTurnBeginsWhileTheWorkIsPushed(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	let := w.fake.hang("push")
	var push *updated
	w.at(time.Second, func() { push = w.send(protocol.UpdatePush, protocol.Push{ID: "p1", Branch: "next", By: "ann"}) })
	w.once("git runs", w.pushing, func() {
		w.takes(w.send(protocol.SignalMessage, hello("m1")))
		w.once("the message is in line", func() bool { return w.view().Queue == 1 }, func() {
			if v := w.view(); v.Turn != nil || v.State != protocol.Idle || v.Waits != "git, which pushes to next" {
				t.Errorf("while git pushes, the session is %+v, turn %+v", v, v.Turn)
			}
			let()
		})
	})
	w.whenTurn(1, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(pushable())
	if out, ok := push.result.(workspaces.PushWorkspaceResult); !ok || out.Commit != "c0ffee" {
		t.Errorf("pushed: %+v", push)
	}
	if got := w.done(); got != "prepare s1 on web-1, start 1, push next, close discard=false" {
		t.Errorf("done was %s", got)
	}
}

func TestNoPushBeginsWhileATurnRuns(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("interrupted", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.refuses(w.send(protocol.UpdatePush, protocol.Push{ID: "p1", Branch: "next"}), protocol.RefusedState)
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(pushable())
}

// Closing a session does not wait for git. The caller of the push is told that it is not
// known how far the push came.
func TestCloseCallsBackAPush(t *testing.T) {
	w := newWorld(t)
	w.fake.hang("push")
	var push *updated
	w.at(time.Second, func() { push = w.send(protocol.UpdatePush, protocol.Push{ID: "p1", Branch: "next"}) })
	w.once("git runs", w.pushing, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(pushable())
	if push.err == nil || typeOf(push.err) != protocol.ErrTypeOutcomeUnknown || !strings.Contains(push.err.Error(), "session s1 closes") {
		t.Errorf("pushed: %v", push.err)
	}
	if got := w.done(); got != "prepare s1 on web-1, start 1, push next, close discard=false" {
		t.Errorf("done was %s", got)
	}
}

// Pushes that come at the same time are done one after another, and all of them before the
// run ends.
func TestARunEndsOnlyWhenAllIsPushed(t *testing.T) {
	w := newWorld(t)
	let := w.fake.hang("push")
	var one, two *updated
	w.at(time.Second, func() {
		one, two = w.send(protocol.UpdatePush, protocol.Push{ID: "p1", Branch: "one"}), w.send(protocol.UpdatePush, protocol.Push{ID: "p2", Branch: "two"})
	})
	w.once("git runs", w.pushing, func() {
		w.fill()
		let()
	})
	w.start(pushable())
	w.continued()
	if one.err != nil || two.err != nil || one.result == nil || two.result == nil {
		t.Errorf("pushed: %+v, %+v", one, two)
	}
	if got := w.done(); got != "prepare s1 on web-1, start 1, push one, push two" {
		t.Errorf("done was %s", got)
	}
}
