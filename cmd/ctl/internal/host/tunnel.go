package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sethvargo/go-retry"
	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/localsocket"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/tunnel"
)

func tunnelCommand(a *core.App) *cobra.Command {
	var zone, listen string
	c := &cobra.Command{
		Use: "tunnel NAME PORT", Short: "reach a port of a host from here, until ^C", Args: cobra.ExactArgs(2),
		Long: `Listens on this machine, and carries each connection to PORT of the loopback address of a
host, by the SSH connections of a worker. It prints where it listens: at the port of that number
here if it is free, and otherwise at any free one. LOCAL:PORT, or --listen, says another place.
On Linux only you and root can connect to it, elsewhere every user of this machine. A connection
that carries nothing for an hour is ended, and of more than 64 connections at a time the others
wait.

If a connection fails, standard error says why. If the worker goes away, its connections are
lost, and the next one goes by another worker. If it is not allowed, ctl ends.`,
		Example: "  ctl host tunnel web-1 8080\n  ctl host tunnel web-1 15432:5432\n  ctl host tunnel web-1 5432 --listen 127.0.0.1:0 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			local, word, two := strings.Cut(args[1], ":")
			if !two {
				word = local
			}
			port, err := parsePort(word)
			if err != nil {
				return err
			}
			if two {
				if listen != "" {
					return core.Usage("%s and --listen: give one of them", args[1])
				}
				if _, err := parsePort(local); err != nil {
					return err
				}
				listen = net.JoinHostPort("127.0.0.1", local)
			}
			if err := core.CheckName("host name", args[0]); err != nil {
				return err
			}
			if err := checkListen(listen); err != nil {
				return err
			}
			return (&tunnelling{app: a, zone: zone, host: args[0], port: port}).run(c.Context(), listen)
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	c.Flags().StringVar(&listen, "listen", "", "`ADDRESS:PORT` of this machine's loopback; port 0 is any free one")
	return c
}

func parsePort(word string) (int, error) {
	port, err := strconv.Atoi(word)
	if err != nil || port < 1 || port > 65535 {
		return 0, core.Usage("%q is not a port: a number from 1 to 65535", word)
	}
	return port, nil
}

// checkListen refuses addresses at which other machines could connect.
func checkListen(listen string) error {
	if listen == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return core.Usage("--listen %q is not ADDRESS:PORT: %v", listen, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return core.Usage("--listen %q is not an address of this machine's loopback: other machines could connect to the host", listen).Hinted("give 127.0.0.1:PORT")
	}
	return nil
}

type tunnelling struct {
	app        *core.App
	zone, host string
	port       int
	temporal   *conn.Conn
	opened     bool // at least once

	mu   sync.Mutex
	told map[string]time.Time // when each trouble was told last; guarded by mu
}

// A tunnelView is what `ctl host tunnel` prints as JSON.
type tunnelView struct {
	Host   string `json:"host"`
	Port   int    `json:"port"`
	Listen string `json:"listen"`
}

const (
	tellAgain = 10 * time.Second
	// workerWait is how long a connection waits for a worker that is away.
	workerWait = 30 * time.Second
)

func (t *tunnelling) doing() string {
	return fmt.Sprintf("tunnel to port %d of host %s", t.port, t.host)
}

func (t *tunnelling) run(ctx context.Context, listen string) (err error) {
	if t.temporal, err = conn.Open(ctx, t.app); err != nil {
		return err
	}
	t.app.Begins = true
	client := tunnel.NewClient(t.dial)
	if err := client.Connect(ctx); err != nil {
		return err
	}
	defer client.Close()
	ln, err := t.listen(ctx, listen)
	if err != nil {
		return core.Failed("%s: listen: %v", t.doing(), err).Hinted("--listen 127.0.0.1:0 takes any free port").Because(err)
	}
	v := tunnelView{t.host, t.port, ln.Addr().String()}
	if err := t.app.Print().Show(v, func(p *core.Printer) {
		p.Printf("%s leads to port %d of host %s until ^C\n", v.Listen, v.Port, v.Host)
	}); err != nil {
		ln.Close()
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	free := make(chan struct{}, tunnel.MaxConns)
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return ended(ctx)
		}
		local, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				local.Close()
			}
			return ended(ctx)
		}
		if err != nil {
			return core.Failed("%s: accept a connection: %v", t.doing(), err).Because(err)
		}
		if err := ofOurUser(local); err != nil {
			local.Close()
			<-free
			t.tell(err)
			continue
		}
		all.Go(func() {
			defer func() { <-free }()
			if err := client.Carry(ctx, local); err != nil && ctx.Err() == nil {
				if t.final(err) {
					cancel(err)
					return
				}
				t.tell(err)
			}
		})
	}
}

// ofOurUser returns an error for a connection of another user of this machine, because every user
// can connect to a loopback port. Only Linux says whose a connection is: elsewhere each is taken.
func ofOurUser(local net.Conn) error {
	uid, err := localsocket.LoopbackPeer(local)
	switch {
	case errors.Is(err, localsocket.ErrUnsupported):
		return nil
	case err != nil:
		return fmt.Errorf("find out whose it is: %w", err)
	case !localsocket.Trusted(uid):
		return fmt.Errorf("it is of uid %d, and the tunnel takes those of uid %d and root alone", uid, os.Geteuid())
	}
	return nil
}

// ended returns why the tunnel ended. ^C is how it is meant to end.
func ended(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, core.ErrInterrupted) {
		return failure(err)
	}
	return nil
}

// failure gives an exit code to what the worker said about a connection.
func failure(err error) error {
	var f *tunnel.Failure
	if errors.As(err, &f) {
		return core.NewError(core.ExitRefused, f.Kind, "%s", f.Message).Hinted("%s", f.Hint).Because(err)
	}
	return err
}

// final reports whether later connections would fail, too.
func (t *tunnelling) final(err error) bool {
	var f *tunnel.Failure
	if errors.As(err, &f) {
		return f.Kind == api.ErrRefused
	}
	return kindIs(err, api.ErrForbidden, api.ErrBadInput)
}

func kindIs(err error, kinds ...string) bool {
	var own *core.Error
	return errors.As(err, &own) && slices.Contains(kinds, own.Kind)
}

// tell says why a connection failed, the same thing once in a while.
func (t *tunnelling) tell(err error) {
	text := err.Error()
	var f *tunnel.Failure
	if errors.As(err, &f) && f.Hint != "" {
		text += " (" + f.Hint + ")"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told == nil || len(t.told) > 100 {
		t.told = map[string]time.Time{}
	}
	if time.Since(t.told[text]) >= tellAgain {
		t.told[text] = time.Now()
		t.app.Note("a connection failed: %s", core.OneLine(text, 600))
	}
}

// dial opens a tunnel at a worker of the host's zone.
func (t *tunnelling) dial(ctx context.Context) (net.Conn, error) {
	return t.patient(ctx, func(ctx context.Context) (net.Conn, error) {
		worker, err := conn.WorkerServing(ctx, t.app, t.temporal, protocol.TaskQueueOf(t.zone))
		if err != nil {
			return nil, err
		}
		nc, err := worker.OpenTunnel(ctx, t.zone, t.host, t.port)
		return nc, conn.APIFailure(t.doing(), err)
	})
}

// patient waits for a worker that is away or not ready yet. Once a tunnel was open, it also waits
// until the host's zone has a worker again, and a place for a tunnel.
func (t *tunnelling) patient(ctx context.Context, open func(context.Context) (net.Conn, error)) (nc net.Conn, err error) {
	kinds := []string{"unreachable", api.ErrStore}
	if t.opened {
		kinds = append(kinds, api.ErrElsewhere, api.ErrBusy)
	}
	back := retry.WithMaxDuration(workerWait, retry.WithCappedDuration(2*time.Second, retry.NewExponential(200*time.Millisecond)))
	err = retry.Do(ctx, back, func(ctx context.Context) error {
		nc, err = open(ctx)
		if kindIs(err, kinds...) {
			return retry.RetryableError(err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	t.opened = true
	return nc, nil
}

// listen listens at the given place, or at the port of the same number if it is free.
func (t *tunnelling) listen(ctx context.Context, listen string) (net.Listener, error) {
	var lc net.ListenConfig
	if listen != "" {
		return lc.Listen(ctx, "tcp", listen)
	}
	ln, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(t.port)))
	if err != nil {
		ln, err = lc.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	return ln, err
}
