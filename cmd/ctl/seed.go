package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/workflows"
)

func seedCommand(a *app) *cobra.Command {
	return group("seed", "credentials that sessions run with",
		seedImportCommand(a), seedListCommand(a), seedShowCommand(a), seedVerifyCommand(a), seedCaptureCommand(a), seedLoginCommand(a),
		seedSetCommand(a), seedReviveCommand(a), seedDeleteCommand(a),
		seedExportCommand(a), seedRotateKeysCommand(a))
}

func seedImportCommand(a *app) *cobra.Command {
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

Also: provider name, token_command, headers, query, openai_auth; servers' cwd, env,
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
				return a.importSeed(c.Context(), args[0], bundle, give.chosen(c), force)
			}
			if dir != "" || settings != "" {
				return usage("%s: --from is the whole seed: it goes with neither a folder nor --settings", doing)
			}
			bundle, err := exported(doing, from, identity)
			if err != nil {
				return err
			}
			return a.importSeed(c.Context(), args[0], bundle, give.chosen(c), force)
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
			return nil, usage("%s: %v", doing, err).because(err)
		}
		if own = data; own == nil {
			own = []byte{}
		}
	case dir == "":
		return nil, usage("%s: neither a folder nor --settings: there is nothing to import", doing)
	}
	bundle, err := seeds.PackWith(dir, own)
	if err != nil {
		return nil, usage("%s: %v", doing, err).because(err)
	}
	return bundle, nil
}

func (a *app) importSeed(ctx context.Context, name string, bundle *seeds.Bundle, give workflows.SetSeed, force bool) error {
	if err := checkName("seed name", name); err != nil {
		return err
	}
	if err := checkGiving(give); err != nil {
		return err
	}
	doing := "import seed " + name
	for _, path := range bundle.Ignored() {
		a.note("left out: %s", clean(path))
	}
	for _, warning := range bundle.Warnings() {
		a.note("%s", clean(warning))
	}
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	if !force {
		if err := t.alone(ctx, doing, name, bundle); err != nil {
			return err
		}
	}
	worker, err := a.anyWorker(ctx, t)
	if err != nil {
		return err
	}
	stored, err := worker.PutSeed(ctx, name, bundle.Bytes())
	if err != nil {
		return apiFailure(doing, err)
	}
	put := workflows.PutSeed{Name: name, By: person(), Share: give.Share, Pools: give.Pools, Force: force, Ref: activities.SeedRef{
		Name: name, Blob: stored.Ref.Blob, Digest: stored.Ref.Digest, Kind: string(stored.Ref.Kind),
	}}
	for _, f := range stored.Manifest.Files {
		put.Files = append(put.Files, workflows.SeedFile{Path: f.Path, Mode: f.Mode, Digest: f.Digest})
	}
	var v workflows.SeedView
	err = t.updateWithStart(ctx, doing, client.StartWorkflowOptions{
		ID: workflows.SeedID(name), TaskQueue: workflows.TaskQueue, StaticSummary: "seed " + name,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, workflows.TypeSeed, workflows.SeedInput{Name: name}, workflows.UpdatePutSeed, &v, put)
	if err != nil {
		return err
	}
	t.joined(ctx, v)
	return a.print().show(v, func(p *printer) {
		p.printf("seed %s: generation %d, %s, %d files\n", v.Name, v.Generation, v.Kind, len(v.Files))
	})
}

// seed queries a seed.
func (t *temporal) seed(ctx context.Context, name string) (workflows.SeedView, error) {
	var v workflows.SeedView
	if err := checkName("seed name", name); err != nil {
		return v, err
	}
	err := t.ask(ctx, "show seed "+name, workflows.SeedID(name), workflows.QuerySeed, &v)
	if err == nil && v.Deleted {
		err = notFound("show seed %s: there is none", name).hinted("`ctl seed list` shows those there are")
	}
	return v, err
}

func seedDeleteCommand(a *app) *cobra.Command {
	var purge bool
	c := &cobra.Command{
		Use: "delete NAME", Short: "forget a seed", Args: cobra.ExactArgs(1), Example: "  ctl seed delete team --purge",
		RunE: func(c *cobra.Command, args []string) error {
			name := args[0]
			if err := checkName("seed name", name); err != nil {
				return err
			}
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			if _, err := t.seed(c.Context(), name); err != nil {
				return err
			}
			var v workflows.SeedView
			if err := t.update(c.Context(), "delete seed "+name, workflows.SeedID(name), workflows.UpdateDeleteSeed, "", &v,
				workflows.DeleteSeed{Purge: purge}); err != nil {
				return err
			}
			return a.print().show(v, func(p *printer) { p.printf("seed %s deleted\n", name) })
		},
	}
	c.Flags().BoolVar(&purge, "purge", false, "remove its encrypted bundles from the store as well")
	return c
}
