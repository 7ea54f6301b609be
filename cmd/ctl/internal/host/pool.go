package host

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/protocol"
)

// PoolCommand is `ctl pool`.
func PoolCommand(a *core.App) *cobra.Command {
	return core.Group("pool", "the slots of a zone: who has them, who waits, and whose turn it is",
		poolListCommand(a), poolShowCommand(a), poolSetCommand(a), poolPauseCommand(a), poolResumeCommand(a))
}

func poolListCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "the zones, their slots, and who waits", Args: cobra.NoArgs, Example: "  ctl pool list\n  ctl pool list -o json | jq 'select(.waiting > 0)'",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			pools, err := t.Pools(c.Context())
			if err != nil {
				return err
			}
			return core.ShowAll(a.Print(), pools, func(p *core.Printer) {
				var rows [][]core.Cell
				for _, v := range pools {
					rows = append(rows, []core.Cell{core.Painted(core.Bold, v.Zone), core.Plain(len(v.Hosts)), core.Plain(fmt.Sprintf("%d/%d", v.Used, v.Slots)), core.Plain(v.Free),
						core.Plain(v.Waiting), core.Plain(v.Parked), core.Painted(core.Yellow, show.PauseText(v.Paused))})
				}
				p.Table([]string{"ZONE", "HOSTS", "USED", "FREE", "WAITING", "PARKED", "PAUSED"}, rows)
			})
		},
	}
}

func poolShowCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "show [ZONE]", Short: "a zone's hosts, who waits and why, and the tenants", Args: cobra.MaximumNArgs(1),
		Long: `Shows a zone: its hosts with their slots; who waits, in the order in which it would be
their turn if every host did for everybody, and what for; and what tenants and seeds have
and may have.`,
		Example: "  ctl pool show\n  ctl pool show eu -o json | jq '.queue[0]'",
		RunE: func(c *cobra.Command, args []string) error {
			zone, err := zoneOf(args)
			if err != nil {
				return err
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			v, err := t.Pool(c.Context(), zone)
			if err != nil {
				return err
			}
			return a.Print().Show(v, func(p *core.Printer) { showPool(p, v) })
		},
	}
}

func zoneOf(args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	return args[0], core.CheckName("zone", args[0])
}

// poolWaitText says why a restarted pool grants no slots yet.
func poolWaitText(w *protocol.WaitingView) string {
	if w == nil {
		return ""
	}
	return core.Clean(fmt.Sprintf("it tries to %s, and cannot: %s; next attempt %s", w.Doing, w.Error, show.AttemptsText(w)))
}

func showPool(p *core.Printer, v protocol.PoolView) {
	p.Fields(core.Plain("zone"), core.Painted(core.Bold, v.Zone), core.Plain("paused"), core.Painted(core.Yellow, show.PauseText(v.Paused)), core.Plain("grants no slot"), core.Painted(core.Yellow, poolWaitText(v.WaitingFor)),
		core.Plain("slots"), core.Plain(fmt.Sprintf("%d of %d used, %d free", v.Used, v.Slots, v.Free)), core.Plain("waiting"), core.Plain(v.Waiting), core.Plain("parked"), core.Plain(v.Parked),
		core.Plain("grants"), core.Plain(v.Grants))
	var rows [][]core.Cell
	for _, h := range v.Hosts {
		rows = append(rows, []core.Cell{core.Painted(core.Bold, h.Name), core.Painted(hostColour(h.State), h.State), core.Plain(fmt.Sprintf("%d/%d", h.Used, h.Slots))})
	}
	p.Printf("\n")
	p.Table([]string{"HOST", "STATE", "USED"}, rows)
	for _, h := range v.Hosts {
		if h.Health != nil {
			p.Printf("%s\n", p.Paint(core.Yellow, fmt.Sprintf("host %s is %s", h.Name, healthText(h.Name, h.Health))))
		}
	}
	if len(v.Tenants) > 0 {
		rows = nil
		for _, c := range v.Tenants {
			rows = append(rows, []core.Cell{core.Painted(core.Bold, c.Name), core.Plain(c.Weight), core.Plain(limitText(c.Limit)), core.Plain(c.Used), core.Plain(c.Waiting)})
		}
		p.Printf("\n")
		p.Table([]string{"TENANT", "WEIGHT", "LIMIT", "USED", "WAITING"}, rows)
	}
	if len(v.Seeds) > 0 {
		rows = nil
		for _, s := range v.Seeds {
			rows = append(rows, []core.Cell{core.Painted(core.Bold, s.Name), core.Plain(s.Limit), core.Plain(s.Used)})
		}
		p.Printf("\n")
		p.Table([]string{"SEED", "LIMIT", "USED"}, rows)
	}
	if len(v.Queue) > 0 {
		rows = nil
		for _, w := range v.Queue {
			rows = append(rows, []core.Cell{core.Plain(w.Position), core.Painted(core.Bold, w.Session), core.Plain(w.Tenant), core.Plain(w.Priority), core.Plain(cmp.Or(w.Host, strings.Join(w.Selects, " "))),
				core.Plain(w.Since), core.Plain(core.OneLine(w.Reason, 100))})
		}
		p.Printf("\n")
		p.Table([]string{"PLACE", "SESSION", "TENANT", "PRIORITY", "WANTS", "SINCE", "WAITS"}, rows)
	}
}

func limitText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func poolSetCommand(a *core.App) *cobra.Command {
	var in protocol.SetPool
	var weight, limit int
	c := &cobra.Command{
		Use: "set [ZONE] (--tenant T | --seed S)", Short: "what a tenant or a seed may have of a zone", Args: cobra.MaximumNArgs(1),
		Long: `Says how a zone's slots are shared out. Each tenant that wants slots is entitled to a share
of them by its weight (1 unless somebody says otherwise); what one does not want the others
get. A limit is how many slots it has at most at a time, 0 is none. A seed's limit is how many
sessions use it at a time on this zone's hosts.`,
		Example: "  ctl pool set --tenant release --weight 4\n  ctl pool set eu --tenant nightly --limit 20\n  ctl pool set --seed team --limit 5",
		RunE: func(c *cobra.Command, args []string) error {
			zone, err := zoneOf(args)
			if err != nil {
				return err
			}
			if (in.Tenant == "") == (in.Seed == "") {
				return core.Usage("give --tenant or --seed")
			}
			if c.Flags().Changed("weight") {
				in.Weight = &weight
			}
			if c.Flags().Changed("limit") {
				in.Limit = &limit
			}
			if in.Weight == nil && in.Limit == nil {
				return core.Usage("give --weight or --limit")
			}
			in.By = core.Person()
			return changePool(c.Context(), a, zone, protocol.UpdateSetPool, in, cmp.Or(in.Tenant, in.Seed)+" set")
		},
	}
	fl := c.Flags()
	fl.StringVar(&in.Tenant, "tenant", "", "`NAME` of the tenant")
	fl.StringVar(&in.Seed, "seed", "", "`NAME` of the seed")
	fl.IntVar(&weight, "weight", 1, "the tenant's weight, 1 to 1000")
	fl.IntVar(&limit, "limit", 0, "slots at a time; 0 is no limit")
	return c
}

func poolPauseCommand(a *core.App) *cobra.Command {
	in := protocol.PausePool{}
	c := &cobra.Command{
		Use: "pause [ZONE]", Short: "start no session in a zone until it is resumed", Args: cobra.MaximumNArgs(1),
		Long:    "Keeps all who ask for a slot waiting, and tells them why. What runs goes on; who gave back its host, as one\nthat is parked, waits as well. It holds until `ctl pool resume`, whatever is restarted meanwhile.",
		Example: "  ctl pool pause --reason 'the model is down'",
		RunE: func(c *cobra.Command, args []string) error {
			zone, err := zoneOf(args)
			if err != nil {
				return err
			}
			in.By = core.Person()
			return changePool(c.Context(), a, zone, protocol.UpdatePausePool, in, "paused")
		},
	}
	c.Flags().StringVar(&in.Reason, "reason", "", "why: it is shown to all who wait")
	return c
}

func poolResumeCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "resume [ZONE]", Short: "start sessions again", Args: cobra.MaximumNArgs(1), Example: "  ctl pool resume",
		RunE: func(c *cobra.Command, args []string) error {
			zone, err := zoneOf(args)
			if err != nil {
				return err
			}
			return changePool(c.Context(), a, zone, protocol.UpdatePausePool, protocol.PausePool{Resume: true, By: core.Person()}, "resumed")
		},
	}
}

func changePool(ctx context.Context, a *core.App, zone, update string, arg any, done string) error {
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	var v protocol.PoolView
	err = t.Update(ctx, "change zone "+cmp.Or(zone, "default"), protocol.PoolID(zone), update, "", &v, arg)
	if err != nil {
		return conn.NoZone(zone, err)
	}
	return a.Print().Show(v, func(p *core.Printer) { p.Printf("zone %s: %s\n", v.Zone, done) })
}
