package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows"
)

// confineFlags are sandbox settings beyond the mode. Paths are paths on the host. Each is
// given by a flag of its own, because a path may contain a comma.
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
	fl.StringVar(&f.network, "network", "", "the network of commands: on, off (which the sandbox says by itself), or `HOST[,HOST…]`, each as api.example.com or *.example.com")
}

// set puts the flags into a session's options. It refuses flags that contradict each other.
func (f *confineFlags) set(opt *workflows.SessionOptions) error {
	c := activities.Confinement{Profile: f.profile, Read: f.read, Write: f.write}
	c.Network, c.Hosts = networkWords(f.network)
	if f.profile != "" && (f.sandboxGiven == nil || !f.sandboxGiven()) {
		opt.Sandbox = activities.ByProfile
	}
	if opt.Sandbox == activities.ByProfile && f.profile == "" {
		return usage("--sandbox %s: name the profile with --profile", opt.Sandbox)
	}
	if err := c.Check(opt.Sandbox); err != nil {
		return usage("%v", err)
	}
	opt.Confine = c
	return nil
}

// networkWords reads the value of --network: on, off or a list of hosts.
func networkWords(text string) (word string, hosts []string) {
	switch text {
	case "", activities.NetworkOn, activities.NetworkOff:
		return text, nil
	}
	for h := range strings.SplitSeq(text, ",") {
		hosts = append(hosts, strings.ToLower(strings.TrimSpace(h)))
	}
	return activities.NetworkHosts, hosts
}

// sameConfinement fills in the settings that flags do not state from the session of a
// snapshot. A sandbox given by a flag is not widened by them: with read-only no writable
// folder is taken over, and with full access nothing is.
func sameConfinement(opt *workflows.SessionOptions, m snapshots.Manifest, former workflows.SessionView, given func(flag string) bool) error {
	words := former.Options
	switch {
	case m.Policy != "": // a snapshot that records the policy also records the sandbox settings
		words = m.Confine
	case len(words) == 0 && !slices.ContainsFunc([]string{"sandbox", "profile", "read", "write", "network"}, given):
		return usage("restore snapshot %s: it does not say what else was asked of its session's sandbox, and session %s, as it was then, is not there to say it", m.ID, m.Session).
			hinted("say it with --sandbox, and --read, --write and --network")
	}
	was, c := confinedAsItWas(words), &opt.Confine
	if given("sandbox") {
		was.Profile = ""
		switch opt.Sandbox {
		case "danger-full-access":
			was = activities.Confinement{}
		case "read-only":
			was.Write = nil
		}
	}
	if !given("profile") {
		c.Profile = was.Profile
	}
	read, write := c.Read, c.Write // for a path that flags name, the flag decides
	if !given("read") {
		c.Read = without(was.Read, write)
	}
	if !given("write") {
		c.Write = without(was.Write, read)
	}
	if !given("network") {
		c.Network, c.Hosts = was.Network, was.Hosts
	}
	err := c.Check(opt.Sandbox)
	switch {
	case err == nil:
		return nil
	case opt.Sandbox == activities.ByProfile && c.Profile == "":
		return usage("restore snapshot %s: its session's sandbox is not known any more (%v)", m.ID, err).hinted("say it with --sandbox or --profile")
	}
	return usage("%v", err)
}

// without returns the paths that are not among the others.
func without(paths, others []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return slices.Contains(others, p) })
}

// confinedAsItWas reads the sandbox settings from another session's options.
func confinedAsItWas(words map[string]string) activities.Confinement {
	lines := func(text string) []string {
		if text == "" {
			return nil
		}
		return strings.Split(text, "\n")
	}
	c := activities.Confinement{Profile: words["profile"], Read: lines(words["read"]), Write: lines(words["write"])}
	c.Network, c.Hosts = networkWords(words["network"])
	return c
}

// confineText describes in one line what a session's commands may do.
func confineText(words map[string]string) string {
	if words["sandbox"] == "" {
		return ""
	}
	text := words["sandbox"]
	if text == activities.ByProfile {
		text = "profile " + words["profile"]
	}
	for _, w := range []struct{ key, says string }{{"read", "may read "}, {"write", "may write "}, {"network", "network "}} {
		if words[w.key] != "" {
			text += "; " + w.says + strings.ReplaceAll(words[w.key], "\n", ", ")
		}
	}
	return text
}
