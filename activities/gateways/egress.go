package gateways

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/audit"
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
		Callers: func(ctx context.Context, from []string) []error { return callers(ctx, g.host, from, g.key.port, dir) },
		Lost:    wireLost,
		Limits:  egress.Limits{Conns: egressConns},
		Record:  g.carried,
		Logger:  g.site.Logger.With("session", g.key.session),
	}), nil
}

//go:embed caller.sh
var callerScript string

// callers asks the host which of some connections come from processes of a session.
func callers(ctx context.Context, h hostexec.Host, from []string, port int, dir string) []error {
	errs, of, args := make([]error, len(from)), map[string][]int{}, []string{fmt.Sprintf("%04X", port), dir}
	for i, address := range from {
		host, text, err := net.SplitHostPort(address)
		n, perr := strconv.ParseUint(text, 10, 16)
		if err != nil || perr != nil || host != "127.0.0.1" {
			errs[i] = fmt.Errorf("%w: it comes from %q, not from 127.0.0.1", egress.ErrStranger, address)
			continue
		}
		word := fmt.Sprintf("%04X", n)
		if of[word] == nil { // two have one port if the first of them is gone
			args = append(args, word)
		}
		of[word] = append(of[word], i)
	}
	if len(of) == 0 {
		return errs
	}
	res, err := h.Run(ctx, hostexec.Command{Script: callerScript, Args: args})
	said := strings.Split(strings.TrimSuffix(string(res.Stdout), "\n"), "\n")
	if ports := args[2:]; err == nil && len(said) != len(ports) {
		err = fmt.Errorf("%d lines came back for %d connections", len(said), len(ports))
	}
	for i, word := range args[2:] {
		for _, at := range of[word] {
			switch {
			case err != nil:
				errs[at] = fmt.Errorf("ask %s whose a connection is: %w", h.Name(), err)
			case said[i] != "session":
				errs[at] = fmt.Errorf("%w: %.200q", egress.ErrStranger, said[i])
			}
		}
	}
	return errs
}

// wireLost tells the loss of the SSH connection from other ends of a connection of a forward.
func wireLost(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded)
}

// carried counts what a program of the host asked for.
func (g *Gate) carried(o egress.Outcome) {
	g.mu.Lock()
	g.out.Count(protocol.EgressEvent{Host: o.Host, Port: o.Port, Open: o.Kind == egress.KindOpen, Refused: o.Kind.Refused(), Failed: o.Kind == egress.KindUnreached,
		Cut: o.Kind.Cut(), Sent: o.Sent, Received: o.Received, Why: o.Message})
	g.mu.Unlock()
	if o.Kind == egress.KindStranger {
		if r, due := g.outsiders.refused(g.key.session, o.From, g.site.Now()); due {
			g.site.Logger.Warn("a program that is none of the session's asked for its way out", "session", g.key.session, "host", g.host.Name(), "from", o.From, "error", o.Message, "why", r.Reason)
			g.tell(r)
		}
	}
	if g.site.Carried != nil && o.Kind != egress.KindOpen {
		g.site.Carried(o)
	}
}

// unreported puts on record what ended after the session's last pump had reported, such as connections
// that the end of the Gate has cut.
func (g *Gate) unreported() {
	use := g.Carried()
	if use == nil {
		return
	}
	g.site.Logger.Info("what programs of a session reached after its pump had reported", "session", g.key.session, "host", g.host.Name(), "reached", use.Text())
	if g.site.Unreported != nil {
		g.site.Unreported(audit.Record{Source: audit.Workflow, Verb: audit.EgressEnd, Object: protocol.SessionID(g.key.session), Outcome: audit.Accepted,
			Reason: fmt.Sprintf("the way out of the session's programs on host %s ended after its last report: %s", g.host.Name(), use.Text())})
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
