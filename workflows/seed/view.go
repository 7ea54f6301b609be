package seed

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/ruling"
)

func (s *seedCore) heldBy() []string {
	out := []string{}
	for _, l := range s.st.Leases {
		if l.Ended == "" && !l.Internal {
			out = append(out, l.Holder)
		}
	}
	return out
}

func (s *seedCore) view() protocol.SeedView {
	st := s.st
	v := protocol.SeedView{Name: s.name, State: protocol.SeedFree, Health: cmp.Or(st.Health.State, "unknown"), Reason: st.Health.Reason, Hint: st.Health.Hint,
		HeldBy: s.heldBy(), Epoch: st.Epoch, Files: st.Files, Ref: st.Ref, Deleted: st.Deleted, Exported: st.Exported, Share: st.Share, Pools: s.pools(),
		Queue: len(st.Queue), Since: timeOrNil(st.Health.Since), VerifiedAt: timeOrNil(st.VerifiedAt), UsedAt: timeOrNil(st.UsedAt)}
	if st.Ref != nil {
		v.Kind, v.Generation = st.Ref.Kind, st.Ref.Generation
	}
	if v.Files == nil {
		v.Files = []protocol.SeedFile{}
	}
	if s.exclusive() {
		v.Share = 1
	}
	v.Tools, v.FollowUps, v.Gateway = st.Tools, st.FollowUps, st.Served
	v.Check, v.Account = st.Check.view(), st.Account.View(workflow.Now(s.ctx))
	v.Policy, v.Amend, v.Bounds, v.Credentials = s.policyView(), st.Amend, st.Bounds, st.Credentials
	for i := range st.Leases {
		l := &st.Leases[i]
		if l.Internal {
			v.State = protocol.SeedVerifying
			continue
		}
		v.Holders = append(v.Holders, protocol.SeedHolder{Session: l.Holder, Epoch: l.Epoch, Host: l.where(), Since: l.Since})
		switch {
		case l.Ended != "":
			v.State = protocol.SeedRecovering
			v.Recovery = &protocol.SeedRecovery{Session: l.Holder, Host: l.where(), Why: l.Ended, Tries: l.Tries, NextTry: timeOrNil(l.NextTry), Problem: l.Problem}
			if l.Problem != nil && v.Health != protocol.Dead {
				v.Health, v.Reason = protocol.Suspect, s.beingFetched(l)
				v.Hint = fmt.Sprintf("it is tried again until the host can be reached; if that will never be: %s", hintBurnt(s.name))
			}
		case v.State != protocol.SeedRecovering:
			v.State = protocol.SeedHeld
		}
	}
	if st.Rotated != nil {
		v.Rotated = &protocol.SeedRotated{Session: st.Rotated.Holder, Since: st.Rotated.Since, Reason: st.Rotated.Reason}
	}
	return v
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// tell shows the state in the Temporal UI. It adds no event.
func (s *seedCore) tell() {
	v := s.view()
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(fmt.Sprintf(format, args...)) }
	say("**%s**, %s\n\n- generation: %d (%s)\n- held by: %s\n- waiting: %d\n", v.State, v.Health, v.Generation, kit.Dash(v.Kind),
		kit.Dash(kit.Cut(strings.Join(v.HeldBy, ", "), 1000)), v.Queue)
	if v.Reason != "" {
		say("- %s (%s)\n", kit.Cut(v.Reason, 1000), kit.Cut(v.Hint, 1000))
	}
	if s.st.Rotated != nil {
		say("- %s\n", kit.Cut(s.st.Rotated.notSaved(), 1000))
	}
	workflow.SetCurrentDetails(s.ctx, escape.Text(b.String()))
}

func (s *seedCore) policyView() *protocol.PolicyView {
	if s.st.Policy == "" {
		return nil
	}
	if s.read.Text != s.st.Policy {
		s.read = ruling.ReadRuling(ruling.OfSeed, s.st.Policy)
	}
	return s.read.View("")
}
