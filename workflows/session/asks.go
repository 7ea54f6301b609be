package session

import (
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
)

// asks returns what the session asks for. Activities check it against the bounds of the
// organisation, the host and the seed before they do anything on the host.
func (s *session) asks() protocol.SessionAsks {
	o := s.opt
	a := protocol.SessionAsks{
		Sandbox: o.Sandbox, ApprovalPolicy: o.ApprovalPolicy, Profile: o.Confine.Profile, Write: o.Confine.Write, Network: o.Confine.Network,
		Dir: o.Dir, Host: s.hostName(), Seed: s.views.seedName(), SeedCeiling: s.st.SeedBounds, Credentials: s.credentials(), Unsaid: s.unsaid(),
	}
	if s.st.Lease != nil {
		a.Labels = s.st.Lease.Labels
	}
	hooks := o.Workspace.Hooks
	for _, h := range []struct{ name, script string }{
		{workspaces.HookAfterCreate, hooks.AfterCreate}, {workspaces.HookBeforeRun, hooks.BeforeRun},
		{workspaces.HookAfterRun, hooks.AfterRun}, {workspaces.HookBeforeRemove, hooks.BeforeRemove},
	} {
		if h.script != "" {
			a.Hooks = append(a.Hooks, h.name)
		}
	}
	if r := o.Workspace.Repo; r != nil {
		a.ForwardAgent = r.ForwardAgent
	}
	return a
}
