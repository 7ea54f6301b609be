package session

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/cmd/ctl/internal/start"
	"fairlead.dev/fairlead/cmd/internal/restores"
	"fairlead.dev/fairlead/internal/budget"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows/session"
)

func forkCommand(a *core.App) *cobra.Command {
	var f start.Flags
	c := &cobra.Command{
		Use: "fork ID", Short: "go on from where a session is, as a second one", Args: cobra.ExactArgs(1),
		Long: `Takes a snapshot of a session and starts a new one from it, as 'ctl snapshot restore' does; of
a session that is parked or closed its newest good snapshot serves. The first one goes on as
it was. What the new one uses is counted from nothing, and so are its budgets. Prints the new
session's id.`,
		Example: "  ctl session fork release-42 --id release-42b",
		RunE: func(c *cobra.Command, args []string) error {
			opt, id, err := GoesOn(a, &f, c.Flags().Changed)
			if err == nil {
				err = core.CheckName("session id", args[0])
			}
			if err != nil {
				return err
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			if err := unused(c.Context(), t, id); err != nil {
				return err
			}
			m, err := newestSnapshot(c.Context(), a, t, args[0])
			if err != nil {
				return err
			}
			return RestoreSnapshot(c.Context(), a, t, m, id, opt, f.Budget, c.Flags().Changed)
		},
	}
	f.Add(c, "")
	GoesOnFlags(c)
	return c
}

// notToGoOn lists the flags that fill a new session's work folder. After a restore, the
// folder is the snapshot's.
var notToGoOn = []string{"dir", "repo", "ref", "depth", "git-token-file", "git-user", "forward-agent", "forward-key", "git-known-hosts", "clone-timeout", "upload", "from-snapshot"}

// GoesOnFlags adapts the flags of a session's start to one that continues from a snapshot.
func GoesOnFlags(c *cobra.Command) {
	asItWasByDefault(c)
	fl := c.Flags()
	for _, name := range notToGoOn {
		fl.Lookup(name).Hidden = true
	}
	fl.Lookup("snapshot").Usage = strings.Replace(fl.Lookup("snapshot").Usage, "what snapshots hold", "what the new session's own snapshots hold", 1)
}

func mayGoOn(f *start.Flags, given func(flag string) bool) error {
	for _, name := range notToGoOn {
		switch {
		case !given(name):
		case name == "dir":
			return core.Usage("--dir: a snapshot is restored into a folder of its own, never over one of yours")
		default:
			return core.Usage("--%s: a session that goes on from a snapshot has the work folder of that snapshot", name).
				Hinted("leave it out, or begin a new session with `ctl session start --%s`", name)
		}
	}
	if start.IsSnapshot(f.GoOn.Work) {
		return core.Usage("--snapshot %s: here it says what the new session's own snapshots hold: full, git or none", f.GoOn.Work).
			Hinted("`ctl snapshot restore %s` goes on from that one; leave --snapshot out", f.GoOn.Work)
	}
	return nil
}

// asItWasByDefault replaces the defaults in --help for settings that come from the
// snapshot.
func asItWasByDefault(c *cobra.Command) {
	for _, name := range []string{"sandbox", "approval-policy", "model", "effort", "credentials", "on-interrupt", "on-auth", "snapshot", "snapshot-exclude", "tools", "policy", "network"} {
		flag := c.Flags().Lookup(name)
		if flag.Value.Type() == "string" { // others show no default
			flag.DefValue = ""
		}
		flag.Usage = strings.NewReplacer(", the default)", ")", "; the default with a broker)", ")", " (default: as the sandbox or the profile sets it)", "").Replace(flag.Usage) + " (default: as it was)"
	}
	c.Flags().Lookup("seed").Usage += " (default: that of the session it is of)"
}

// GoesOn returns the options and the id of a session that continues from a snapshot.
func GoesOn(a *core.App, f *start.Flags, given func(flag string) bool) (opt session.Options, id string, err error) {
	if err := mayGoOn(f, given); err != nil {
		return opt, "", err
	}
	if opt, err = start.Options(a, f); err != nil {
		return opt, "", err
	}
	id, err = f.SessionID()
	return opt, id, err
}

// unused refuses an id in use, before anything is done.
func unused(ctx context.Context, t *conn.Conn, id string) error {
	switch _, err := t.DescribeWorkflowExecution(ctx, protocol.SessionID(id), ""); {
	case err == nil && t.RefusedStart(ctx, protocol.SessionID(id)):
		return nil
	case err == nil:
		return core.Refused("start session %s: the id is in use", id).Hinted("choose another id")
	case core.ExitCode(t.Explain(ctx, "look for session "+id, err)) == core.ExitNotFound:
		return nil
	default:
		return t.Explain(ctx, "look for session "+id, err)
	}
}

// newestSnapshot returns a snapshot to fork from: a new one if the session is on a host,
// otherwise the newest usable one.
func newestSnapshot(ctx context.Context, a *core.App, t *conn.Conn, session string) (newest snapshots.Manifest, err error) {
	doing := "fork session " + session
	v, err := live.Session(ctx, a, t, session)
	if err != nil && core.ExitCode(err) != core.ExitNotFound {
		return newest, err
	}
	if err == nil && restores.Takes(v) {
		acc, kept, err := conn.AskSnapshot(ctx, t, session)
		if err != nil || kept {
			return newest, errOr(err, core.Unreachable("%s: no worker is up; the snapshot is taken when one is", doing).Hinted("repeat the command then"))
		}
		return conn.TakenSnapshot(ctx, a, t, acc)
	}
	worker, err := conn.AnyWorker(ctx, a, t)
	if err != nil {
		return newest, err
	}
	var all []snapshots.Manifest
	for m, err := range worker.Snapshots(ctx, session) {
		if err != nil {
			return newest, conn.APIFailure(doing, err)
		}
		all = append(all, m)
	}
	return restores.Newest(doing, v, all)
}

func errOr(err error, or error) error {
	if err != nil {
		return err
	}
	return or
}

func RestoreSnapshot(ctx context.Context, a *core.App, t *conn.Conn, m snapshots.Manifest, id string, opt session.Options, bounds string, given func(flag string) bool) error {
	var asked *protocol.Budget
	if bounds != "" {
		b, err := budget.Parse(bounds)
		if err != nil {
			return err
		}
		asked = &b
	}
	seedless := opt.Seed == "" && opt.SeedPool == ""
	known, err := restores.Settings(ctx, t.Conn, m, &opt, asked, func(flag string) bool {
		if flag == restores.TeamTools {
			flag = "tools" // which names both kinds
		}
		return given(flag)
	})
	if err != nil {
		return err
	}
	if seedless && !known {
		a.Note("the session of the snapshot, %s, is no longer known; without --seed the new session has no credentials", m.Session)
	}
	if err := start.KeepGiven(ctx, a, t, start.OfSession(id), &opt); err != nil {
		return err
	}
	if _, err := start.Session(ctx, t, id, opt, nil); err != nil {
		return err
	}
	return a.Print().Show(map[string]string{"id": id}, func(p *core.Printer) { p.Printf("%s\n", id) })
}
