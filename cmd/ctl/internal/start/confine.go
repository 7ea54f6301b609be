package start

import (
	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// confineFlags are the sandbox settings beside the mode. Paths are on the host and may
// contain commas, so each has its own flag.
type confineFlags struct {
	profile, network string
	read, write      []string
	egress           []string
	sandboxGiven     func() bool // nil: --sandbox was not given
}

func (f *confineFlags) add(c *cobra.Command) {
	fl := c.Flags()
	f.sandboxGiven = func() bool { return fl.Changed("sandbox") }
	fl.StringVar(&f.profile, "profile", "", "confine commands by the permission profile `NAME` of the seed's config.toml, in place of --sandbox")
	fl.StringArrayVar(&f.read, "read", nil, "commands may read this `PATH` on the host and never write it; repeatable")
	fl.StringArrayVar(&f.write, "write", nil, "commands may write this folder (`PATH` on the host) beside the work folder; repeatable")
	fl.StringVar(&f.network, "network", "", "the network of commands: on, off, or `HOST[,HOST…]`, each as api.example.com or *.example.com (default: as the sandbox or the profile sets it)")
	fl.StringSliceVar(&f.egress, "egress", nil, "commands may reach `HOST:PORT[,…]` through the worker, each as github.com:443 or *.example.com:443, as far as egress.allow in the configuration of the workers permits it; needs --credentials gateway and --network on")
}

// set puts the flags into the options, and refuses contradictions.
func (f *confineFlags) set(opt *session.Options) error {
	c := hosts.Confinement{Profile: f.profile, Read: f.read, Write: f.write}
	c.Network, c.Hosts = flows.NetworkWords(f.network)
	if f.profile != "" && (f.sandboxGiven == nil || !f.sandboxGiven()) {
		opt.Sandbox = protocol.ByProfile
	}
	if opt.Sandbox == protocol.ByProfile && f.profile == "" {
		return core.Usage("--sandbox %s: name the profile with --profile", opt.Sandbox)
	}
	if err := c.Check(opt.Sandbox); err != nil {
		return core.Usage("%v", err)
	}
	opt.Confine, opt.Egress = c, f.egress
	return nil
}
