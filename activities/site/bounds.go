package site

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/egress/rule"
	"fairlead.dev/fairlead/internal/protocol"
)

// Bounds are of the organisation. Every worker must have the same.
type Bounds struct {
	All   protocol.Ceiling
	Hosts []HostBounds
	// Zone is that of the hosts.
	Zone string
}

// HostBounds bound what is done on hosts that have all of these labels.
type HostBounds struct {
	Labels map[string]string
	Most   protocol.Ceiling
}

// An Egress says what programs of sessions may reach through workers.
type Egress struct {
	Allow []rule.Rule
	// Private has addresses that may be reached although they are not public.
	Private []netip.Prefix
}

func (b Bounds) none() bool {
	return b.All.None() && !slices.ContainsFunc(b.Hosts, func(h HostBounds) bool { return !h.Most.None() })
}

func (h HostBounds) covers(labels map[string]string) bool {
	for k, v := range h.Labels {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

func (h HostBounds) who() string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(h.Labels)) {
		words = append(words, k+"="+h.Labels[k])
	}
	return "bounds.hosts of the workers' configuration (for " + strings.Join(words, ", ") + ")"
}

const (
	organisation = "bounds of the workers' configuration"
	hintBounds   = "ask for less, or ask those who set the bound to raise it; nothing was done on the host"
)

func outOfBounds(format string, args ...any) error {
	return &kit.TypedError{Kind: protocol.ErrTypeBounds, Hint: hintBounds, Err: fmt.Errorf(format, args...)}
}

// unsure is retried: nothing is done while the bounds cannot be checked.
func unsure(err error) error {
	return &kit.TypedError{Kind: protocol.ErrTypeInternal, Retry: true, Hint: "bounds are checked by workers of this version: bring all workers of the zone to it, with the same bounds",
		Err: fmt.Errorf("cannot check its bounds: %w", err)}
}

// CheckBounds refuses a session that asks for more than the organisation, the labels of
// its host or its seed allow. bySeed says that its seed has bounds. Credentials replaces what
// the session says, unless it is empty.
func CheckBounds(ctx context.Context, s *Site, session string, bySeed bool, credentials string) error {
	if s.Bounds.none() && !bySeed {
		return nil
	}
	asks, err := s.AskAsks(ctx, session)
	if err == nil && (asks.Sandbox == "" || asks.ApprovalPolicy == "") {
		err = fmt.Errorf("the workflow of session %s does not say what the session asks for", session)
	}
	if err != nil {
		return unsure(err)
	}
	asks.Credentials = cmp.Or(credentials, asks.Credentials)
	return s.Bounds.check(asks)
}

func (b Bounds) check(asks protocol.SessionAsks) error {
	if why := b.All.Exceeds(asks); why != "" {
		return outOfBounds("out of bounds: %s; set by %s", why, organisation)
	}
	for _, h := range b.Hosts {
		if why := h.Most.Exceeds(asks); why != "" && h.covers(asks.Labels) {
			return outOfBounds("out of bounds on host %s: %s; set by %s", asks.Host, why, h.who())
		}
	}
	if c := asks.SeedCeiling; c != nil {
		if why := c.Exceeds(asks); why != "" {
			return outOfBounds("out of bounds: %s; set by seed %s (`ctl seed show %s`)", why, asks.Seed, asks.Seed)
		}
	}
	return nil
}

// CheckExec refuses to run a command on a host whose labels, or the organisation, do not
// allow it.
func CheckExec(ctx context.Context, s *Site, at protocol.HostSpec) error {
	if s.Bounds.All.NoExec {
		return outOfBounds("commands may not be run on hosts; set by %s", organisation)
	}
	if !slices.ContainsFunc(s.Bounds.Hosts, func(h HostBounds) bool { return h.Most.NoExec }) {
		return nil
	}
	hosts, err := s.AskHosts(ctx)
	if err != nil {
		return unsure(err)
	}
	// Who starts a command also says where it is to run, so another name or address of a
	// host must not hide its labels.
	for _, known := range hosts {
		if known.Name != at.Name || known.Spec == nil {
			continue
		}
		if known.Spec.Address != at.Address || known.Spec.Port != at.Port || known.Spec.User != at.User {
			return outOfBounds("host %s has another address, port or user than in zone %s, so its labels do not count; set by bounds.hosts of the workers' configuration", at.Name, s.Bounds.Zone)
		}
		for _, h := range s.Bounds.Hosts {
			if h.Most.NoExec && h.covers(known.Labels) {
				return outOfBounds("commands may not be run on host %s; set by %s", at.Name, h.who())
			}
		}
		return nil
	}
	return outOfBounds("zone %s has no host %s, so its labels are unknown; set by bounds.hosts of the workers' configuration", s.Bounds.Zone, at.Name)
}
