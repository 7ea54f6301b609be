package sessions

import (
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// has waits until a session shows n children that are is.
func has(t *testing.T, id string, n int, is func(protocol.ChildView) bool) {
	t.Helper()
	e2e.Until(t, id+" has its children", func() (bool, error) {
		all := e2e.Show(t, id).Children
		for _, v := range all {
			if !is(v) {
				return false, nil
			}
		}
		return len(all) == n, nil
	})
}

func TestASessionStartsOthersAndIsToldHowEachEnded(t *testing.T) {
	e2e.Session(t, "lead", "--tools", "finish", "--children", "3")
	v := e2e.Turn(t, "lead", "lead two sessions")
	for _, want := range []string{`{"session":"lead-child-1-`, `{"session":"lead-child-2-`,
		`"outcome":"completed","text":"You said: hello from one"`, `"outcome":"failed"`, `"kind":"agent_failed"`} {
		if !strings.Contains(v.FinalText, want) {
			t.Errorf("the model had %q, not %q", v.FinalText, want)
		}
	}
	all := e2e.Show(t, "lead").Children
	// codex makes both calls at once, so either can be the first.
	slices.SortFunc(all, func(a, b protocol.ChildView) int { return strings.Compare(a.Outcome, b.Outcome) })
	if len(all) != 2 || all[0].Outcome != protocol.ChildCompleted || all[1].Outcome != protocol.ChildFailed || all[1].Error == nil || all[1].Error.Kind != protocol.EndAgentFailed || all[0].EndedAt.IsZero() {
		t.Fatalf("its children are %+v", all)
	}
	done, failed := all[0].Session, all[1].Session
	if one := e2e.HasClosed(t, done); one.Origin != "parent/lead" || one.Parent != "lead" || one.ThreadID == "" || one.Options["tools"] != "finish" {
		t.Errorf("a child is %+v", one)
	}
	if out := e2e.OK(t, "session", "list", "--children-of", "lead"); !strings.Contains(out, "lead-child-1") || !strings.Contains(out, "lead-child-2") || strings.Contains(out, "lead-child-3") {
		t.Errorf("listed are\n%s", out)
	}
	if out := e2e.OK(t, "session", "list", "--tree"); !strings.Contains(out, "\nlead ") || !strings.Contains(out, "\n  lead-child-1-") {
		t.Errorf("the tree is\n%s", out)
	}
	if out := e2e.OK(t, "session", "show", "lead"); !strings.Contains(out, "child "+failed+" of turn 1: failed: agent_failed") {
		t.Errorf("a person is shown\n%s", out)
	}
	e2e.OK(t, "session", "close", "lead")
	if out := e2e.OK(t, "transcript", "lead"); !strings.Contains(out, "child session lead-child-1-") || !strings.Contains(out, "child session "+failed+" ended: failed") {
		t.Errorf("the transcript is\n%s", out)
	}
}

func TestATreeOfSessionsIsBoundedAsAWhole(t *testing.T) {
	for _, bad := range []string{"0", "65", "max=4,depth=4", "4,host=A B"} {
		e2e.Refused(t, 2, "--children", "session", "start", "--host", "web-1", "--seed", "team", "--children", bad)
	}
	e2e.Session(t, "root", "--tools", "finish", "--children", "max=4,depth=2")
	v := e2e.Turn(t, "root", "lead a leader")
	for _, want := range []string{`{"session":"root-child-1-`, "1 more sessions may be started here, and this asks for 2", "host cannot be chosen here",
		`{"session":"root-child-2-`, "0 more sessions may be started here", "is no session that you started"} {
		if !strings.Contains(v.FinalText, want) {
			t.Errorf("the model had %q, not %q", v.FinalText, want)
		}
	}
	first := e2e.Child(t, "root", 1)
	if all := e2e.Show(t, first).Children; len(all) != 2 || !strings.HasPrefix(all[0].Session, first+"-child-1-") {
		t.Errorf("the child's children are %+v", all)
	}
	if all := e2e.Show(t, "root").Children; len(all) != 2 || all[0].Outcome != protocol.ChildCompleted || all[1].Outcome != protocol.ChildCompleted {
		t.Errorf("its children are %+v", all)
	}
	e2e.Session(t, "flat", "--children", "3")
	if v := e2e.Turn(t, "flat", "lead a leader"); !strings.Contains(v.FinalText, "may start none itself") {
		t.Errorf("the model had %q", v.FinalText)
	}
}

func TestAChildIsStartedOnceAndAwaitedWhoeverDies(t *testing.T) {
	e2e.Session(t, "patient", "--children", "1")
	e2e.Send(t, "patient", "lead one to the gate patient-gate")
	e2e.Until(t, "the session waits for its child", func() (bool, error) {
		v := e2e.Show(t, "patient")
		return v.State == protocol.Waiting && strings.HasPrefix(v.Waits, "child sessions: patient-child-1-"), nil
	})
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Back(t, pid)
	e2e.Lab.Model.Release("patient-gate")
	v := e2e.Ended(t, "patient", 1)
	said := e2e.LastText(t, "patient")
	if v.Turn.Status != "completed" || !strings.Contains(said, `"outcome":"running"}],"timed_out":true`) || !strings.Contains(said, `"outcome":"completed","text":"passed the gate"`) {
		t.Errorf("turn %+v, the model had %q", v.Turn, said)
	}
	if out := e2e.OK(t, "session", "list", "--children-of", "patient", "-o", "json"); strings.Count(out, `"id":"patient-child-`) != 1 {
		t.Errorf("its children are %s", out)
	}
}

func TestACancelledChildIsToldFromAFailedOneAndAnEndedParentLeavesNone(t *testing.T) {
	e2e.Session(t, "cancels", "--children", "2")
	e2e.Send(t, "cancels", "lead one to the gate cancels-gate")
	has(t, "cancels", 1, func(v protocol.ChildView) bool { return v.Outcome == protocol.ChildRunning })
	e2e.Until(t, "the child's turn runs", func() (bool, error) { return e2e.Show(t, e2e.Child(t, "cancels", 1)).State == protocol.Running, nil })
	first := e2e.Child(t, "cancels", 1)
	e2e.OK(t, "session", "close", first)
	e2e.Ended(t, "cancels", 1)
	if said := e2e.LastText(t, "cancels"); !strings.Contains(said, `"session":"`+first+`","outcome":"cancelled"`) {
		t.Errorf("the model had %q", said)
	}
	e2e.Send(t, "cancels", "lead one to the gate cancels-gate")
	has(t, "cancels", 2, func(v protocol.ChildView) bool {
		return v.Session == first || v.Outcome == protocol.ChildRunning
	})
	e2e.OK(t, "session", "close", "cancels")
	if v := e2e.HasClosed(t, e2e.Child(t, "cancels", 2)); v.State != protocol.Closed {
		t.Errorf("the child of an ended session is %+v", v)
	}
	if all := e2e.Show(t, "cancels").Children; len(all) != 2 || all[0].Outcome != protocol.ChildCancelled || all[1].Outcome != protocol.ChildClosing && all[1].Outcome != protocol.ChildCancelled {
		t.Errorf("its children are %+v", all)
	}
}

func TestChildrenThatAreKeptGoOnWithoutTheirParent(t *testing.T) {
	e2e.Session(t, "leaves", "--children", "1,keep")
	e2e.Send(t, "leaves", "lead one to the gate leaves-gate")
	has(t, "leaves", 1, func(v protocol.ChildView) bool { return v.Outcome == protocol.ChildRunning })
	child := e2e.Child(t, "leaves", 1)
	e2e.Until(t, "the child's turn runs", func() (bool, error) { return e2e.Show(t, child).State == protocol.Running, nil })
	e2e.OK(t, "session", "close", "leaves")
	if v := e2e.HasClosed(t, "leaves"); len(v.Children) != 1 || v.Children[0].Outcome != protocol.ChildRunning {
		t.Errorf("the children of the ended session are %+v", v.Children)
	}
	if v := e2e.Show(t, child); v.State != protocol.Running {
		t.Errorf("its child is %+v", v)
	}
	e2e.Lab.Model.Release("leaves-gate")
	if v := e2e.HasClosed(t, child); v.State != protocol.Closed || v.Turn == nil || v.Turn.Status != "completed" {
		t.Errorf("its child ended as %+v", v)
	}
}
