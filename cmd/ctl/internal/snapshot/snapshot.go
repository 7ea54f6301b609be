package snapshot

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// Command is `ctl snapshot`.
func Command(a *core.App) *cobra.Command {
	return core.Group("snapshot", "what it takes to go on elsewhere",
		createCommand(a), listCommand(a), showCommand(a), restoreCommand(a), exportCommand(a),
		deleteCommand(a), pruneCommand(a), checkCommand(a))
}

func createCommand(a *core.App) *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use: "create ID", Short: "take a snapshot of a session now", Args: cobra.ExactArgs(1),
		Long: `Takes a snapshot of a session now, also in the middle of a turn, which goes on meanwhile.
Waits until it is whole: in the store, read back, and searched for secrets.
Exit 1 if it could not be taken; the last good one stays what it is.`,
		Example: "  ctl snapshot create release-42",
		RunE: func(c *cobra.Command, args []string) error {
			return createSnapshot(c.Context(), a, args[0], noWait)
		},
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it is whole")
	return c
}

func createSnapshot(ctx context.Context, a *core.App, id string, noWait bool) error {
	if err := core.CheckName("session id", id); err != nil {
		return err
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	acc, kept, err := conn.AskSnapshot(ctx, t, id)
	if err != nil {
		return err
	}
	if kept || noWait {
		return a.Print().Show(acc, func(p *core.Printer) {
			if kept {
				p.Printf("%s: kept until a worker is up\n", id)
				return
			}
			p.Printf("%s: snapshot %d is being taken\n", id, acc.N)
		})
	}
	m, err := conn.TakenSnapshot(ctx, a, t, acc)
	if err != nil {
		return err
	}
	return a.Print().Show(m, func(p *core.Printer) {
		p.Printf("%s  %s in %d files, %s new to the store\n", p.Paint(core.Bold, m.ID), core.Size(m.Bytes), m.Files, core.Size(m.AddedBytes))
	})
}

func listCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "list [ID]", Short: "snapshots of a session, or of all, oldest first", Args: cobra.MaximumNArgs(1),
		Long: `Lists the snapshots of a session, or of all that the store holds, oldest first.
One that is incomplete has a damaged manifest, and is never used; of one that was not
finished, or is just being taken, there is none to list.
FILES counts folders and links too, SIZE is what it holds, ADDED what came into the store
with it. One that was "left on a host" was made of what a session had left on a host that it
had gone away from, before that was removed there: no session goes on from it by itself, but
'restore' and 'export' take it.`,
		Example: "  ctl snapshot list release-42\n  ctl snapshot list -o json",
		RunE: func(c *cobra.Command, args []string) error {
			session := ""
			if len(args) > 0 {
				if session = args[0]; core.CheckName("session id", session) != nil {
					return core.CheckName("session id", session)
				}
			}
			t, worker, err := conn.StoreWorker(c.Context(), a)
			if err != nil {
				return err
			}
			return listSnapshots(c.Context(), a, t, worker, session)
		},
	}
}

func listSnapshots(ctx context.Context, a *core.App, t *conn.Conn, worker *api.Client, session string) error {
	p, listed := a.Print(), 0
	rows := [][]core.Cell{}
	for m, err := range worker.Snapshots(ctx, session) {
		if err != nil {
			return conn.APIFailure("list snapshots", err)
		}
		listed++
		if p.JSON {
			if err := p.Show(m, nil); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, snapshotRow(m))
	}
	if listed == 0 && session != "" {
		if err := hasSession(ctx, t, "list snapshots of session "+session, session); err != nil {
			return err
		}
	}
	if !p.JSON {
		p.Table([]string{"SNAPSHOT", "TURN", "TAKEN", "FILES", "SIZE", "ADDED", ""}, rows)
	}
	return nil
}

// hasSession refuses an unknown session. Snapshots outlive sessions, so it is called only
// for ids without any.
func hasSession(ctx context.Context, t *conn.Conn, doing, id string) error {
	_, err := t.DescribeWorkflowExecution(ctx, protocol.SessionID(id), "")
	if err = t.Explain(ctx, doing, err); core.ExitCode(err) == core.ExitNotFound {
		return core.NotFound("%s: there is no such session, and no snapshot of one", doing).Hinted("`ctl session list` and `ctl snapshot list` show what there is")
	}
	return err
}

func snapshotRow(m snapshots.Manifest) []core.Cell {
	why := "incomplete"
	if m.Newer() {
		why = "made by a newer version"
	}
	if !m.Complete {
		return []core.Cell{core.Painted(core.Bold, m.ID), core.Plain(""), core.Plain(m.CreatedAt), core.Plain(""), core.Plain(""), core.Plain(""), core.Painted(core.Red, why)}
	}
	return []core.Cell{core.Painted(core.Bold, m.ID), core.Plain(m.Turn), core.Plain(m.CreatedAt), core.Plain(m.Files), core.Plain(core.Size(m.Bytes)), core.Plain(core.Size(m.AddedBytes)), core.Plain(strings.Join(oddities(m), ", "))}
}

// oddities lists what a person should know before using a snapshot.
func oddities(m snapshots.Manifest) (out []string) {
	if m.Masked > 0 {
		out = append(out, fmt.Sprintf("%d secrets masked", m.Masked))
	}
	if m.LeftOutCount > 0 {
		out = append(out, fmt.Sprintf("%d left out", m.LeftOutCount))
	}
	if m.UnstableCount > 0 {
		out = append(out, fmt.Sprintf("%d changed while they were read", m.UnstableCount))
	}
	if m.Running {
		out = append(out, "within the turn")
	}
	if m.Left {
		out = append(out, "left on a host")
	}
	return out
}

func showCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "show SNAP", Short: "what a snapshot holds, and how its session was set up", Args: cobra.ExactArgs(1),
		Example: "  ctl snapshot show release-42.snap-20260102t030405-0a1b2c",
		RunE: func(c *cobra.Command, args []string) error {
			m, _, _, err := snapshot(c.Context(), a, args[0])
			if err != nil {
				return err
			}
			return a.Print().Show(m, func(p *core.Printer) { showSnapshot(p, m) })
		},
	}
}

func snapshot(ctx context.Context, a *core.App, id string) (snapshots.Manifest, *conn.Conn, *api.Client, error) {
	var m snapshots.Manifest
	if err := checkSnapshot(id); err != nil {
		return m, nil, nil, err
	}
	t, worker, err := conn.StoreWorker(ctx, a)
	if err != nil {
		return m, nil, nil, err
	}
	m, err = worker.Snapshot(ctx, id)
	return m, t, worker, conn.APIFailure("find snapshot "+id, err)
}

// checkSnapshot refuses what cannot be an id.
func checkSnapshot(id string) error {
	if _, err := snapshots.SessionOf(id); err != nil {
		return core.Usage("%q is not the id of a snapshot", id).Hinted("`ctl snapshot list` shows them: SESSION.snap-…")
	}
	return nil
}

func showSnapshot(p *core.Printer, m snapshots.Manifest) {
	state := core.Painted(core.Green, "complete")
	switch {
	case m.Newer():
		state = core.Painted(core.Red, "made by a newer version: this worker can neither use nor delete it")
	case !m.Complete:
		state = core.Painted(core.Red, "incomplete: its manifest is damaged; it is never used")
	}
	p.Fields(core.Plain("id"), core.Painted(core.Bold, m.ID), core.Plain("session"), core.Plain(m.Session), core.Plain("state"), state,
		core.Plain("turn"), core.Plain(m.Turn), core.Plain("taken"), core.Plain(m.CreatedAt), core.Plain("took"), core.Plain(m.Took), core.Plain("thread"), core.Plain(m.ThreadID),
		core.Plain("codex"), core.Plain(m.CodexVersion), core.Plain("host"), core.Plain(m.Host), core.Plain("folder"), core.Plain(m.CWD), core.Plain("sandbox"), core.Plain(m.Sandbox), core.Plain("approval policy"), core.Plain(m.ApprovalPolicy),
		core.Plain("model"), core.Plain(m.Model), core.Plain("effort"), core.Plain(m.Effort), core.Plain("work"), core.Plain(show.WorkText(m)), core.Plain("exclude"), core.Plain(strings.Join(m.Exclude, "  ")),
		core.Plain("files"), core.Plain(m.Files), core.Plain("size"), core.Plain(core.Size(m.Bytes)), core.Plain("stored"), core.Plain(core.Size(m.StoredBytes)+", "+core.Size(m.AddedBytes)+" new with it"),
		core.Plain("read"), core.Plain(core.Size(m.ReadBytes)+" from the host"), core.Plain("remarks"), core.Painted(core.Yellow, strings.Join(oddities(m), ", ")))
	for _, l := range m.LeftOut {
		p.Printf("%s  %s (%s)\n", p.Paint(core.Dim, "left out"), core.Clean(l.Path), core.Clean(l.Why))
	}
	for _, path := range m.Unstable {
		p.Printf("%s  %s\n", p.Paint(core.Dim, "changed "), core.Clean(path))
	}
}

func deleteCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "delete SNAP", Short: "remove a snapshot", Args: cobra.ExactArgs(1),
		Long: `Removes a snapshot from the store. Refused (exit 6), with who holds it, is one that an open
session goes on from, the newest good one of such, and one that a fork is to begin with
which has none of its own yet. Where the session does not answer nobody can know: exit 4.
What no other snapshot needs of it leaves the store with a later 'ctl snapshot prune'.`,
		Example: "  ctl snapshot delete release-42.snap-20260102t030405-0a1b2c",
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkSnapshot(args[0]); err != nil {
				return err
			}
			_, worker, err := conn.StoreWorker(c.Context(), a)
			if err != nil {
				return err
			}
			m, err := worker.DeleteSnapshot(c.Context(), args[0])
			if err != nil {
				return conn.APIFailure("delete snapshot "+args[0], err)
			}
			return a.Print().Show(m, func(p *core.Printer) { p.Printf("snapshot %s deleted\n", m.ID) })
		},
	}
}
