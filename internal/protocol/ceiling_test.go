package protocol

import (
	"strings"
	"testing"
)

func TestACeilingRefusesWhatIsAboveItAndNothingElse(t *testing.T) {
	plain := SessionAsks{Sandbox: WorkspaceWrite, ApprovalPolicy: "on-request", Host: "web-1", Labels: map[string]string{"tier": "dev"}}
	with := func(change func(*SessionAsks)) SessionAsks { a := plain; change(&a); return a }
	full := with(func(a *SessionAsks) { a.Sandbox = FullAccess })
	profile := with(func(a *SessionAsks) { a.Sandbox, a.Profile = ByProfile, "loose" })
	writes := with(func(a *SessionAsks) { a.Write = []string{"/home/me"} })
	never := with(func(a *SessionAsks) { a.ApprovalPolicy = "never" })
	hooks := with(func(a *SessionAsks) { a.Hooks = []string{"before_run"} })
	online := with(func(a *SessionAsks) { a.Network = NetworkHosts })
	agent := with(func(a *SessionAsks) { a.ForwardAgent = true })
	dir := with(func(a *SessionAsks) { a.Dir = "/home/me" })
	unknown := with(func(a *SessionAsks) { a.Sandbox = "newer" })
	reads := with(func(a *SessionAsks) { a.Sandbox = ReadOnly })
	all := map[string]SessionAsks{"plain": plain, "full": full, "profile": profile, "writes": writes, "never": never, "hooks": hooks,
		"online": online, "agent": agent, "dir": dir, "unknown": unknown, "reads": reads}
	for name, c := range map[string]struct {
		most    Ceiling
		refuses string // names of all
		says    string
	}{
		"nothing":     {Ceiling{}, "", ""},
		"full access": {Ceiling{Sandbox: FullAccess}, "", ""},
		"sandbox":     {Ceiling{Sandbox: WorkspaceWrite}, "full profile writes unknown", "workspace-write, the largest"},
		"read-only":   {Ceiling{Sandbox: ReadOnly}, "plain full profile writes never hooks online agent dir unknown", "read-only, the largest"},
		"approvals":   {Ceiling{ApprovalPolicies: []string{"untrusted", "on-request"}}, "never", "--approval-policy never is not one of untrusted, on-request"},
		"hooks":       {Ceiling{NoHooks: true}, "hooks", "before_run"},
		"network":     {Ceiling{NoNetwork: true}, "online full profile unknown", "network"},
		"agent":       {Ceiling{NoForwardAgent: true}, "agent", "--forward-agent"},
		"dir":         {Ceiling{NoDir: true}, "dir", "--dir /home/me"},
		"host":        {Ceiling{Hosts: map[string]string{"tier": "prod"}}, "plain full profile writes never hooks online agent dir unknown reads", "host web-1 does not have the label tier=prod"},
		"its host":    {Ceiling{Hosts: map[string]string{"tier": "dev"}}, "", ""},
	} {
		if err := c.most.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var said []string
		for which, asks := range all {
			got := c.most.Exceeds(asks)
			refuses := strings.Contains(" "+c.refuses+" ", " "+which+" ")
			if (got != "") != refuses {
				t.Errorf("%s, %s: %q", name, which, got)
			}
			said = append(said, got)
		}
		if text := strings.Join(said, "; "); !strings.Contains(text, c.says) {
			t.Errorf("%s: %s", name, text)
		}
		if none := c.refuses == "" && c.most.Hosts == nil; c.most.None() != none {
			t.Errorf("%s: bounds nothing is %v", name, !none)
		}
	}
	if (Ceiling{NoExec: true}).None() {
		t.Error("a ceiling that forbids commands bounds nothing")
	}
	for name, bad := range map[string]Ceiling{
		"sandbox": {Sandbox: "none"}, "profile": {Sandbox: ByProfile}, "policy": {ApprovalPolicies: []string{"always"}}, "labels": {Hosts: map[string]string{"a": strings.Repeat("b", 5<<10)}},
	} {
		if bad.Check() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
