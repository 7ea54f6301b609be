package cluster

import (
	"fmt"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/capacity"
)

// Capacity is `ctl capacity`.
func Capacity(a *core.App) *cobra.Command {
	l := capacity.Load{Zones: 1}
	c := &cobra.Command{
		Use: "capacity", Short: "estimate the actions, slots and workers that a load takes", Args: cobra.NoArgs,
		Long: `Estimates what a load asks of Temporal (actions, as Temporal Cloud counts them), how many activity
slots of each class are in use at a time, and how many workers that takes with the limits of the
config. Asks no server. Queries of people and of metrics are not in it. Add one worker to those that
it names, so that one may stop.`,
		Example: "  ctl capacity --hosts 40 --sessions 200 --running 60 --turns-per-hour 300 --approvals-per-hour 120\n" +
			"  ctl capacity --hosts 40 --sessions 200 --running 60 -o json | jq .actions_per_month",
		RunE: func(*cobra.Command, []string) error {
			if err := l.Check(); err != nil {
				return core.Usage("estimate the capacity: %v", err)
			}
			conf, err := a.Config()
			if err != nil {
				return err
			}
			of := conf.Limits
			e := capacity.Of(l, capacity.Limits{Pumps: of.Pumps, Watches: of.Watches, Bulk: of.Bulk, Commands: of.Commands, Short: of.Short})
			return a.Print().Show(e, func(p *core.Printer) { showCapacity(p, e) })
		},
	}
	f := c.Flags()
	f.IntVar(&l.Hosts, "hosts", 0, "`hosts` with sessions at the same time")
	f.IntVar(&l.Zones, "zones", 1, "zones with hosts")
	f.IntVar(&l.Outboxes, "notifying-zones", 0, "zones of these with notifications")
	f.IntVar(&l.Sessions, "sessions", 0, "`sessions` that are open at the same time")
	f.IntVar(&l.Running, "running", 0, "`sessions` of these in which codex works")
	f.Float64Var(&l.SessionsPerHour, "sessions-per-hour", 0, "sessions that begin, and end, in an hour")
	f.Float64Var(&l.TurnsPerHour, "turns-per-hour", 0, "turns that begin in an hour, in all sessions")
	f.Float64Var(&l.ApprovalsPerHour, "approvals-per-hour", 0, "approvals and questions that people answer in an hour")
	f.Float64Var(&l.CommandsPerHour, "commands-per-hour", 0, "commands of ctl host exec in an hour")
	return c
}

func showCapacity(p *core.Printer, e capacity.Estimate) {
	p.Printf("actions in Temporal  %.2f a second, %s in 30 days\n", e.ActionsPerSecond, millions(e.ActionsPerMonth))
	for _, part := range e.Parts {
		if part.PerSecond > 0 {
			p.Printf("  %-44s %8.3f a second\n", part.What, part.PerSecond)
		}
	}
	p.Printf("workers              %d, and one more in each zone so that one may stop\n", e.Workers)
	for _, s := range e.Slots {
		p.Printf("  %-9s %6d slots of %6d in each worker   %s\n", s.Class, s.Needed, s.Limit, s.Estimate)
	}
	p.Printf("slots of hosts       %.3f given in a second; pools were measured to give %.0f\n", e.GrantsPerSecond, e.MostGrants)
}

func millions(n float64) string {
	if n < 1e6 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f million", n/1e6)
}
