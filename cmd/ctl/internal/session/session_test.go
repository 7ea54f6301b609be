package session

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

func TestASessionShowsWhatIsOnItsWay(t *testing.T) {
	var b bytes.Buffer
	showSession(core.NewPrinter(&b, false), protocol.SessionView{ID: "s1",
		Messages: []protocol.MessageView{{ID: "m1", Kind: "message", Turn: 1, State: "sent", At: time.Now()}}})
	for _, want := range []string{"MESSAGE", "m1", "sent"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
}

// The text shows the same budget of a session as the JSON.
func TestASessionShowsItsBoundsAndWhatAnInterruptDoes(t *testing.T) {
	for _, c := range []struct {
		budget protocol.BudgetView
		want   string
	}{
		{protocol.BudgetView{Tokens: protocol.BudgetCount{Used: 20, Limit: 500}, Commands: protocol.BudgetCount{Used: 1, Limit: 5}, Time: protocol.BudgetTimeView{Used: "2m0s", Limit: "8h0m0s"}, TurnTimeout: "2h0m0s"},
			"20 of 500 tokens used; 1 of 5 commands used; 2m0s of 8h used; a turn may take 2h"},
		{protocol.BudgetView{Tokens: protocol.BudgetCount{Used: 20}, TurnTimeout: "1h30m0s"}, "a turn may take 1h30m"},
		{protocol.BudgetView{TurnTimeout: "1m30s"}, "a turn may take 1m30s"},
		{protocol.BudgetView{TurnTimeout: "10m0s"}, "a turn may take 10m"},
	} {
		var b bytes.Buffer
		showSession(core.NewPrinter(&b, false), protocol.SessionView{ID: "s1", Budget: &c.budget,
			Options: map[string]string{"on_interrupt": "continue"}})
		for _, want := range []string{"budget        " + c.want + "\n", "on interrupt  continue\n"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("it does not say %q:\n%s", want, b.String())
			}
		}
	}
	var b bytes.Buffer
	showSession(core.NewPrinter(&b, false), protocol.SessionView{ID: "s1"})
	for _, unknown := range []string{"budget", "interrupt"} {
		if strings.Contains(b.String(), unknown) {
			t.Errorf("with no worker up nobody knows the %s:\n%s", unknown, b.String())
		}
	}
}

// `session show` says where a session is and what is kept of it.
func TestASessionShowsWhereItIsAndWhatIsKept(t *testing.T) {
	at := time.Now().Add(-3 * time.Minute)
	failure := &protocol.Failure{Kind: "quota", Message: "it holds 30 GiB, 20 GiB at most", Hint: "--snapshot-exclude"}
	for _, c := range []struct {
		name string
		v    protocol.SessionView
		want []string
		not  []string
	}{
		{"nothing to say", protocol.SessionView{ID: "s1", Attempt: 1}, nil, []string{"snapshot", "attempt", "warm", "lost"}},
		{"kept", protocol.SessionView{ID: "s1", Snapshot: &protocol.SnapshotView{ID: "s1.snap-x", N: 2, Turn: 4, At: at}},
			[]string{"snapshot  s1.snap-x, of turn 4, 3m ago\n"}, []string{"failed", "taken"}},
		{"a bad one hides no good one", protocol.SessionView{ID: "s1", Snapshot: &protocol.SnapshotView{ID: "s1.snap-x", N: 2, Turn: 4, At: at, Tried: 3, Error: failure}},
			[]string{"s1.snap-x, of turn 4", "snapshot failed  quota: it holds 30 GiB, 20 GiB at most (--snapshot-exclude)"}, nil},
		{"the first is being taken", protocol.SessionView{ID: "s1", Snapshot: &protocol.SnapshotView{Taking: 1}}, []string{"none yet; the first one is being taken"}, nil},
		{"parked", protocol.SessionView{ID: "s1", State: protocol.Parked, Warm: &protocol.WarmView{Host: "web-1", Since: at}},
			[]string{"warm   on web-1, where it comes back at once; since 3m ago"}, nil},
		{"lost", protocol.SessionView{ID: "s1", Attempt: 2, Lost: &protocol.LostView{Host: "web-1", Since: time.Unix(1e9, 0), Why: "dial: refused", Stays: "it has no snapshot"}},
			[]string{"web-1 cannot be reached since 2001-09-09T01:46:40Z: dial: refused; it waits for it: it has no snapshot", "attempt  2"}, nil},
	} {
		var b bytes.Buffer
		showSession(core.NewPrinter(&b, false), c.v)
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: it does not say %q:\n%s", c.name, want, b.String())
			}
		}
		for _, not := range c.not {
			if strings.Contains(b.String(), not) {
				t.Errorf("%s: it speaks of %q:\n%s", c.name, not, b.String())
			}
		}
	}
}

func TestAListSaysWhatIsUnusual(t *testing.T) {
	v := protocol.SessionView{Attempt: 3, Warm: &protocol.WarmView{Host: "web-1"}, Lost: &protocol.LostView{Host: "web-2"},
		Snapshot: &protocol.SnapshotView{Error: &protocol.Failure{Kind: "store"}}}
	if got, want := whereabouts(v), "attempt 3, web-2 is lost, warm on web-1, newest snapshot failed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := whereabouts(protocol.SessionView{Attempt: 1, Snapshot: &protocol.SnapshotView{ID: "x"}}); got != "" {
		t.Errorf("nothing is unusual, and it says %q", got)
	}
}

// The text of ctl about a closed session agrees with the session's last snapshot.
func TestWhatIsKeptIsSaidAsItIs(t *testing.T) {
	rollouts, work := snapshots.Tree{Name: snapshots.Rollouts}, snapshots.Tree{Name: snapshots.Work}
	for want, m := range map[string]snapshots.Manifest{
		"conversation and work are":                              {Complete: true, Trees: []snapshots.Tree{rollouts, work}},
		"the conversation alone, nothing of the work folder, is": {Complete: true, Trees: []snapshots.Tree{rollouts}},
		"what there was to keep is":                              {},
	} {
		if got := heldBy(m); got != want {
			t.Errorf("%+v: %q, want %q", m.Trees, got, want)
		}
	}
}

func TestASessionShowsWhatItKeepsAndWhen(t *testing.T) {
	for _, c := range []struct {
		opt             map[string]string
		keeps, hostLost string
	}{
		{map[string]string{"on_interrupt": "ask"}, "", ""}, // an older worker does not report it
		{map[string]string{"snapshot": "full", "snapshot_when": "turn", "park_after": "30m0s", "on_host_lost": "wait", "lost_after": "5m0s"},
			"all of the work folder, after each turn; parks after 30m", "wait, after 5m"},
		{map[string]string{"snapshot": "git", "snapshot_when": "turn", "snapshot_every": "10m0s", "snapshot_exclude": "a b/\n*.log", "on_host_lost": "move", "lost_after": "10s"},
			"git: what upstream does not have, after each turn, and every 10m within one; without a b/  *.log", "move, after 10s"},
		{map[string]string{"snapshot": "none", "snapshot_when": "close"}, "the conversation alone, when it parks or closes", ""},
		{map[string]string{"snapshot": "full", "snapshot_when": "off"}, "none: it cannot park or move, and a lost host takes its work along", ""},
	} {
		if got := policyText(c.opt); got != c.keeps {
			t.Errorf("%v keeps %q, want %q", c.opt, got, c.keeps)
		}
		if got := hostLostText(c.opt); got != c.hostLost {
			t.Errorf("%v: %q, want %q", c.opt, got, c.hostLost)
		}
	}
}
