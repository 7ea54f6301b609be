package session

import (
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// confinement adds to words the settings of the sandbox other than its mode.
func (s *core) confinement(words map[string]string) {
	c := s.opt.Confine
	network := c.Network
	if network == protocol.NetworkHosts {
		network = strings.Join(c.Hosts, ",")
	}
	for _, w := range []struct{ name, is string }{
		{"profile", c.Profile}, {"network", network},
		{"read", strings.Join(c.Read, "\n")}, {"write", strings.Join(c.Write, "\n")}, // paths have no newlines
	} {
		if w.is != "" {
			words[w.name] = w.is
		}
	}
}
