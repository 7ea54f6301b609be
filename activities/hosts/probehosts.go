package hosts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// HostFault reports whether a failure of that kind is the host's, so that another host may
// succeed.
func HostFault(kind string) bool {
	switch kind {
	case protocol.ErrTypeUnreachable, protocol.ErrTypeAuth, protocol.ErrTypeHostKey, protocol.ErrTypeNoSpace, protocol.ErrTypeCodexMissing, protocol.ErrTypeCodexVersion, protocol.ErrTypeCodexChanged, protocol.ErrTypeUnfit, protocol.ErrTypeRootMissing, protocol.ErrTypeHostFlood:
		return true
	}
	return false
}

// ProbeHostsInput is the input of ProbeHosts.
type ProbeHostsInput struct {
	Hosts []protocol.HostSpec `json:"hosts"`
}

// ProbeHostsResult has the hosts in the order of the input.
type ProbeHostsResult struct {
	Hosts []HostProbed `json:"hosts"`
}

// HostProbed is the result for one host. Facts are as in CheckHostResult, without those of
// codex, which is not started.
type HostProbed struct {
	Name  string            `json:"name"`
	At    time.Time         `json:"at"`
	Facts map[string]string `json:"facts,omitempty"`
	// Problem says why no session can run there, or is nil.
	Problem *protocol.Problem `json:"problem,omitempty"`
}

const (
	probesAtOnce = 16
	// HostProbeTimeout is how long one host may take.
	HostProbeTimeout = 20 * time.Second
)

// ProbeHosts looks at hosts, in a round trip or two each. A host that cannot be used is a
// result, not a failure.
func (h *Activities) ProbeHosts(ctx context.Context, in ProbeHostsInput) (ProbeHostsResult, error) {
	out := ProbeHostsResult{Hosts: make([]HostProbed, len(in.Hosts))}
	room := make(chan struct{}, probesAtOnce)
	var all sync.WaitGroup
	for i, spec := range in.Hosts {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			out.Hosts[i] = probeHost(ctx, h.Site, spec)
		})
	}
	all.Wait()
	// if cancelled, the results say nothing about the hosts
	return out, kit.Failing{}.Failure(ctx, "probe hosts", ctx.Err())
}

func probeHost(ctx context.Context, s *site.Site, spec protocol.HostSpec) HostProbed {
	ctx, cancel := context.WithTimeoutCause(ctx, HostProbeTimeout,
		fmt.Errorf("%w: no answer within %s", hostexec.ErrUnreachable, HostProbeTimeout))
	defer cancel()
	out := HostProbed{Name: spec.Name, At: s.Now().UTC()}
	c := &checkup{Result: protocol.CheckHostResult{Facts: map[string]string{}}}
	err := lookAt(ctx, s, c, spec)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	if err != nil {
		kind, hint, _ := kit.Failing{}.Classify(err)
		out.Problem = &protocol.Problem{Kind: kind, Message: err.Error(), Hint: hint}
		return out
	}
	out.Facts = c.Result.Facts
	var lacks, hints []string
	kind := protocol.ErrTypeUnfit
	for _, k := range c.Result.Checks {
		if !k.Required || k.OK {
			continue
		}
		if lacks, hints = append(lacks, k.Name+": "+k.Detail), append(hints, k.Hint); k.Name == "disk" {
			kind = protocol.ErrTypeNoSpace
		}
	}
	if len(lacks) > 0 {
		out.Problem = &protocol.Problem{Kind: kind, Message: strings.Join(lacks, "; "), Hint: strings.Join(slices.Compact(hints), "; ")}
	}
	return out
}

func lookAt(ctx context.Context, s *site.Site, c *checkup, spec protocol.HostSpec) error {
	h, err := s.Host(spec)
	if err != nil {
		return err
	}
	root, err := hostexec.Root(ctx, h, spec)
	if err != nil {
		return err
	}
	dir := path.Join(root, "check", strings.ToLower(rand.Text()[:12]))
	facts, err := lookAround(ctx, s, h, root, dir)
	undo, cancel := kit.Afterwards(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	if err := hostexec.RemoveTree(undo, h, dir, root, nil); err != nil {
		s.Logger.Warn("a probe left its folder behind", "host", spec.Name, "folder", dir, "err", err)
	}
	c.machine(facts)
	c.programs(facts)
	c.root(facts, root)
	c.clock(facts)
	return nil
}
