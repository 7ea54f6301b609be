package authority

import (
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

type labelsKey struct{}

// KnowHosts tells the judge of this workflow's updates which labels a host has. labels is
// called in validators, and returns false for a host that there is not.
func KnowHosts(ctx workflow.Context, labels func(host string) (map[string]string, bool)) {
	if known, ok := ctx.Value(labelsKey{}).(*hostLabels); ok {
		known.of = labels
	}
}

type hostLabels struct {
	of func(host string) (map[string]string, bool)
}

// concerns returns what a command is about.
func concerns(arg any) []protocol.Concern {
	if c, ok := arg.(interface{ Concerns() []protocol.Concern }); ok {
		return c.Concerns()
	}
	return nil
}

// machine returns where a command goes, if that is not yet known to be a host of the
// inventory.
func machine(arg any) *protocol.HostSpec {
	for _, c := range concerns(arg) {
		if c.Machine != nil {
			return c.Machine
		}
	}
	return nil
}

// objectsOf returns what conditions see of a command. Each of them must be allowed: a host
// as it is, and as the command makes it.
func (h *hostLabels) objectsOf(workflowID string, arg any) (all []access.Object) {
	seed, _ := strings.CutPrefix(workflowID, protocol.SeedID(""))
	if seed == workflowID {
		seed = ""
	}
	for _, c := range concerns(arg) {
		o := access.Object{Host: c.Host, Seed: c.Seed}
		if seed != "" {
			o.Seed = seed
		}
		var now map[string]string
		is := false
		if h.of != nil && c.Host != "" {
			now, is = h.of(c.Host)
		}
		if is {
			o.HostLabels = known(now)
		}
		if is || c.Then == nil {
			all = append(all, o)
		}
		if c.Then != nil {
			o.HostLabels = known(c.Then(now))
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		all = []access.Object{{Seed: seed}}
	}
	return slices.Clip(all)
}

// known returns labels that are known: an empty map instead of nil.
func known(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return labels
}
