package restores

import (
	"slices"
	"strings"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows/session"
)

// sameConfinement takes over settings that no flag states from a snapshot's session. They
// never widen a sandbox given by flag: read-only takes over no writable folder, full access
// nothing.
func sameConfinement(opt *session.Options, m snapshots.Manifest, former protocol.SessionView, given func(flag string) bool) error {
	words := former.Options
	switch {
	case m.Policy != "": // such a snapshot records the sandbox settings, too
		words = m.Confine
	case len(words) == 0 && !slices.ContainsFunc([]string{"sandbox", "profile", "read", "write", "network"}, given):
		return errkind.Usage("restore snapshot %s: neither the snapshot nor session %s says what the sandbox settings were", m.ID, m.Session).
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
	case opt.Sandbox == protocol.ByProfile && c.Profile == "":
		return errkind.Usage("restore snapshot %s: its session's sandbox is not known any more (%v)", m.ID, err).Hinted("say it with --sandbox or --profile")
	}
	return errkind.Usage("%v", err)
}

// without returns the paths that are not among others.
func without(paths, others []string) []string {
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
