package batches

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
)

// judgeStart says why a principal may not start a task on a host. A host's name and labels
// count only for the machine that the inventory has under that name: the worker would also
// log in to another one.
func judgeStart(ctx context.Context, s *site.Site, in protocol.JudgeStart) (refused string, err error) {
	if s.Judge == nil {
		return "", fmt.Errorf("judge the start of %s: this worker has no access file: set authority: required in its config", in.Type)
	}
	q := site.Question{Principal: in.Principal, Groups: in.Groups, Verb: in.Verb, Host: in.Host.Name, Seed: in.Seed}
	scan := in.Type == protocol.TypeScan
	if scan || in.Type == protocol.TypeCheck || in.Type == protocol.TypeProvision {
		// Who may change every host may also add this machine.
		blind := q
		blind.Unknown = true
		if s.Judge(blind) == "" {
			return "", nil
		}
	}
	hosts, err := s.AskHosts(ctx)
	if err != nil {
		return "", fmt.Errorf("ask for the hosts of the zone: %w", err)
	}
	known := named(hosts, in.Host.Name)
	if known != nil {
		q.Labels = known.Labels
		if q.Labels == nil {
			q.Labels = map[string]string{}
		}
	}
	switch at := in.Host; {
	case scan && at.Jump != nil && !sameMachine(named(hosts, at.Jump.Name), *at.Jump):
		return fmt.Sprintf("jump host %.100s is not, or not so, in the inventory of its zone: look with `ctl host show %.100s`", at.Jump.Name, at.Jump.Name), nil
	case scan: // it does not log in there, and the host may be about to be added
	case known == nil:
		return fmt.Sprintf("its zone has no host %.100s: add it with `ctl host add`", at.Name), nil
	case !sameMachine(known, at):
		return fmt.Sprintf("host %.100s is another machine, user or key in the inventory of its zone: look with `ctl host show %.100s`, and give the command again", at.Name, at.Name), nil
	}
	return s.Judge(q), nil
}

func named(hosts []inquiry.HostNow, name string) *inquiry.HostNow {
	i := slices.IndexFunc(hosts, func(h inquiry.HostNow) bool { return h.Name == name })
	if i < 0 {
		return nil
	}
	return &hosts[i]
}

// sameMachine reports whether a command goes to a host in exactly the way that the inventory
// says.
func sameMachine(known *inquiry.HostNow, at protocol.HostSpec) bool {
	if known == nil || known.Spec == nil {
		return false
	}
	one, err := json.Marshal(known.Spec)
	other, err2 := json.Marshal(at)
	return err == nil && err2 == nil && string(one) == string(other)
}
