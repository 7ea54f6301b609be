package gateways

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/egress"
	"fairlead.dev/fairlead/internal/egress/rule"
	"fairlead.dev/fairlead/internal/protocol"
)

// CheckEgress refuses a session that may not reach what it asks for, or that has no model gateway.
func CheckEgress(s *site.Site, asked []string, credentials string) error {
	if len(asked) == 0 {
		return nil
	}
	rules, err := rule.ParseAll(asked)
	if err != nil {
		return kit.BadInput("egress: %w", err)
	}
	if credentials != protocol.CredentialsGateway {
		return kit.BadInput("egress goes through the model gateway, which the session does not have (add --credentials gateway, or leave --egress out)")
	}
	if r, ok := rule.Uncovered(rules, s.Egress.Allow); ok {
		return &kit.TypedError{Kind: protocol.ErrTypeBounds, Err: fmt.Errorf("egress: the workers do not let sessions reach %s", r),
			Hint: "whoever runs the workers permits it with egress.allow in their configuration; or leave it out of --egress"}
	}
	return nil
}

// egressConns bounds the connections of a session's programs. The forward has places for the model
// beside them.
const (
	egressConns = 64
	modelConns  = 64
)

// newEgress returns nil if the session asks for no way out.
func (g *Gate) newEgress(asked []string, dir string) (*egress.Proxy, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	rules, err := rule.ParseAll(asked)
	if err != nil {
		return nil, kit.BadInput("egress: %w", err)
	}
	allowed := g.site.Egress.Allow
	return egress.New(egress.Options{
		// The configuration may have changed since the session began.
		Permits: func(host string, port uint16) bool {
			matches := func(r rule.Rule) bool { return r.Matches(host, port) }
			return slices.ContainsFunc(rules, matches) && slices.ContainsFunc(allowed, matches)
		},
		Private: g.site.Egress.Private,
		Caller:  func(ctx context.Context, from string) error { return caller(ctx, g.host, from, g.key.port, dir) },
		Limits:  egress.Limits{Conns: egressConns},
		Record:  g.carried,
		Logger:  g.site.Logger.With("session", g.key.session),
	}), nil
}

//go:embed caller.sh
var callerScript string

// caller asks the host whether a connection comes from a process of a session.
func caller(ctx context.Context, h hostexec.Host, from string, port int, dir string) error {
	host, text, err := net.SplitHostPort(from)
	n, perr := strconv.ParseUint(text, 10, 16)
	if err != nil || perr != nil || host != "127.0.0.1" {
		return fmt.Errorf("%w: it comes from %q, not from 127.0.0.1", egress.ErrStranger, from)
	}
	res, err := h.Run(ctx, hostexec.Command{Script: callerScript, Args: []string{fmt.Sprintf("%04X", n), fmt.Sprintf("%04X", port), dir}})
	if err != nil {
		return fmt.Errorf("ask %s whose a connection is: %w", h.Name(), err)
	}
	if said := strings.TrimSpace(string(res.Stdout)); said != "session" {
		return fmt.Errorf("%w: %.200q", egress.ErrStranger, said)
	}
	return nil
}

// carried counts what a program of the host asked for.
func (g *Gate) carried(o egress.Outcome) {
	g.mu.Lock()
	g.out.Count(protocol.EgressEvent{Host: o.Host, Port: o.Port, Open: o.Kind == egress.KindOpen, Refused: o.Kind.Refused(), Failed: o.Kind == egress.KindUnreached,
		Sent: o.Sent, Received: o.Received, Why: o.Message})
	warn := o.Kind == egress.KindStranger && g.site.Now().Sub(g.warned) > warnEvery
	if warn {
		g.warned = g.site.Now()
	}
	g.mu.Unlock()
	if warn {
		g.site.Logger.Warn("a program that is none of the session's asked for its way out", "session", g.key.session, "host", g.host.Name(), "from", o.From, "error", o.Message)
	}
	if g.site.Carried != nil && o.Kind != egress.KindOpen {
		g.site.Carried(o)
	}
}

// Carried returns what programs reached, or were refused, since the last call; nil if nothing.
func (g *Gate) Carried() *protocol.EgressUse {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.out.None() {
		return nil
	}
	use := g.out
	g.out = protocol.EgressUse{}
	return &use
}
