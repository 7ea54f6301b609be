package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows"
)

func snapshotCommand(a *app) *cobra.Command {
	return group("snapshot", "what it takes to go on elsewhere",
		snapshotCreateCommand(a), snapshotListCommand(a), snapshotShowCommand(a), snapshotRestoreCommand(a), snapshotExportCommand(a),
		snapshotDeleteCommand(a), snapshotPruneCommand(a), snapshotCheckCommand(a))
}

// snapshotWait is how long ctl waits for a snapshot to be taken.
const snapshotWait = 30 * time.Minute

func snapshotCreateCommand(a *app) *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use: "create ID", Short: "take a snapshot of a session now", Args: cobra.ExactArgs(1),
		Long: `Takes a snapshot of a session now, also in the middle of a turn, which goes on meanwhile.
Waits until it is whole: in the store, read back, and searched for secrets.
Exit 1 if it could not be taken; the last good one stays what it is.`,
		Example: "  ctl snapshot create release-42",
		RunE: func(c *cobra.Command, args []string) error {
			return a.createSnapshot(c.Context(), args[0], noWait)
		},
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it is whole")
	return c
}

func (a *app) createSnapshot(ctx context.Context, id string, noWait bool) error {
	if err := checkName("session id", id); err != nil {
		return err
	}
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	acc, kept, err := a.askSnapshot(ctx, t, id)
	if err != nil {
		return err
	}
	if kept || noWait {
		return a.print().show(acc, func(p *printer) {
			if kept {
				p.printf("%s: kept until a worker is up\n", id)
				return
			}
			p.printf("%s: snapshot %d is being taken\n", id, acc.N)
		})
	}
	m, err := a.takenSnapshot(ctx, t, acc)
	if err != nil {
		return err
	}
	return a.print().show(m, func(p *printer) {
		p.printf("%s  %s in %d files, %s new to the store\n", p.paint(bold, m.ID), size(m.Bytes), m.Files, size(m.AddedBytes))
	})
}

// askSnapshot requests a snapshot. kept is true if no worker was up to take the request.
func (a *app) askSnapshot(ctx context.Context, t *temporal, id string) (acc workflows.SnapshotAccepted, kept bool, err error) {
	doing := "take a snapshot of session " + id
	acc.Session = id
	msg := delivery{doing: doing, session: id, name: workflows.SignalSnapshot, msg: workflows.TakeSnapshot{By: person()}, check: takesMore(doing)}
	kept, err = msg.deliver(ctx, t, &acc)
	return acc, kept, err
}

// takenSnapshot waits for a requested snapshot and returns it.
func (a *app) takenSnapshot(ctx context.Context, t *temporal, acc workflows.SnapshotAccepted) (m snapshots.Manifest, err error) {
	v, err := a.awaitSnapshot(ctx, t, acc)
	if err != nil {
		return m, err
	}
	worker, err := a.anyWorker(ctx, t)
	if err != nil {
		return m, err
	}
	m, err = worker.Snapshot(ctx, v.ID)
	return m, apiFailure("find snapshot "+v.ID, err)
}

// awaitSnapshot waits until snapshot N of a session, or a later one, is complete.
func (a *app) awaitSnapshot(ctx context.Context, t *temporal, acc workflows.SnapshotAccepted) (workflows.SnapshotView, error) {
	doing := "take a snapshot of session " + acc.Session
	var got workflows.SnapshotView
	_, err := a.awaitSession(ctx, t, acc.Session, doing, snapshotWait, func(v workflows.SessionView) (bool, error) {
		s := v.Snapshot
		switch {
		case s == nil || s.Tried < acc.N && s.N < acc.N:
			return false, goneOn(doing, v)
		case s.N >= acc.N:
			got = *s
			return true, nil
		case s.Error != nil:
			e := failureExit(doing, s.Error)
			e.code = exitFailed
			return false, e
		}
		return false, refused("%s: there is nothing worth keeping yet", doing).hinted("say something to it first")
	})
	return got, err
}

// goneOn returns an error if the session has ended, so that nothing waits for it.
func goneOn(doing string, v workflows.SessionView) error {
	switch v.State {
	case workflows.Closed:
		return refused("%s: it closed meanwhile", doing)
	case workflows.Failed:
		return failureExit(doing, v.Error)
	}
	return nil
}

// awaitSession polls a session until done reports true, or until --timeout (or wait) is
// over.
func (a *app) awaitSession(ctx context.Context, t *temporal, id, doing string, wait time.Duration, done func(workflows.SessionView) (bool, error)) (workflows.SessionView, error) {
	wait = a.wait(wait)
	ctx, cancel := context.WithTimeoutCause(ctx, wait, timedOut("%s: no end within %s", doing, wait).
		hinted("it goes on; `ctl session show %s` says how far it is", id))
	defer cancel()
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	var told waitNews
	for {
		var v workflows.SessionView
		err := t.query(ctx, doing, workflows.SessionID(id), workflows.QueryState, &v)
		switch {
		case err == nil:
			if ok, err := done(v); ok || err != nil {
				return v, err
			}
			if news := told.changed(sessionWaits(v)); news != "" {
				a.note("%s", news)
			}
		case ctx.Err() == nil && exitOf(err) != exitUnreachable: // a worker that is away comes back
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, context.Cause(ctx)
		case <-look.C:
		}
	}
}

func snapshotListCommand(a *app) *cobra.Command {
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
				if session = args[0]; checkName("session id", session) != nil {
					return checkName("session id", session)
				}
			}
			t, worker, err := a.storeWorker(c.Context())
			if err != nil {
				return err
			}
			return a.listSnapshots(c.Context(), t, worker, session)
		},
	}
}

// storeWorker connects to a worker that can read the store.
func (a *app) storeWorker(ctx context.Context) (*temporal, *api.Client, error) {
	t, err := a.temporal(ctx)
	if err != nil {
		return nil, nil, err
	}
	worker, err := a.anyWorker(ctx, t)
	return t, worker, err
}

func (a *app) listSnapshots(ctx context.Context, t *temporal, worker *api.Client, session string) error {
	p, listed := a.print(), 0
	rows := [][]cell{}
	for m, err := range worker.Snapshots(ctx, session) {
		if err != nil {
			return apiFailure("list snapshots", err)
		}
		listed++
		if p.json {
			if err := p.show(m, nil); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, snapshotRow(m))
	}
	if listed == 0 && session != "" {
		if err := t.hasSession(ctx, "list snapshots of session "+session, session); err != nil {
			return err
		}
	}
	if !p.json {
		p.table([]string{"SNAPSHOT", "TURN", "TAKEN", "FILES", "SIZE", "ADDED", ""}, rows)
	}
	return nil
}

// hasSession refuses a session id that does not exist. Snapshots outlive their sessions, so
// it is called only if there are no snapshots.
func (t *temporal) hasSession(ctx context.Context, doing, id string) error {
	_, err := t.DescribeWorkflowExecution(ctx, workflows.SessionID(id), "")
	if err = t.explain(ctx, doing, err); exitOf(err) == exitNotFound {
		return notFound("%s: there is no such session, and no snapshot of one", doing).hinted("`ctl session list` and `ctl snapshot list` show what there is")
	}
	return err
}

func snapshotRow(m snapshots.Manifest) []cell {
	why := "incomplete"
	if m.Newer() {
		why = "made by a newer version"
	}
	if !m.Complete {
		return []cell{painted(bold, m.ID), plain(""), plain(m.CreatedAt), plain(""), plain(""), plain(""), painted(red, why)}
	}
	return []cell{painted(bold, m.ID), plain(m.Turn), plain(m.CreatedAt), plain(m.Files), plain(size(m.Bytes)), plain(size(m.AddedBytes)), plain(strings.Join(oddities(m), ", "))}
}

// oddities lists what a person should know of a snapshot before using it.
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

// size formats a number of bytes.
func size(n int64) string {
	const units = "KMGTP"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1023.95 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[unit])
}

func snapshotShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show SNAP", Short: "what a snapshot holds, and how its session was set up", Args: cobra.ExactArgs(1),
		Example: "  ctl snapshot show release-42.snap-20260102t030405-0a1b2c",
		RunE: func(c *cobra.Command, args []string) error {
			m, _, _, err := a.snapshot(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print().show(m, func(p *printer) { showSnapshot(p, m) })
		},
	}
}

// snapshot finds a snapshot by its id, and returns the worker that knows it.
func (a *app) snapshot(ctx context.Context, id string) (snapshots.Manifest, *temporal, *api.Client, error) {
	var m snapshots.Manifest
	if err := checkSnapshot(id); err != nil {
		return m, nil, nil, err
	}
	t, worker, err := a.storeWorker(ctx)
	if err != nil {
		return m, nil, nil, err
	}
	m, err = worker.Snapshot(ctx, id)
	return m, t, worker, apiFailure("find snapshot "+id, err)
}

// checkSnapshot refuses a text that cannot be the id of a snapshot.
func checkSnapshot(id string) error {
	if _, err := snapshots.SessionOf(id); err != nil {
		return usage("%q is not the id of a snapshot", id).hinted("`ctl snapshot list` shows them: SESSION.snap-…")
	}
	return nil
}

func showSnapshot(p *printer, m snapshots.Manifest) {
	state := painted(green, "complete")
	switch {
	case m.Newer():
		state = painted(red, "made by a newer version: this worker can neither use nor delete it")
	case !m.Complete:
		state = painted(red, "incomplete: its manifest is damaged; it is never used")
	}
	p.fields(plain("id"), painted(bold, m.ID), plain("session"), plain(m.Session), plain("state"), state,
		plain("turn"), plain(m.Turn), plain("taken"), plain(m.CreatedAt), plain("took"), plain(m.Took), plain("thread"), plain(m.ThreadID),
		plain("codex"), plain(m.CodexVersion), plain("host"), plain(m.Host), plain("folder"), plain(m.CWD), plain("sandbox"), plain(m.Sandbox), plain("approval policy"), plain(m.ApprovalPolicy),
		plain("model"), plain(m.Model), plain("effort"), plain(m.Effort), plain("work"), plain(workText(m)), plain("exclude"), plain(strings.Join(m.Exclude, "  ")),
		plain("files"), plain(m.Files), plain("size"), plain(size(m.Bytes)), plain("stored"), plain(size(m.StoredBytes)+", "+size(m.AddedBytes)+" new with it"),
		plain("read"), plain(size(m.ReadBytes)+" from the host"), plain("remarks"), painted(yellow, strings.Join(oddities(m), ", ")))
	for _, l := range m.LeftOut {
		p.printf("%s  %s (%s)\n", p.paint(dim, "left out"), clean(l.Path), clean(l.Why))
	}
	for _, path := range m.Unstable {
		p.printf("%s  %s\n", p.paint(dim, "changed "), clean(path))
	}
}

// workText says what a snapshot holds of the work folder.
func workText(m snapshots.Manifest) string {
	if m.WorkWhy != "" {
		return m.Work + ", though git was asked for: " + m.WorkWhy
	}
	return m.Work
}

// countOf returns a number with its noun, empty for none.
func countOf(n int, thing string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func snapshotDeleteCommand(a *app) *cobra.Command {
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
			_, worker, err := a.storeWorker(c.Context())
			if err != nil {
				return err
			}
			m, err := worker.DeleteSnapshot(c.Context(), args[0])
			if err != nil {
				return apiFailure("delete snapshot "+args[0], err)
			}
			return a.print().show(m, func(p *printer) { p.printf("snapshot %s deleted\n", m.ID) })
		},
	}
}
