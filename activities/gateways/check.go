package gateways

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// Check refuses a session that the gateway cannot serve. It is called before anything of the
// session is on the host.
func Check(credentials string, seed *protocol.SeedRef, host protocol.HostSpec) error {
	if credentials != protocol.CredentialsGateway {
		return nil
	}
	if seed == nil {
		return kit.BadInput("the model gateway needs a seed")
	}
	if err := CheckKind(seed.Kind); err != nil {
		return kit.BadInput("seed %s: %w (leave --credentials gateway out)", seed.Name, err)
	}
	if host.Name == protocol.LocalHost {
		return kit.BadInput("host %s is the worker's own machine: the model gateway is for hosts that are reached by SSH (leave --credentials gateway out)", host.Name)
	}
	return nil
}

// ByDefault reports whether the gateway serves a session by the default of the organisation: if
// neither the session nor its seed says how it gets its credential, and if the gateway can.
func ByDefault(ctx context.Context, s *site.Site, c protocol.Claim, credentials string, seed *protocol.SeedRef) (bool, error) {
	if s.Credentials != protocol.CredentialsGateway || credentials != "" || seed == nil || Check(s.Credentials, seed, c.Host) != nil {
		return false, nil
	}
	asks, err := s.AskAsks(ctx, c.Session)
	if err != nil {
		return false, &kit.TypedError{Kind: protocol.ErrTypeInternal, Retry: true, Err: fmt.Errorf("ask how session %s gets its credential: %w", c.Session, err)}
	}
	return asks.Unsaid, nil
}

// CheckKind refuses seeds of a kind that the gateway cannot use.
//
//workflowcheck:ignore // a pure function
func CheckKind(kind string) error { return seeds.CheckGateway(seeds.Kind(kind)) }

// Ports of gateways. They lie below those that systems give to connections, so that no
// connection takes one while no Gate is open.
const (
	firstPort = 20_000
	ports     = 12_000
)

// portsScript prints the ports of all sessions below a root folder.
const portsScript = `for f in "$1"/sessions/*/generation; do [ ! -f "$f" ] || sed -n 's/^gateway \([0-9]*\)$/\1/p' "$f"; done 2>/dev/null | head -n 20000`

// A Port is chosen for a session.
type Port struct {
	Site  *site.Site
	Host  hostexec.Host
	Root  string
	Fence hostexec.Fence
}

// Try opens and ends a forward, to see that sshd permits it. If port is 0, it chooses one
// that no session of the host has. It returns the port.
func (p Port) Try(ctx context.Context, port int) (int, error) {
	given := port != 0
	taken := map[int]bool{}
	if !given {
		res, err := p.Host.Run(ctx, hostexec.Command{Script: portsScript, Args: []string{p.Root}})
		if err != nil {
			return 0, fmt.Errorf("list the ports of model gateways on %s: %w", p.Host.Name(), err)
		}
		for _, word := range strings.Fields(string(res.Stdout)) {
			if n, err := strconv.Atoi(word); err == nil {
				taken[n] = true
			}
		}
	}
	for tries := 0; ; tries++ {
		for !given && (port == 0 || taken[port] && len(taken) < ports) {
			port = firstPort + rand.N(ports)
		}
		f, err := open(ctx, p.Site, p.Host, hostexec.ForwardSpec{Name: folder.ModelForward, Port: port, Fence: p.Fence})
		if err == nil {
			err = f.Release(ctx)
		}
		switch {
		case err == nil:
			return port, nil
		case errors.Is(err, hostexec.ErrPortTaken) && !given && tries < 20:
			taken[port] = true // by another program
			continue
		}
		return 0, opening(err)
	}
}

// open opens a forward by the worker's pool of connections.
func open(ctx context.Context, s *site.Site, h hostexec.Host, spec hostexec.ForwardSpec) (*hostexec.Forward, error) {
	pool, ok := s.Pool.(interface {
		OpenForward(context.Context, hostexec.Host, hostexec.ForwardSpec) (*hostexec.Forward, error)
	})
	if !ok {
		return nil, fmt.Errorf("%w: this worker opens no forwards", hostexec.ErrUnsupported)
	}
	return pool.OpenForward(ctx, h, spec)
}

// opening turns an error of the forward into an error of an activity.
func opening(err error) error {
	switch {
	case errors.Is(err, hostexec.ErrForwardRefused), errors.Is(err, hostexec.ErrForwardOpen):
		return &kit.TypedError{Kind: protocol.ErrTypeUnfit, Err: fmt.Errorf("open the port of the model gateway: %w", err),
			Hint: "the host's sshd must let the session forward a port: the message says what to set (`ctl host check` tries it); or leave --credentials gateway out"}
	case errors.Is(err, hostexec.ErrPortTaken):
		return &kit.TypedError{Kind: protocol.ErrTypeUnreachable, Retry: true, Err: fmt.Errorf("open the port of the model gateway: %w", err),
			Hint: "see which program on the host listens there, and end it; the session goes on by itself"}
	}
	return fmt.Errorf("open the port of the model gateway: %w", err)
}
