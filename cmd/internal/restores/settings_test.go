package restores

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/budget"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows/session"
)

// Continuing from a snapshot gives codex no more rights than before, unless the user states
// them. A snapshot of what a session left on a host does not record the rights. To continue
// from it, the session itself must be known.
func TestWhatGoesOnMayDoNoMoreThanWhatWas(t *testing.T) {
	readOnly := protocol.SessionView{Options: map[string]string{"sandbox": "read-only", "approval_policy": "never"}}
	for _, c := range []struct {
		name   string
		facts  snapshots.Facts
		former protocol.SessionView
		given  []string
		want   [2]string // empty means that it is refused
	}{
		{"as the snapshot says", snapshots.Facts{Sandbox: "read-only", ApprovalPolicy: "untrusted", Policy: "none"}, protocol.SessionView{}, nil, [2]string{"read-only", "untrusted"}},
		{"nobody says what else the sandbox keeps", snapshots.Facts{Sandbox: "read-only", ApprovalPolicy: "untrusted"}, protocol.SessionView{}, nil, [2]string{}},
		{"the snapshot, not the session as it is now", snapshots.Facts{Sandbox: "danger-full-access", ApprovalPolicy: "untrusted"}, readOnly, nil, [2]string{"danger-full-access", "untrusted"}},
		{"as the session says", snapshots.Facts{Left: true}, readOnly, nil, [2]string{"read-only", "never"}},
		{"as a person says", snapshots.Facts{}, readOnly, []string{"sandbox", "approval-policy"}, [2]string{"workspace-write", "on-request"}},
		{"nobody says it", snapshots.Facts{}, protocol.SessionView{}, nil, [2]string{}},
		{"half of it is not said", snapshots.Facts{}, protocol.SessionView{}, []string{"sandbox"}, [2]string{}},
	} {
		opt := session.Options{Sandbox: "workspace-write", ApprovalPolicy: "on-request"} // the defaults of the flags
		m := snapshots.Manifest{ID: "s1.snap-x", Session: "s1", Facts: c.facts}
		err := asItWas(&opt, m, c.former, func(flag string) bool { return slices.Contains(c.given, flag) })
		if c.want[0] == "" {
			if errkind.ExitCode(err) != errkind.ExitUsage || !strings.Contains(err.Error(), "s1") {
				t.Errorf("%s: %+v, %v", c.name, opt, err)
			}
			continue
		}
		if got := [2]string{opt.Sandbox, opt.ApprovalPolicy}; err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

// Session ids are used again. Continuing from a snapshot of an earlier session never uses
// the permissions or the budget of a later one with the same id.
func TestALaterSessionOfTheSameIDIsAnotherOne(t *testing.T) {
	began := time.Unix(1_800_000_000, 500_000_000)
	now := protocol.SessionView{ID: "s1", ThreadID: "thread-2", CreatedAt: began}
	young := protocol.SessionView{ID: "s1", CreatedAt: began} // it has no thread of its own yet
	for name, c := range map[string]struct {
		facts snapshots.Facts
		v     protocol.SessionView
		want  bool
	}{
		"its thread":                       {snapshots.Facts{ThreadID: "thread-2", Generation: began.Unix() + 3}, now, true},
		"its thread, found on a host":      {snapshots.Facts{ThreadID: "thread-2", Left: true}, now, true},
		"before it had forked its own":     {snapshots.Facts{ThreadID: "thread-1", Generation: began.Unix()}, now, true},
		"of a fork that has not begun":     {snapshots.Facts{ThreadID: "thread-1", Generation: began.Unix() + 3}, young, true},
		"of an earlier one":                {snapshots.Facts{ThreadID: "thread-1", Generation: began.Unix() - 1}, now, false},
		"of an earlier one, without both":  {snapshots.Facts{}, young, false},
		"found on a host, without thread":  {snapshots.Facts{Generation: began.Unix() + 3, Left: true}, now, false},
		"found on a host, another thread":  {snapshots.Facts{ThreadID: "thread-1", Generation: began.Unix() + 3, Left: true}, now, false},
		"what it was itself restored from": {snapshots.Facts{ThreadID: "thread-1", Generation: began.Unix() - 99}, young, false},
	} {
		if got := isOf(snapshots.Manifest{ID: "s1.snap-x", Session: "s1", Facts: c.facts}, c.v); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWhatGoesOnKeepsItsBounds(t *testing.T) {
	made := snapshots.Manifest{Facts: snapshots.Facts{Budget: "tokens=500,time=2h0m0s,turn=1h0m0s"}}
	set := protocol.SessionView{Budget: &protocol.BudgetView{Tokens: protocol.BudgetCount{Used: 5, Limit: 600}, TurnTimeout: "3h0m0s"}}
	all := func(tokens, commands int64, time time.Duration) protocol.Bounds {
		return protocol.Bounds{Tokens: tokens, Commands: commands, Time: time}
	}
	for name, c := range map[string]struct {
		m      snapshots.Manifest
		former protocol.SessionView
		asked  string
		given  []string
		bounds protocol.Bounds
		turn   time.Duration
	}{
		"nobody knows any, she does":   {asked: "tokens=9", given: []string{"budget"}, bounds: all(9, 0, 0), turn: 24 * time.Hour},
		"the snapshot says them":       {m: made, bounds: all(500, 0, 2*time.Hour), turn: time.Hour},
		"they were set since":          {m: made, former: set, bounds: all(600, 0, 0), turn: 3 * time.Hour},
		"a person says some":           {m: made, asked: "tokens=0,commands=7", given: []string{"budget"}, bounds: all(0, 7, 2*time.Hour), turn: time.Hour},
		"a person says what a turn is": {m: made, given: []string{"turn-timeout"}, bounds: all(500, 0, 2*time.Hour), turn: 24 * time.Hour},
		"both ways":                    {m: made, asked: "turn=2m", given: []string{"turn-timeout", "budget"}, bounds: all(500, 0, 2*time.Hour), turn: 2 * time.Minute},
	} {
		opt := session.Options{TurnTimeout: 24 * time.Hour}
		var asked *protocol.Budget
		if c.asked != "" {
			b, err := budget.Parse(c.asked)
			if err != nil {
				t.Fatal(err)
			}
			asked = &b
		}
		err := sameBudget(&opt, c.m, c.former, asked, func(flag string) bool { return slices.Contains(c.given, flag) })
		if err != nil || opt.Bounds != c.bounds || opt.TurnTimeout != c.turn {
			t.Errorf("%s: %+v and %s a turn, %v; want %+v and %s", name, opt.Bounds, opt.TurnTimeout, err, c.bounds, c.turn)
		}
	}
	opt := session.Options{TurnTimeout: 24 * time.Hour}
	unknown := snapshots.Manifest{ID: "s1.snap-x", Session: "s1"}
	if err := sameBudget(&opt, unknown, protocol.SessionView{}, nil, func(string) bool { return false }); errkind.ExitCode(err) != errkind.ExitUsage {
		t.Errorf("where nobody knows any, it has none: %v", err)
	}
}

func TestWhatGoesOnKeepsWhatItsSandboxKeeps(t *testing.T) {
	const kept = "/srv/kept"
	for name, c := range map[string]struct {
		facts  snapshots.Facts
		former map[string]string
		given  string
		want   []string
	}{
		"as the snapshot says":           {snapshots.Facts{Policy: "none", Confine: map[string]string{"read": kept}}, nil, "", []string{kept}},
		"it says that nothing was asked": {snapshots.Facts{Policy: "none"}, map[string]string{"read": kept}, "", nil},
		"as the session says":            {snapshots.Facts{}, map[string]string{"read": kept}, "", []string{kept}},
		"as a person says":               {snapshots.Facts{Policy: "none", Confine: map[string]string{"read": kept}}, nil, "read", nil},
	} {
		opt := session.Options{Sandbox: "workspace-write"}
		err := sameConfinement(&opt, snapshots.Manifest{ID: "s1.snap-x", Session: "s1", Facts: c.facts}, protocol.SessionView{Options: c.former}, func(flag string) bool { return flag == c.given })
		if err != nil || !slices.Equal(opt.Confine.Read, c.want) {
			t.Errorf("%s: %+v, %v", name, opt.Confine, err)
		}
	}
}

// --on-interrupt is taken over even if the session gets other credentials. Tools that the
// thread did not begin with are refused.
func TestWhatGoesOnKeepsItsInterruptAndItsTools(t *testing.T) {
	made := snapshots.Manifest{ID: "s1.snap-x", Session: "s1", Facts: snapshots.Facts{ThreadID: "thread-1", Sandbox: "read-only", ApprovalPolicy: "never", Policy: "none"}}
	former := protocol.SessionView{Options: map[string]string{"on_interrupt": "continue", "tools": "ask_human,deliver"}}
	for name, c := range map[string]struct {
		given string
		opt   session.Options
		tools []string
		code  int
	}{
		"as it was":        {opt: session.Options{Seed: "other"}, tools: []string{"ask_human", "deliver"}},
		"fewer tools":      {given: "tools", opt: session.Options{Tools: []string{"deliver"}}, tools: []string{"deliver"}},
		"no tools":         {given: "tools"},
		"tools it has not": {given: "tools", opt: session.Options{Tools: []string{"deliver", "report_progress"}}, code: errkind.ExitUsage},
	} {
		opt := c.opt
		opt.OnInterrupt = "ask" // the default of the flag
		err := asItWas(&opt, made, former, func(flag string) bool { return flag == c.given })
		if (err == nil) != (c.code == 0) || err != nil && errkind.ExitCode(err) != c.code {
			t.Errorf("%s: %v, want exit %d", name, err, c.code)
		}
		if c.code == 0 && (opt.OnInterrupt != "continue" || !slices.Equal(opt.Tools, c.tools)) {
			t.Errorf("%s: on interrupt %s, tools %q; want continue and %q", name, opt.OnInterrupt, opt.Tools, c.tools)
		}
	}
	begun := made
	begun.ThreadID = "" // a new thread can have any tools
	opt := session.Options{Tools: []string{"report_progress"}}
	if err := asItWas(&opt, begun, former, func(flag string) bool { return flag == "tools" }); err != nil {
		t.Errorf("without a thread: %v", err)
	}
}

// A fork keeps the work folder as the user asked, not as the fallback that was used in one
// snapshot.
func TestAForkOfAGitSessionIsOne(t *testing.T) {
	m := snapshots.Manifest{Facts: snapshots.Facts{Work: "full"}, WorkWhy: "it has no remote"}
	if got := askedFor(m); got != "git" {
		t.Errorf("it keeps %q", got)
	}
}

// A team's tools and ours do not replace each other.
func TestWhatGoesOnKeepsTheToolsOfBothKinds(t *testing.T) {
	had := &protocol.ToolsGiven{Names: []string{"lookup"}}
	made := snapshots.Manifest{ID: "s1.snap-x", Session: "s1", Facts: snapshots.Facts{ThreadID: "thread-1", Sandbox: "read-only", ApprovalPolicy: "never", Policy: "none"}}
	former := protocol.SessionView{Options: map[string]string{"tools": "ask_human,deliver"}, Given: &protocol.GivenView{Tools: had}}
	for name, c := range map[string]struct {
		given []string
		opt   session.Options
		tools int
		team  bool
		code  int
	}{
		"as it was":           {tools: 2, team: true},
		"other tools of ours": {given: []string{"tools"}, opt: session.Options{Tools: []string{"deliver"}}, tools: 1, team: true},
		"no tools of a team":  {given: []string{TeamTools}, tools: 2},
		"new ones of a team":  {given: []string{TeamTools}, opt: session.Options{TeamTools: &protocol.ToolsGiven{Names: []string{"erase"}}}, code: errkind.ExitUsage},
		"ctl names both":      {given: []string{"tools", TeamTools}, opt: session.Options{Tools: []string{"deliver"}}, tools: 1},
	} {
		opt := c.opt
		err := asItWas(&opt, made, former, func(flag string) bool { return slices.Contains(c.given, flag) })
		if (err == nil) != (c.code == 0) || err != nil && errkind.ExitCode(err) != c.code || c.code == 0 && (len(opt.Tools) != c.tools || (opt.TeamTools != nil) != c.team) {
			t.Errorf("%s: %v, ours %q, the team's %+v", name, err, opt.Tools, opt.TeamTools)
		}
	}
}
