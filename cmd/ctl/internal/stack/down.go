package stack

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/stack"
)

// downWait bounds draining and stopping.
const downWait = 90 * time.Second

func Down(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "stop the stack on this machine, in good order",
		Long: `Stop the worker (running turns are handed over: codex goes on, and the next worker
picks it up), then the server, then the supervisor. Nothing is lost by it.`,
		Example: "  ctl down\n  ctl down --state ./stack",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := a.StateDir()
			if err != nil {
				return err
			}
			ctx, cancel := a.Bounded(c.Context(), downWait)
			defer cancel()
			result := struct {
				State   string          `json:"state"`
				Stopped []stack.Process `json:"stopped"`
			}{dir, []stack.Process{}}
			stopped, err := stack.Down(ctx, dir)
			switch {
			case errors.Is(err, stack.ErrNone):
				return a.Print().Show(result, func(p *core.Printer) { p.Printf("no stack is running in %s\n", dir) })
			case ctx.Err() != nil && c.Context().Err() == nil:
				return core.TimedOut("%v", err).Hinted("it goes on stopping; look again with `ctl status`").Because(err)
			case err != nil:
				return core.Failed("%v", err).Because(err)
			}
			result.Stopped = stopped
			return a.Print().Show(result, func(p *core.Printer) {
				for _, s := range stopped {
					p.Printf("stopped %s (pid %s)\n", s.Name, strconv.Itoa(s.PID))
				}
			})
		},
	}
}
