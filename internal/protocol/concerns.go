package protocol

import "maps"

// LoginPrefix begins the ids of commands that log in for a seed.
const LoginPrefix = "login-"

// A Concern is a host or a seed that a command is about, for conditions of the access file.
type Concern struct {
	Host, Seed string
	// Machine, if set, is where the command goes. It counts as Host only if the inventory
	// has the same.
	Machine *HostSpec
	// Then returns the labels that the host has after the command; nil if it leaves them. now
	// is nil if there is no such host.
	Then func(now map[string]string) map[string]string
}

// Concerns returns what the command is about.
func (h HostTaskInput) Concerns() []Concern { return at(h.Host) }

// Concerns is as that of HostTaskInput.
func (e ExecInput) Concerns() []Concern { return at(e.Host) }

// Concerns is as that of HostTaskInput.
func (s ScanHostKeysInput) Concerns() []Concern { return at(s.Host) }

func at(h HostSpec) []Concern { return []Concern{{Host: h.Name, Machine: &h}} }

// Concerns is as that of HostTaskInput.
func (p PutHost) Concerns() []Concern {
	return []Concern{{Host: p.Spec.Name, Then: func(map[string]string) map[string]string { return p.Labels }}}
}

// Concerns is as that of HostTaskInput.
func (p PutHosts) Concerns() (all []Concern) {
	for _, h := range p.Hosts {
		all = append(all, h.Concerns()...)
	}
	return all
}

// Concerns is as that of HostTaskInput.
func (r RemoveHost) Concerns() []Concern { return []Concern{{Host: r.Name}} }

// Concerns is as that of HostTaskInput.
func (s SetHost) Concerns() []Concern {
	c := Concern{Host: s.Name}
	if len(s.Labels)+len(s.Unlabel) > 0 {
		c.Then = s.Relabelled
	}
	return []Concern{c}
}

// Relabelled returns the labels of a host after the command.
func (s SetHost) Relabelled(labels map[string]string) map[string]string {
	all := map[string]string{}
	//workflowcheck:ignore // the order does not matter
	maps.Copy(all, labels)
	//workflowcheck:ignore // the order does not matter
	maps.Copy(all, s.Labels)
	for _, k := range s.Unlabel {
		delete(all, k)
	}
	return all
}

// Concerns is as that of HostTaskInput, for a seed.
func (p PutSeed) Concerns() []Concern { return []Concern{{Seed: p.Name}} }
