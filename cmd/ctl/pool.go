package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/workflows"
)

func poolCommand(a *app) *cobra.Command {
	return group("pool", "the slots of a zone: who has them, who waits, and whose turn it is",
		poolListCommand(a), poolShowCommand(a), poolSetCommand(a), poolPauseCommand(a), poolResumeCommand(a))
}

// pool queries a zone's host pool.
func (t *temporal) pool(ctx context.Context, zone string) (v workflows.PoolView, err error) {
	err = t.ask(ctx, "show zone "+cmp.Or(zone, "default"), workflows.PoolID(zone), workflows.QueryPool, &v)
	return v, noZone(zone, err)
}

// noZone explains the error for a zone without a host pool.
func noZone(zone string, err error) error {
	if noInventory(err) {
		return notFound("no worker has ever served zone %s", cmp.Or(zone, "default")).hinted("`ctl pool list` shows the zones there are; the first worker of a zone makes it").because(err)
	}
	return err
}

// zones lists the zones that have ever had a worker.
func (t *temporal) zones(ctx context.Context) ([]string, error) {
	infos, err := t.list(ctx, "list zones", fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflows.TypeHostPool), 1000)
	var zones []string
	for _, info := range infos {
		zones = append(zones, strings.TrimPrefix(info.GetExecution().GetWorkflowId(), "pool/"))
	}
	slices.Sort(zones)
	return zones, err
}

func poolListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "the zones, their slots, and who waits", Args: cobra.NoArgs, Example: "  ctl pool list\n  ctl pool list -o json | jq 'select(.waiting > 0)'",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			zones, err := t.zones(c.Context())
			if err != nil {
				return err
			}
			pools := []workflows.PoolView{}
			for _, zone := range zones {
				v, err := t.pool(c.Context(), zone)
				if exitOf(err) == exitNotFound {
					continue // it ended meanwhile
				}
				if err != nil {
					return err
				}
				pools = append(pools, v)
			}
			return showAll(a.print(), pools, func(p *printer) {
				var rows [][]cell
				for _, v := range pools {
					rows = append(rows, []cell{painted(bold, v.Zone), plain(len(v.Hosts)), plain(fmt.Sprintf("%d/%d", v.Used, v.Slots)), plain(v.Free),
						plain(v.Waiting), plain(v.Parked), painted(yellow, pauseText(v.Paused))})
				}
				p.table([]string{"ZONE", "HOSTS", "USED", "FREE", "WAITING", "PARKED", "PAUSED"}, rows)
			})
		},
	}
}

func poolShowCommand(a *app) *cobra.Command {
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
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			v, err := t.pool(c.Context(), zone)
			if err != nil {
				return err
			}
			return a.print().show(v, func(p *printer) { showPool(p, v) })
		},
	}
}

func zoneOf(args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	return args[0], checkName("zone", args[0])
}

// poolWaitText says why a pool that was restarted grants no slots yet.
func poolWaitText(w *workflows.WaitingView) string {
	if w == nil {
		return ""
	}
	return clean(fmt.Sprintf("it tries to %s, and cannot: %s; next attempt %s", w.Doing, w.Error, attemptsText(w)))
}

func showPool(p *printer, v workflows.PoolView) {
	p.fields(plain("zone"), painted(bold, v.Zone), plain("paused"), painted(yellow, pauseText(v.Paused)), plain("grants no slot"), painted(yellow, poolWaitText(v.WaitingFor)),
		plain("slots"), plain(fmt.Sprintf("%d of %d used, %d free", v.Used, v.Slots, v.Free)), plain("waiting"), plain(v.Waiting), plain("parked"), plain(v.Parked),
		plain("grants"), plain(v.Grants))
	var rows [][]cell
	for _, h := range v.Hosts {
		rows = append(rows, []cell{painted(bold, h.Name), painted(hostColour(h.State), h.State), plain(fmt.Sprintf("%d/%d", h.Used, h.Slots))})
	}
	p.printf("\n")
	p.table([]string{"HOST", "STATE", "USED"}, rows)
	for _, h := range v.Hosts {
		if h.Health != nil {
			p.printf("%s\n", p.paint(yellow, fmt.Sprintf("host %s is %s", h.Name, healthText(h.Name, h.Health))))
		}
	}
	if len(v.Tenants) > 0 {
		rows = nil
		for _, c := range v.Tenants {
			rows = append(rows, []cell{painted(bold, c.Name), plain(c.Weight), plain(limitText(c.Limit)), plain(c.Used), plain(c.Waiting)})
		}
		p.printf("\n")
		p.table([]string{"TENANT", "WEIGHT", "LIMIT", "USED", "WAITING"}, rows)
	}
	if len(v.Seeds) > 0 {
		rows = nil
		for _, s := range v.Seeds {
			rows = append(rows, []cell{painted(bold, s.Name), plain(s.Limit), plain(s.Used)})
		}
		p.printf("\n")
		p.table([]string{"SEED", "LIMIT", "USED"}, rows)
	}
	if len(v.Queue) > 0 {
		rows = nil
		for _, w := range v.Queue {
			rows = append(rows, []cell{plain(w.Position), painted(bold, w.Session), plain(w.Tenant), plain(w.Priority), plain(cmp.Or(w.Host, strings.Join(w.Selects, " "))),
				plain(w.Since), plain(oneLine(w.Reason, 100))})
		}
		p.printf("\n")
		p.table([]string{"PLACE", "SESSION", "TENANT", "PRIORITY", "WANTS", "SINCE", "WAITS"}, rows)
	}
}

func limitText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// pauseText says who paused a pool, when and why. It is empty for a pool that is not
// paused.
func pauseText(p *workflows.PoolPause) string {
	if p == nil {
		return ""
	}
	text := "since " + p.Since.UTC().Format("2006-01-02 15:04 MST")
	if p.By != "" {
		text += " by " + p.By
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return clean(text)
}

func poolSetCommand(a *app) *cobra.Command {
	var in workflows.SetPool
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
				return usage("give --tenant or --seed")
			}
			if c.Flags().Changed("weight") {
				in.Weight = &weight
			}
			if c.Flags().Changed("limit") {
				in.Limit = &limit
			}
			if in.Weight == nil && in.Limit == nil {
				return usage("give --weight or --limit")
			}
			in.By = person()
			return a.changePool(c.Context(), zone, workflows.UpdateSetPool, in, cmp.Or(in.Tenant, in.Seed)+" set")
		},
	}
	fl := c.Flags()
	fl.StringVar(&in.Tenant, "tenant", "", "`NAME` of the tenant")
	fl.StringVar(&in.Seed, "seed", "", "`NAME` of the seed")
	fl.IntVar(&weight, "weight", 1, "the tenant's weight, 1 to 1000")
	fl.IntVar(&limit, "limit", 0, "slots at a time; 0 is no limit")
	return c
}

func poolPauseCommand(a *app) *cobra.Command {
	in := workflows.PausePool{}
	c := &cobra.Command{
		Use: "pause [ZONE]", Short: "start no session in a zone until it is resumed", Args: cobra.MaximumNArgs(1),
		Long:    "Keeps all who ask for a slot waiting, and tells them why. What runs goes on; who gave back its host, as one\nthat is parked, waits as well. It holds until `ctl pool resume`, whatever is restarted meanwhile.",
		Example: "  ctl pool pause --reason 'the model is down'",
		RunE: func(c *cobra.Command, args []string) error {
			zone, err := zoneOf(args)
			if err != nil {
				return err
			}
			in.By = person()
			return a.changePool(c.Context(), zone, workflows.UpdatePausePool, in, "paused")
		},
	}
	c.Flags().StringVar(&in.Reason, "reason", "", "why: it is shown to all who wait")
	return c
}

func poolResumeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "resume [ZONE]", Short: "start sessions again", Args: cobra.MaximumNArgs(1), Example: "  ctl pool resume",
		RunE: func(c *cobra.Command, args []string) error {
			zone, err := zoneOf(args)
			if err != nil {
				return err
			}
			return a.changePool(c.Context(), zone, workflows.UpdatePausePool, workflows.PausePool{Resume: true, By: person()}, "resumed")
		},
	}
}

func (a *app) changePool(ctx context.Context, zone, update string, arg any, done string) error {
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	var v workflows.PoolView
	err = t.update(ctx, "change zone "+cmp.Or(zone, "default"), workflows.PoolID(zone), update, "", &v, arg)
	if err != nil {
		return noZone(zone, err)
	}
	return a.print().show(v, func(p *printer) { p.printf("zone %s: %s\n", v.Zone, done) })
}

// canBePlaced checks, before anything starts, that some host can ever meet the selectors.
func (a *app) canBePlaced(ctx context.Context, t *temporal, opt workflows.SessionOptions) error {
	if opt.Host != "" || len(opt.Labels)+len(opt.Select) == 0 {
		return nil
	}
	var v workflows.PlaceView
	err := t.ask(ctx, "find a host", workflows.PoolID(opt.Zone), workflows.QueryPlace, &v, workflows.PlaceQuery{Labels: opt.Labels, Select: opt.Select})
	if noInventory(err) || errors.Is(err, context.DeadlineExceeded) {
		return nil // the session waits until there are hosts
	}
	if err == nil && v.Never != nil {
		return failureExit("find a host", v.Never)
	}
	return err
}
