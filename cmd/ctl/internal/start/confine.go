package start

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows/session"
)

// confineFlags are the sandbox settings beside the mode. Paths are on the host and may
// contain commas, so each has its own flag.
type confineFlags struct {
	profile, network string
	read, write      []string
	sandboxGiven     func() bool // nil: --sandbox was not given
}

func (f *confineFlags) add(c *cobra.Command) {
	fl := c.Flags()
	f.sandboxGiven = func() bool { return fl.Changed("sandbox") }
	fl.StringVar(&f.profile, "profile", "", "confine commands by the permission profile `NAME` of the seed's config.toml, in place of --sandbox")
	fl.StringArrayVar(&f.read, "read", nil, "commands may read this `PATH` on the host and never write it; repeatable")
	fl.StringArrayVar(&f.write, "write", nil, "commands may write this folder (`PATH` on the host) beside the work folder; repeatable")
	fl.StringVar(&f.network, "network", "", "the network of commands: on, off, or `HOST[,HOST…]`, each as api.example.com or *.example.com (default: as the sandbox or the profile sets it)")
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
	opt.Confine = c
	return nil
}

// SameConfinement takes over settings that no flag states from a snapshot's session. They
// never widen a sandbox given by flag: read-only takes over no writable folder, full access
// nothing.
func SameConfinement(opt *session.Options, m snapshots.Manifest, former protocol.SessionView, given func(flag string) bool) error {
	words := former.Options
	switch {
	case m.Policy != "": // such a snapshot records the sandbox settings, too
		words = m.Confine
	case len(words) == 0 && !slices.ContainsFunc([]string{"sandbox", "profile", "read", "write", "network"}, given):
		return core.Usage("restore snapshot %s: neither the snapshot nor session %s says what the sandbox settings were", m.ID, m.Session).
			Hinted("say it with --sandbox, and --read, --write and --network")
	}
	was, c := confinedAsItWas(words), &opt.Confine
	if given("sandbox") {
		was.Profile = ""
		switch opt.Sandbox {
		case "danger-full-access":
			was = hosts.Confinement{}
		case "read-only":
			was.Write = nil
		}
	}
	if !given("profile") {
		c.Profile = was.Profile
	}
	read, write := c.Read, c.Write // flags decide about the paths they name
	if !given("read") {
		c.Read = Without(was.Read, write)
	}
	if !given("write") {
		c.Write = Without(was.Write, read)
	}
	if !given("network") {
		c.Network, c.Hosts = was.Network, was.Hosts
	}
	err := c.Check(opt.Sandbox)
	switch {
	case err == nil:
		return nil
	case opt.Sandbox == protocol.ByProfile && c.Profile == "":
		return core.Usage("restore snapshot %s: its session's sandbox is not known any more (%v)", m.ID, err).Hinted("say it with --sandbox or --profile")
	}
	return core.Usage("%v", err)
}

// Without returns the paths that are not among others.
func Without(paths, others []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return slices.Contains(others, p) })
}

func confinedAsItWas(words map[string]string) hosts.Confinement {
	lines := func(text string) []string {
		if text == "" {
			return nil
		}
		return strings.Split(text, "\n")
	}
	c := hosts.Confinement{Profile: words["profile"], Read: lines(words["read"]), Write: lines(words["write"])}
	c.Network, c.Hosts = flows.NetworkWords(words["network"])
	return c
}
