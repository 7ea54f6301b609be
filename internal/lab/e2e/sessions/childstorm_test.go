package sessions

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A child is started once, does its work once, and its parent is told its end, although the worker
// is killed again and again in activities of both sessions.
func TestAChildIsStartedOnceUnderAStormOfKills(t *testing.T) {
	l, run := e2e.Own(t, "limits: {watch: 1s}\n")
	run("session", "start", "--host", "web-1", "--seed", "team", "--id", "mother", "--children", "1")
	k := newKiller(t, l)
	shown := func(id string) (v protocol.SessionView, ok bool) {
		err := l.JSON(e2e.Within(t), &v, "session", "show", id)
		return v, err == nil
	}
	run("session", "send", "mother", "--no-wait", "lead one to the gate storm-gate")
	child := ""
	e2e.Until(t, "the child's turn runs", func() (bool, error) {
		for began := time.Now(); time.Since(began) < 2*time.Second; { // showing takes longer than striking
			k.strike("mother")
			if child != "" {
				k.strike(child)
			}
		}
		if v, ok := shown("mother"); ok && len(v.Children) > 0 && child == "" {
			child = v.Children[0].Session
			k.kill() // just after its start
		}
		if child == "" {
			return false, nil
		}
		v, ok := shown(child)
		return ok && v.State == protocol.Running, nil
	})
	k.kill()
	l.Model.Release("storm-gate")
	var mother protocol.SessionView
	e2e.Until(t, "the parent's turn has ended", func() (bool, error) {
		for began := time.Now(); time.Since(began) < 2*time.Second; {
			k.strike("mother")
			k.strike(child)
		}
		var ok bool
		mother, ok = shown("mother")
		return ok && mother.Turn != nil && mother.Turn.Status != "inProgress" && mother.State == protocol.Idle, nil
	})
	t.Logf("killed were %v; beyond the limit of attempts: %v", k.kills, k.beyond)
	total := int32(0)
	for _, n := range k.kills {
		total += n
	}
	if total < 10 {
		t.Errorf("the worker was killed %d times in activities: that is no storm", total)
	}
	if mother.Turn.Status != "completed" || len(mother.Children) != 1 || mother.Children[0].Outcome != protocol.ChildCompleted || mother.Children[0].Session != child {
		t.Errorf("the parent is %+v, turn %+v", mother, mother.Turn)
	}
	if list := run("session", "list", "--children-of", "mother", "-o", "json"); strings.Count(list, `"id":"mother-child-`) != 1 {
		t.Errorf("its children are %s", list)
	}
	for id, want := range map[string][2]string{"mother": {"lead one to the gate", `"outcome":"completed","text":"passed the gate"`}, child: {"wait at the gate", "passed the gate"}} {
		entries, err := lab.Lines[protocol.Entry](e2e.Within(t), l, "transcript", id)
		if err != nil {
			t.Fatal(err)
		}
		asked, said := e2e.Texts(entries, protocol.EntryUser), strings.Join(e2e.Texts(entries, protocol.EntryAssistant), "\n")
		if len(asked) != 1 || !strings.HasPrefix(asked[0], want[0]) || strings.Count(said, want[1]) != 1 {
			t.Errorf("%s was asked %q and said %q", id, asked, said)
		}
	}
	run("session", "close", "mother")
}
