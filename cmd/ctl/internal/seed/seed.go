package seed

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/followup"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/teamtool"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/workflows/seed"
)

// Command is `ctl seed`.
func Command(a *core.App) *cobra.Command {
	return core.Group("seed", "credentials that sessions run with",
		importCommand(a), listCommand(a), showCommand(a), verifyCommand(a), captureCommand(a), loginCommand(a),
		setCommand(a), reviveCommand(a), deleteCommand(a),
		exportCommand(a), rotateKeysCommand(a))
}

func importCommand(a *core.App) *cobra.Command {
	var settings, from, identity string
	var force bool
	var give giving
	c := &cobra.Command{
		Use: "import NAME [DIR]", Short: "keep a codex home's credentials, encrypted", Args: cobra.RangeArgs(1, 2),
		Long: `Packs auth.json, config.toml, AGENTS.md, rules, skills and prompts of a codex home,
checks them, and has a worker encrypt and keep them. Importing again makes a new generation,
and ends what was wrong with the former one; while a session holds a login that rotates,
it is refused.

--settings FILE adds to every session's config.toml what a person would not want to
write there by hand. The file is encrypted with the rest, and what it says goes into a
file that only the login user of a host may read, never into an environment (but for what
a server's env names, which is for that server):

  model: gpt-5.5
  provider: {base_url: "https://models.example/v1", bearer_token: …}
  mcp_servers:
    docs:   {command: /usr/bin/docs-mcp, args: [--stdio], startup_timeout: 20s}
    search: {url: "https://mcp.example/mcp", bearer_token: …, enabled_tools: [find]}
  features: {multi_agent: false}
  trust: never
  tools:       # of your own, for each session with the seed: see --tools of 'ctl run'
    - {name: lookup_ticket, description: …, webhook: "https://tools.example.com/lookup"}
  follow_ups:  # sessions that start after turns of each session with the seed: see --follow-up of 'ctl run'
    - {name: review, after: {turns: 1}, prompt: "Review what you have just done."}

Also: fallback, with providers that the model gateway asks when this one cannot answer;
provider name, token_command, headers, query, openai_auth; servers' cwd, env,
headers, headers_helper, enabled, required, tool_timeout, disabled_tools; effort,
marketplaces, plugins. What it says, config.toml must not say too.
Sessions switch off codex's features plugins, apps, remote_plugin, skill_search and
goals (with it codex begins turns that nobody asked for) where neither file names them.

--from FILE takes back what 'ctl seed export' wrote; --identity is a file on this machine.`,
		Example: "  ctl seed import team ~/.codex\n  ctl seed import models --settings models.yaml\n  ctl seed import team --from team.seed.age --identity me.txt",
		RunE: func(c *cobra.Command, args []string) error {
			dir := ""
			if len(args) == 2 {
				dir = args[1]
			}
			doing := "import seed " + args[0]
			if from == "" {
				bundle, err := packSeed(doing, dir, settings)
				if err != nil {
					return err
				}
				return importSeed(c.Context(), a, args[0], bundle, give.chosen(c), force)
			}
			if dir != "" || settings != "" {
				return core.Usage("%s: --from has the whole seed, so give neither a folder nor --settings with it", doing)
			}
			bundle, err := exported(doing, from, identity)
			if err != nil {
				return err
			}
			return importSeed(c.Context(), a, args[0], bundle, give.chosen(c), force)
		},
	}
	c.Flags().StringVar(&from, "from", "", "`file` that 'ctl seed export' wrote")
	c.Flags().StringVar(&identity, "identity", "", "age identity `file` that opens what --from names, on this machine")
	give.add(c)
	c.Flags().BoolVar(&force, "force", false, "also where this login is another seed already, or codex has rotated it since it was imported first")
	c.Flags().StringVar(&settings, "settings", "", "YAML file with what goes into every session's config.toml")
	return c
}

// packSeed makes a bundle of a folder, a settings file, or both.
func packSeed(doing, dir, settings string) (*seeds.Bundle, error) {
	var own []byte
	switch {
	case settings != "":
		data, err := os.ReadFile(settings)
		if err != nil {
			return nil, core.Usage("%s: %v", doing, err).Because(err)
		}
		if own = data; own == nil {
			own = []byte{}
		}
	case dir == "":
		return nil, core.Usage("%s: neither a folder nor --settings: there is nothing to import", doing)
	}
	bundle, err := seeds.PackWith(dir, own)
	if err != nil {
		return nil, core.Usage("%s: %v", doing, err).Because(err)
	}
	return bundle, nil
}

func importSeed(ctx context.Context, a *core.App, name string, bundle *seeds.Bundle, give protocol.SetSeed, force bool) error {
	if err := core.CheckName("seed name", name); err != nil {
		return err
	}
	if err := checkGiving(give); err != nil {
		return err
	}
	doing := "import seed " + name
	tools, err := toolsOf(doing, bundle)
	if err != nil {
		return err
	}
	rules, err := bundle.FollowUps()
	if err != nil {
		return core.Usage("%s: %v", doing, err).Because(err).Hinted(followup.Example)
	}
	for _, path := range bundle.Ignored() {
		a.Note("left out: %s", core.Clean(path))
	}
	for _, warning := range bundle.Warnings() {
		a.Note("%s", core.Clean(warning))
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	if !force {
		if err := alone(ctx, t, doing, name, bundle); err != nil {
			return err
		}
	}
	worker, err := conn.AnyWorker(ctx, a, t)
	if err != nil {
		return err
	}
	stored, err := worker.PutSeed(ctx, name, bundle.Bytes())
	if err != nil {
		return conn.APIFailure(doing, err)
	}
	put := protocol.PutSeed{Name: name, By: core.Person(), Share: give.Share, Pools: give.Pools, Force: force, Account: seeds.AccountOf(bundle), Tools: teamtool.Shown(tools), FollowUps: protocol.ShowFollowUps(rules), Ref: protocol.SeedRef{
		Name: name, Blob: stored.Ref.Blob, Digest: stored.Ref.Digest, Kind: string(stored.Ref.Kind),
	}}
	for _, f := range stored.Manifest.Files {
		put.Files = append(put.Files, protocol.SeedFile{Path: f.Path, Mode: f.Mode, Digest: f.Digest})
	}
	var v protocol.SeedView
	err = t.UpdateWithStart(ctx, doing, client.StartWorkflowOptions{
		ID: protocol.SeedID(name), TaskQueue: protocol.TaskQueue, StaticSummary: "seed " + name,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, protocol.TypeSeed, seed.Input{Name: name}, protocol.UpdatePutSeed, &v, put)
	if err != nil {
		return err
	}
	joined(ctx, t, v)
	return a.Print().Show(v, func(p *core.Printer) {
		p.Printf("seed %s: generation %d, %s, %d files\n", v.Name, v.Generation, v.Kind, len(v.Files))
	})
}

// toolsOf reads the tools that a seed gives to its sessions.
func toolsOf(doing string, bundle *seeds.Bundle) ([]protocol.TeamTool, error) {
	file, err := bundle.Tools()
	var tools []protocol.TeamTool
	if err == nil {
		tools, err = teamtool.OfSeed(file)
	}
	if err != nil {
		return nil, core.Usage("%s: tools: %v", doing, err).Hinted("docs/how-to/give-codex-tools-of-your-own.md shows such tools")
	}
	return tools, nil
}

func deleteCommand(a *core.App) *cobra.Command {
	var purge bool
	c := &cobra.Command{
		Use: "delete NAME", Short: "forget a seed", Args: cobra.ExactArgs(1), Example: "  ctl seed delete team --purge",
		RunE: func(c *cobra.Command, args []string) error {
			name := args[0]
			if err := core.CheckName("seed name", name); err != nil {
				return err
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			if _, err := t.Seed(c.Context(), name); err != nil {
				return err
			}
			var v protocol.SeedView
			if err := t.Update(c.Context(), "delete seed "+name, protocol.SeedID(name), protocol.UpdateDeleteSeed, "", &v,
				protocol.DeleteSeed{Purge: purge}); err != nil {
				return err
			}
			return a.Print().Show(v, func(p *core.Printer) { p.Printf("seed %s deleted\n", name) })
		},
	}
	c.Flags().BoolVar(&purge, "purge", false, "remove its encrypted bundles from the store as well")
	return c
}
