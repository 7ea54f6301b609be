package apiflows

import (
	"time"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// takeToken takes the token of a repository out of a request, so that it gets into no digest,
// no log and no history.
func takeToken(in *httpapi.StartSession) string {
	if in.Repo == nil || in.Repo.Token == "" {
		return ""
	}
	repo := *in.Repo
	token := repo.Token
	repo.Token, in.Repo = "", &repo
	return token
}

// work says what a work folder begins with, and what commands may do there.
func work(in httpapi.StartSession, opt *session.Options) error {
	w := workspaces.Workspace{Snapshot: in.FromSnapshot, Keep: in.KeepWork}
	if r := in.Repo; r != nil {
		w.Repo = &workspaces.Repo{URL: r.URL, Ref: r.Ref, Depth: r.Depth, User: r.User, ForwardAgent: r.Forward, AgentKey: r.ForwardKey, KnownHosts: r.KnownHosts}
		if err := duration("repo.clone_timeout", r.Timeout, &w.Timeout); err != nil {
			return err
		}
		if r.Token != "" {
			if err := workspaces.CheckToken(r.Token); err != nil {
				return errkind.Usage("repo.token: %v", err)
			}
			if err := workspaces.CheckTokenURL(r.URL); err != nil {
				return errkind.Usage("repo.token: %v", err)
			}
		}
	}
	if h := in.Hooks; h != nil {
		w.Hooks = workspaces.Hooks{AfterCreate: h.AfterCreate, BeforeRun: h.BeforeRun, AfterRun: h.AfterRun, BeforeRemove: h.BeforeRemove}
		if w.Hooks.IsZero() {
			return errkind.Usage("hooks: there is no script in it")
		}
		if err := duration("hooks.timeout", h.Timeout, &w.Hooks.Timeout); err != nil {
			return err
		}
	}
	if in.Dir != "" && (w.Repo != nil || w.Snapshot != "") {
		return errkind.Usage("dir and repo or from_snapshot: give one of them")
	}
	if in.Dir != "" && w.Keep {
		return errkind.Usage("keep_work: a folder that dir names is never removed")
	}
	if err := w.Check(); err != nil {
		return errkind.Usage("%v", err)
	}
	opt.Workspace = w
	opt.Confine = hosts.Confinement{Profile: in.Profile, Read: in.Read, Write: in.Write}
	opt.Confine.Network, opt.Confine.Hosts = flows.NetworkWords(in.Network)
	return nil
}

// watches sets the time limits for codex and the model.
func watches(in httpapi.StartSession, w *protocol.Watchdogs) error {
	for _, d := range []struct {
		field, text string
		to          *time.Duration
		off         bool // 0 is no limit
	}{
		{"startup_timeout", in.StartUp, &w.StartUp, false}, {"request_timeout", in.RequestTimeout, &w.Request, false}, {"silence_timeout", in.Silence, &w.Silence, false},
		{"quiet_timeout", in.Quiet, &w.Quiet, true}, {"retry_timeout", in.RetryTimeout, &w.Retry, true},
	} {
		if d.text == "" {
			continue
		}
		if err := duration(d.field, d.text, d.to); err != nil {
			return err
		}
		switch {
		case d.off && *d.to == 0:
			*d.to = -1
		case *d.to < protocol.LeastWatch || *d.to > protocol.MostWatch:
			return errkind.Usage("%s %s is not between %s and %s", d.field, *d.to, protocol.LeastWatch, protocol.MostWatch)
		}
	}
	return nil
}

func followUp(f httpapi.FollowUp) (protocol.FollowUp, error) {
	rule := protocol.FollowUp{
		Name: f.Name, Prompt: f.Prompt, Turns: f.After.Turns, ToolCalls: f.After.ToolCalls, Files: f.After.Files,
		Seed: f.Seed, SeedPool: f.SeedPool, Model: f.Model, Effort: f.Effort, Sandbox: f.Sandbox, ApprovalPolicy: f.ApprovalPolicy,
	}
	if b := f.Budget; b != nil {
		var opt session.Options
		if err := opt.SetBudget(protocol.Budget{Tokens: b.Tokens, Approvals: b.Approvals, Commands: b.Commands, Time: b.Time}); err != nil {
			return rule, errkind.Usage("budget: %v", err)
		}
		rule.Bounds = opt.Bounds
	}
	return rule, nil
}
