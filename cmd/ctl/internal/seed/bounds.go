package seed

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// bounding are flags for what sessions with a seed may ask for.
type bounding struct {
	sandbox                     string
	policies, hosts, ways       []string
	hooks, network, agent, dirs bool
	none                        bool
}

var boundFlags = []string{"max-sandbox", "allow-approval-policy", "allow-credentials", "no-hooks", "no-network", "no-forward-agent", "no-dir", "on-hosts"}

const noBounds = "no-bounds"

func (b *bounding) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&b.sandbox, "max-sandbox", "", "the largest `SANDBOX`: read-only or workspace-write")
	fl.StringSliceVar(&b.policies, "allow-approval-policy", nil, "an allowed approval `POLICY`: untrusted, on-request or never; repeatable")
	fl.StringSliceVar(&b.ways, "allow-credentials", nil, "an allowed `WAY` of getting the credential: planted, broker or gateway; repeatable")
	fl.BoolVar(&b.hooks, "no-hooks", false, "no hooks")
	fl.BoolVar(&b.network, "no-network", false, "no network for commands")
	fl.BoolVar(&b.agent, "no-forward-agent", false, "the worker's SSH agent is not lent")
	fl.BoolVar(&b.dirs, "no-dir", false, "only work folders that Fairlead makes")
	fl.StringSliceVar(&b.hosts, "on-hosts", nil, "only on hosts with this label, `KEY=VALUE`; repeatable")
	fl.BoolVar(&b.none, noBounds, false, "remove all bounds")
}

// chosen returns nil if no flag was given.
func (b *bounding) chosen(c *cobra.Command) (*protocol.Ceiling, error) {
	given := slices.ContainsFunc(boundFlags, c.Flags().Changed)
	switch {
	case b.none && given:
		return nil, core.Usage("--%s removes all bounds: leave the other bounds out", noBounds)
	case b.none:
		return &protocol.Ceiling{}, nil
	case !given:
		return nil, nil
	}
	most := protocol.Ceiling{Sandbox: b.sandbox, ApprovalPolicies: b.policies, Credentials: b.ways, NoHooks: b.hooks, NoNetwork: b.network, NoForwardAgent: b.agent, NoDir: b.dirs}
	for _, l := range b.hosts {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return nil, core.Usage("--on-hosts %q: want KEY=VALUE", l)
		}
		if most.Hosts == nil {
			most.Hosts = map[string]string{}
		}
		most.Hosts[k] = v
	}
	if err := most.Check(); err != nil {
		return nil, core.Usage("bounds: %v", err)
	}
	if most.None() {
		return nil, core.Usage("these bounds allow everything: --%s removes all bounds", noBounds)
	}
	return &most, nil
}

// boundWords returns a seed's bounds as the flags that set them, or "".
func boundWords(c *protocol.Ceiling) string {
	if c == nil {
		return ""
	}
	var words []string
	if c.Sandbox != "" {
		words = append(words, "--max-sandbox "+c.Sandbox)
	}
	for _, p := range c.ApprovalPolicies {
		words = append(words, "--allow-approval-policy "+p)
	}
	for _, way := range c.Credentials {
		words = append(words, "--allow-credentials "+way)
	}
	for _, f := range []struct {
		on   bool
		flag string
	}{{c.NoHooks, "--no-hooks"}, {c.NoNetwork, "--no-network"}, {c.NoForwardAgent, "--no-forward-agent"}, {c.NoDir, "--no-dir"}} {
		if f.on {
			words = append(words, f.flag)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.Hosts)) {
		words = append(words, "--on-hosts "+k+"="+c.Hosts[k])
	}
	return strings.Join(words, " ")
}
