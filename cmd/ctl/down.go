package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/internal/stack"
)

// downWait is how long a stack may take to drain and stop.
const downWait = 90 * time.Second

func downCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "stop the stack on this machine, in good order",
		Long: `Stop the worker (running turns are handed over: codex goes on, and the next worker
picks it up), then the server, then the supervisor. Nothing is lost by it.`,
		Example: "  ctl down\n  ctl down --state ./stack",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := a.stateDir()
			if err != nil {
				return err
			}
			ctx, cancel := a.bounded(c.Context(), downWait)
			defer cancel()
			result := struct {
				State   string          `json:"state"`
				Stopped []stack.Process `json:"stopped"`
			}{dir, []stack.Process{}}
			stopped, err := stack.Down(ctx, dir)
			switch {
			case errors.Is(err, stack.ErrNone):
				return a.print().show(result, func(p *printer) { p.printf("no stack is running in %s\n", dir) })
			case ctx.Err() != nil && c.Context().Err() == nil:
				return timedOut("%v", err).hinted("it goes on stopping; look again with `ctl status`").because(err)
			case err != nil:
				return failed("%v", err).because(err)
			}
			result.Stopped = stopped
			return a.print().show(result, func(p *printer) {
				for _, s := range stopped {
					p.printf("stopped %s (pid %s)\n", s.Name, strconv.Itoa(s.PID))
				}
			})
		},
	}
}
