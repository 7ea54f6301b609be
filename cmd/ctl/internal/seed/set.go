package seed

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/start"
	"fairlead.dev/fairlead/internal/protocol"
)

// giving are flags for how sessions get a seed.
type giving struct {
	share int
	pools []string
}

func (g *giving) add(c *cobra.Command) {
	c.Flags().IntVar(&g.share, "share", 0, "at most `N` sessions at a time; 0 means any number (a login that rotates is never shared)")
	c.Flags().StringSliceVar(&g.pools, "pool", nil, "put it into this `POOL` and take it out of all others; repeatable, '' for none")
}

// chosen returns the settings whose flags were given.
func (g *giving) chosen(c *cobra.Command) protocol.SetSeed {
	set := protocol.SetSeed{By: core.Person()}
	if c.Flags().Changed("share") {
		set.Share = &g.share
	}
	if c.Flags().Changed("pool") {
		pools := []string{}
		for _, p := range g.pools {
			if p = strings.TrimSpace(p); p != "" {
				pools = append(pools, p)
			}
		}
		set.Pools = &pools
	}
	return set
}

func checkGiving(set protocol.SetSeed) error {
	if set.Share != nil && *set.Share < 0 {
		return core.Usage("--share %d: want a number of sessions, or 0 for any number", *set.Share)
	}
	if set.Pools == nil {
		return nil
	}
	for _, p := range *set.Pools {
		if err := core.CheckName("pool name", p); err != nil {
			return err
		}
	}
	return nil
}

func setCommand(a *core.App) *cobra.Command {
	var give giving
	var bound bounding
	var policy, amend, way string
	c := &cobra.Command{
		Use: "set NAME", Short: "who may have a seed, what judges, bounds and is offered there", Args: cobra.ExactArgs(1),
		Long: `A session that is started with --seed-pool POOL gets the healthy seed of that pool that
was used least recently, and waits in line where none is free. The policy of a seed judges
in every session that gets it from now on, beside that one's own: the stricter word counts.

Bounds are what sessions with the seed may ask for at most. A session that asks for more is
refused before anything is done on its host. The bounds that are given replace all former
ones. Who starts a session cannot lift them.

--credentials is how sessions get the credential that do not say it themselves.`,
		Example: "  ctl seed set key --share 4\n  ctl seed set team-1 --pool logins --pool night\n  ctl seed set team-1 --policy policy.yaml\n  ctl seed set team-1 --max-sandbox workspace-write --allow-approval-policy on-request --no-hooks\n  ctl seed set key --credentials gateway",
		RunE: func(c *cobra.Command, args []string) error {
			set := give.chosen(c)
			if c.Flags().Changed("policy") {
				text := ""
				if policy != "none" {
					var err error
					if text, err = start.ReadPolicy(a, policy); err != nil {
						return err
					}
				}
				set.Policy = &text
			}
			switch amend {
			case "":
			case "on", "off":
				on := amend == "on"
				set.Amend = &on
			default:
				return core.Usage("set seed %s: --amendments %q: want on or off", args[0], amend)
			}
			switch way {
			case "":
			case protocol.NoDefault, protocol.CredentialsPlanted, protocol.CredentialsGateway:
				set.Credentials = &way
			default:
				return core.Usage("set seed %s: --credentials %q: want planted, gateway or none", args[0], way)
			}
			var err error
			if set.Bounds, err = bound.chosen(c); err != nil {
				return err
			}
			if set.Share == nil && set.Pools == nil && set.Policy == nil && set.Amend == nil && set.Bounds == nil && set.Credentials == nil {
				return core.Usage("set seed %s: none of --share, --pool, --policy, --amendments, --credentials and the bounds: there is nothing to set", args[0])
			}
			if err := checkGiving(set); err != nil {
				return err
			}
			return changeSeed(a, c, args[0], "set", protocol.UpdateSetSeed, set)
		},
	}
	give.add(c)
	bound.add(c)
	c.Flags().StringVar(&policy, "policy", "", "apply the policy in `FILE` to every session with this seed; none removes it")
	c.Flags().StringVar(&way, "credentials", "", "`planted|gateway|none`: how sessions that do not say --credentials get the credential; none: as the organisation says (seeds.credentials of the workers' configuration)")
	c.Flags().StringVar(&amend, "amendments", "", "`on|off`: its sessions are offered decisions that change codex's rules for good (off at first)")
	return c
}

func reviveCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "revive NAME", Short: "go on with the stored login of a suspect or recovering seed", Args: cobra.ExactArgs(1),
		Long: `Says that the stored generation is what there is. What a lost host may have made of the
login is given up, and whoever waits for the seed gets it. If codex did rotate the login
there, the stored one no longer works: then log in anew and import it.`,
		Example: "  ctl seed revive team",
		RunE: func(c *cobra.Command, args []string) error {
			return changeSeed(a, c, args[0], "revive", protocol.UpdateReviveSeed, protocol.ReviveSeed{By: core.Person()})
		},
	}
}

// changeSeed updates an existing seed, and prints it.
func changeSeed(a *core.App, c *cobra.Command, name, what, update string, arg any) error {
	t, err := conn.Open(c.Context(), a)
	if err != nil {
		return err
	}
	if _, err := t.Seed(c.Context(), name); err != nil {
		return err
	}
	var v protocol.SeedView
	if err := t.Update(c.Context(), what+" seed "+name, protocol.SeedID(name), update, "", &v, arg); err != nil {
		return err
	}
	joined(c.Context(), t, v)
	return a.Print().Show(v, func(p *core.Printer) { p.Printf("seed %s: %s, %s\n", v.Name, v.Health, seedState(v)) })
}

// joinWait bounds the wait for a pool to list a seed.
const joinWait = 5 * time.Second

// joined waits until a seed's pools list it, for the next command. After joinWait they
// still will.
func joined(ctx context.Context, t *conn.Conn, v protocol.SeedView) {
	ctx, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	for _, name := range v.Pools {
		for {
			var pool protocol.SeedPoolView
			err := t.Query(ctx, "find seed pool "+name, protocol.SeedPoolID(name), protocol.QuerySeedPool, &pool)
			in := func(m protocol.SeedPoolMember) bool { return m.Name == v.Name }
			if err == nil && slices.ContainsFunc(pool.Seeds, in) {
				break
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	}
}
