package host

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func drainCommand(a *core.App) *cobra.Command {
	var zone string
	var move, park, noWait bool
	c := &cobra.Command{
		Use: "drain NAME", Short: "empty a host: no new session, and those that are there leave", Args: cobra.ExactArgs(1),
		Long: `Lets no new session onto a host, and has each leave that is there, when its turn has
ended: with --park (the default) it parks and comes up on another host when it is wanted,
with --move at once. What is queued begins elsewhere. When nothing of any session is on the
host any more it is drained: it can be removed, and until then stays so until uncordon.

The host's pool does this, whether or not somebody waits. Who cannot leave is told: a turn
that waits for a decision does so as long as it takes, and a session that takes no snapshots
stays until it is closed. --timeout ends the waiting (exit 5), and not the drain.`,
		Example: "  ctl host drain web-1\n  ctl host drain web-1 --move --timeout 30m",
		RunE: func(c *cobra.Command, args []string) error {
			if move && park {
				return core.Usage("--move and --park: give one of them")
			}
			how := protocol.DrainPark
			if move {
				how = protocol.DrainMove
			}
			return drainHost(c.Context(), a, zone, args[0], how, noWait)
		},
	}
	f := c.Flags()
	f.BoolVar(&move, "move", false, "sessions go on on another host at once")
	f.BoolVar(&park, "park", false, "sessions park, and come up elsewhere when they are wanted")
	f.BoolVar(&noWait, "no-wait", false, "do not wait until it is drained")
	f.StringVar(&zone, "zone", "", "the host's zone")
	return c
}

func drainHost(ctx context.Context, a *core.App, zone, name, how string, noWait bool) error {
	if err := core.CheckName("host name", name); err != nil {
		return err
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	doing := "drain host " + name
	var v protocol.DrainView
	v.HostView, err = t.SetHost(ctx, doing, zone, "", protocol.SetHost{Name: name, Drain: &protocol.Draining{How: how, By: core.Person()}})
	if err != nil {
		return err
	}
	if wait := a.Wait(0); wait > 0 && !noWait {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wait, context.DeadlineExceeded)
		defer cancel()
	}
	told := ""
	for {
		// After the timeout no session answers: keep the earlier list.
		if left := t.Stayers(ctx, v.HostView); told == "" || ctx.Err() == nil {
			v.Left = left
		}
		if v.State != "draining" || noWait {
			break
		}
		if text := leftText(v); text != told {
			told = text
			a.Note("%s", text)
		}
		select {
		case <-ctx.Done():
			if ctx.Err() == context.DeadlineExceeded {
				return core.TimedOut("%s: %s", doing, told).
					Hinted("it goes on; `ctl host drain %s` waits again, `ctl host uncordon %s` ends it", name, name)
			}
			return context.Cause(ctx)
		case <-time.After(core.PollEvery):
		}
		switch h, err := t.Host(ctx, doing, zone, name); {
		case err == nil:
			v.HostView = h
		case ctx.Err() == nil:
			return err
		}
	}
	if v.State != "draining" && v.State != "drained" {
		return core.Refused("%s: the drain was ended meanwhile; the host is %s", doing, v.State)
	}
	return a.Print().Show(v, func(p *core.Printer) {
		if v.State == "drained" {
			p.Printf("host %s is drained: nothing of any session is there\n", name)
		} else {
			p.Printf("host %s is being drained: %s\n", name, leftText(v))
		}
	})
}

func leftText(v protocol.DrainView) string {
	var parts []string
	if n := len(v.Left); n > 0 {
		var names []string
		for _, s := range v.Left[:min(n, 10)] {
			names = append(names, core.Clean(s.String()))
		}
		if n > 10 {
			names = append(names, fmt.Sprintf("and %d more", n-10))
		}
		parts = append(parts, fmt.Sprintf("%d left: %s", n, strings.Join(names, ", ")))
	}
	if v.Unclean > 0 {
		parts = append(parts, fmt.Sprintf("what %d sessions have there is being removed", v.Unclean))
	}
	if len(parts) == 0 {
		return "the last folders are being removed"
	}
	return strings.Join(parts, "; ")
}
