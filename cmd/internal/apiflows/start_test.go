package apiflows

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/cmd/internal/restores"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/protocol"
)

// What a program asks for becomes the same options as ctl's flags.
func TestAStartHasTheOptionsOfCtlsFlags(t *testing.T) {
	tokens := int64(5)
	opt, err := options(httpapi.StartSession{
		Labels: []string{"os=linux", "mem>=32"}, Seed: "team", Priority: 3, Credentials: "planted", Expiry: "2h", StartTimeout: "0s",
		Instructions: "be brief", Developer: "and kind", Budget: &protocol.Budget{Tokens: &tokens},
		Tools: []string{"deliver"}, Verdict: true, LostAfter: "10m", OnAuth: "ask", Base: "be codex", Personality: "friendly",
		Snapshot: &httpapi.KeepSnapshots{Work: "git", Exclude: []string{"tmp"}, When: "close", Every: "30m"},
		Children: &httpapi.MayStart{Max: 3, Depth: 2, Models: []string{"m"}, Keep: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if opt.Labels["os"] != "linux" || len(opt.Select) != 1 || opt.Priority != 0 || opt.Credentials != "planted" || opt.Expiry != 2*time.Hour ||
		opt.StartTimeout == nil || *opt.StartTimeout != 0 || opt.Agents.Text != "be brief" || opt.Instructions != "and kind" || opt.Tokens != 5 {
		t.Errorf("options %+v", opt)
	}
	if !opt.Verdict || opt.LostAfter != 10*time.Minute || opt.OnAuth != "ask" || opt.Base.Text != "be codex" || opt.Personality != "friendly" {
		t.Errorf("options %+v", opt)
	}
	if s := opt.Snapshot; s.Work != "git" || s.When != "close" || s.Every != 30*time.Minute || len(s.Exclude) != 1 {
		t.Errorf("snapshots %+v", s)
	}
	if c := opt.Children; c.Max != 3 || c.Depth != 2 || len(c.Models) != 1 || !c.Keep {
		t.Errorf("children %+v", c)
	}
}

func TestAStartThatASessionWouldRefuseIsRefusedAtOnce(t *testing.T) {
	for want, in := range map[string]httpapi.StartSession{
		"host and labels or prefer":    {Host: "web-1", Labels: []string{"a=b"}},
		"no host has both":             {Labels: []string{"a=b", "a=c"}},
		"turn_timeout: \"soon\"":       {TurnTimeout: "soon"},
		"ttl must be greater than 0":   {TTL: "0s"},
		"budget.by":                    {Budget: &protocol.Budget{By: "eve"}},
		"does not offer the tool":      {Verdict: true},
		"snapshot.every: \"often\"":    {Snapshot: &httpapi.KeepSnapshots{Every: "often"}},
		"both seed s and seed pool p":  {Seed: "s", SeedPool: "p"},
		"is not an absolute path":      {Dir: "relative"},
		"the session would be refused": {Tools: []string{"hammer"}},
	} {
		_, err := options(in)
		if errkind.ExitCode(err) != errkind.ExitUsage || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", in, err, want)
		}
	}
}

// Temporal keeps a decision, so no secret may be in it.
func TestASecretAnswerIsNotPutIntoADecision(t *testing.T) {
	seen := protocol.SessionDetail{Approvals: []protocol.Approval{{ID: "s1.1", Session: "s1", Digest: "d", Questions: []protocol.Question{{ID: "colour"}, {ID: "password", Secret: true}}}}}
	decide := func(answers string) protocol.Decide {
		return protocol.Decide{Approval: "s1.1", Outcome: "answer", Answers: []byte(answers)}
	}
	if err := public("answer", seen, decide(`{"colour":"blue"}`), nil); err != nil {
		t.Error(err)
	}
	for _, answers := range []string{`{"password":"hunter2"}`, `{"colour":"blue","password":["hunter2"]}`} {
		err := public("answer", seen, decide(answers), nil)
		if errkind.ExitCode(err) != errkind.ExitUsage || err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", answers, err)
		}
	}
	if err := public("answer", protocol.SessionDetail{}, decide(`{"password":"hunter2"}`), errors.New("nobody answers")); errkind.ExitCode(err) != errkind.ExitUnreachable {
		t.Errorf("unread questions: %v", err)
	}
}

// A key says that a request is repeated, so a decision of somebody else is no success.
func TestASignedDecisionOfSomebodyElseIsNotOnesOwn(t *testing.T) {
	d := protocol.Decide{Approval: "s1.1", Outcome: "accept", By: "ann"}
	for by, own := range map[string]bool{"ann": true, "bob, ann": true, "bob": false, "joann": false} {
		ap := protocol.Approval{ID: "s1.1", Decision: &protocol.Decision{Outcome: "accept", Scope: "once", By: by, Signed: true}}
		if got := decidedAs("accept", ap, d); got != own {
			t.Errorf("decided by %s: own is %v", by, got)
		}
	}
	if decidedAs("accept", protocol.Approval{ID: "s1.1"}, d) {
		t.Error("nobody has decided")
	}
}

// A worker of an earlier release would drop an option without a word, so a start by the API
// asks the workers of its zone first, as ctl does.
func TestAStartAsksTheWorkersOfItsZone(t *testing.T) {
	older := api.Status{Identity: "older/2 unix:///b", TaskQueues: []string{"fairlead-eu"}, Version: "v1"}
	asked := ""
	b := New(Options{Logger: slog.New(slog.DiscardHandler), Workers: func(_ context.Context, _ client.Client, zone string) ([]api.Status, []string, error) {
		asked = zone
		return []api.Status{older}, []string{"mute/3 unix:///c"}, nil
	}})
	b.Connect(nil, nil, "", "")
	c, err := b.conn()
	if err != nil {
		t.Fatal(err)
	}
	ask := c.Side.(flows.Asks)
	err = ask.Understood(t.Context(), "eu", []string{"agents"})
	if errkind.ExitCode(err) != errkind.ExitRefused || err == nil || !strings.Contains(err.Error(), "older/2 (version v1) does not know agents") || asked != "eu" {
		t.Errorf("%v, asked in %q", err, asked)
	}
	older.Features = protocol.Features()
	if err := ask.Understood(t.Context(), "eu", []string{"agents"}); err != nil {
		t.Error(err)
	}
	if asked = ""; ask.Understood(t.Context(), "eu", nil) != nil || asked != "" {
		t.Error("a start that needs nothing asks workers")
	}
}

func TestBeforeThereIsAConnectionTheAPISaysSo(t *testing.T) {
	_, err := New(Options{}).Show(context.Background(), "s1")
	if errkind.ExitCode(err) != errkind.ExitUnreachable {
		t.Error(err)
	}
}

// What a work folder begins with, and how codex is confined and watched, is said as by ctl.
func TestAStartSaysWhereAndHowCodexWorks(t *testing.T) {
	tokens := int64(7)
	opt, err := options(httpapi.StartSession{
		Repo: &httpapi.Repo{URL: "https://git.example.com/app.git", Ref: "main", Depth: 3, User: "bot", Timeout: "5m"}, KeepWork: true,
		Hooks: &httpapi.Hooks{AfterCreate: "make deps", Timeout: "90s"},
		Read:  []string{"/srv/data"}, Network: "API.example.com, *.example.org",
		StartUp: "90s", Quiet: "0s", RetryTimeout: "2h",
		FollowUps: []httpapi.FollowUp{{Name: "review", Prompt: "review it", After: httpapi.FollowUpAfter{Turns: 1}, Budget: &httpapi.FollowUpBudget{Tokens: &tokens, Time: "1h"}}},
		TeamTools: "tools:\n- {name: lookup, description: looks a ticket up, schema: {type: object}, webhook: \"https://tools.example.com/lookup\"}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	w := opt.Workspace
	if w.Repo.URL != "https://git.example.com/app.git" || w.Repo.Depth != 3 || w.Timeout != 5*time.Minute || !w.Keep || w.Hooks.AfterCreate != "make deps" || w.Hooks.Timeout != 90*time.Second {
		t.Errorf("workspace %+v", w)
	}
	if c := opt.Confine; len(c.Read) != 1 || c.Network != protocol.NetworkHosts || strings.Join(c.Hosts, " ") != "api.example.com *.example.org" {
		t.Errorf("confinement %+v", c)
	}
	if d := opt.Watchdogs; d.StartUp != 90*time.Second || d.Quiet != -1 || d.Retry != 2*time.Hour || d.Silence != 0 {
		t.Errorf("watchdogs %+v", d)
	}
	if f := opt.FollowUps; len(f) != 1 || f[0].Turns != 1 || f[0].Bounds.Tokens != 7 {
		t.Errorf("follow-ups %+v", f)
	}
	if g := opt.TeamTools; g == nil || len(g.Names) != 1 || g.Names[0] != "lookup" {
		t.Errorf("tools %+v", opt.TeamTools)
	}
	for want, in := range map[string]httpapi.StartSession{
		"repo.token: a token needs an https URL": {Repo: &httpapi.Repo{URL: "ssh://git@example.com/app.git", Token: "secret"}},
		"dir and repo or from_snapshot":          {Dir: "/srv/app", FromSnapshot: "a.snap-1"},
		"keep_work":                              {Dir: "/srv/app", KeepWork: true},
		"hooks: there is no script":              {Hooks: &httpapi.Hooks{Timeout: "5s"}},
		"quiet_timeout 10ms is not between":      {Quiet: "10ms"},
		"team_tools":                             {TeamTools: "tools: [{name: 3}]"},
		"follow_ups[0]: budget":                  {FollowUps: []httpapi.FollowUp{{Name: "x", Budget: &httpapi.FollowUpBudget{Time: "soon"}}}},
		"read \"relative\" is not a clean":       {Read: []string{"relative"}},
	} {
		_, err := options(in)
		if errkind.ExitCode(err) != errkind.ExitUsage || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "--") {
			t.Errorf("%+v: %v, want %s", in, err, want)
		}
	}
}

// A token for a git server is taken out of a request before anybody keeps anything of it.
func TestATokenIsInNoDigestOfARequest(t *testing.T) {
	in := httpapi.StartSession{Repo: &httpapi.Repo{URL: "https://git.example.com/app.git", Token: "secret"}}
	given := in.Repo
	if got := takeToken(&in); got != "secret" || in.Repo.Token != "" || given.Token != "secret" {
		t.Errorf("took %q and left %+v", got, in.Repo)
	}
	if _, err := unattended(httpapi.StartSession{Repo: given}); err == nil || !strings.Contains(err.Error(), "repo.token") {
		t.Errorf("a batch: %v", err)
	}
}

// What goes on from a snapshot says only what is to differ.
func TestWhatGoesOnSaysOnlyWhatIsToDiffer(t *testing.T) {
	_, given, err := goesOn(httpapi.StartSession{Host: "web-2", Sandbox: "read-only", Tools: []string{}, Policy: "none"})
	if err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]bool{"sandbox": true, "tools": true, "policy": true, "approval-policy": false, "model": false, "budget": false, "read": false, "instructions": false} {
		if given(flag) != want {
			t.Errorf("%s counts as given: %v", flag, !want)
		}
	}
	for want, in := range map[string]httpapi.StartSession{
		"dir":           {Dir: "/srv"},
		"repo":          {Repo: &httpapi.Repo{URL: "https://git.example.com/app.git"}},
		"from_snapshot": {FromSnapshot: "s1.snap-1"},
		"message":       {Message: &httpapi.NewMessage{Text: "hello"}},
	} {
		if _, _, err := goesOn(in); errkind.ExitCode(err) != errkind.ExitUsage || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", in, err, want)
		}
	}
}

// A fork keeps what its request leaves out: our tools and a team's are two fields.
func TestAForkKeepsTheToolsThatItsRequestLeavesOut(t *testing.T) {
	const file = `tools: [{name: lookup, description: finds, webhook: "https://tools.example.com/lookup", schema: {type: object}}]`
	for name, c := range map[string]struct {
		in         httpapi.StartSession
		ours, team bool
	}{
		"neither":    {httpapi.StartSession{}, false, false},
		"ours":       {httpapi.StartSession{Tools: []string{"deliver"}}, true, false},
		"none":       {httpapi.StartSession{Tools: []string{}}, true, false},
		"the team's": {httpapi.StartSession{TeamTools: file}, false, true},
		"no team's":  {httpapi.StartSession{TeamTools: "none"}, false, true},
	} {
		opt, given, err := goesOn(c.in)
		if err != nil || given("tools") != c.ours || given(restores.TeamTools) != c.team || (opt.TeamTools != nil) != (c.in.TeamTools == file) {
			t.Errorf("%s: ours %v, the team's %v, %+v (%v)", name, given("tools"), given(restores.TeamTools), opt.TeamTools, err)
		}
	}
}
