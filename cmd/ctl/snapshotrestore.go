package main

import (
	"context"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows"
)

func snapshotRestoreCommand(a *app) *cobra.Command {
	var f startFlags
	c := &cobra.Command{
		Use: "restore SNAP", Short: "go on from a snapshot, as a new session", Args: cobra.ExactArgs(1),
		Long: `Starts a new session that begins where the snapshot was taken: with its conversation, as a
fork of the thread, and its work folder. The session it is of is not touched. What is not
said by flags is as it was there: sandbox, approval policy, model, effort, credentials. Any
host with a free slot will do, unless --host or --label says which. Prints the new session's
id; the session waits for a message.`,
		Example: "  ctl snapshot restore release-42.snap-20260102t030405-0a1b2c --host web-2\n  ctl snapshot restore release-42.snap-20260102t030405-0a1b2c --id release-43",
		RunE: func(c *cobra.Command, args []string) error {
			opt, id, err := f.goesOn()
			if err != nil {
				return err
			}
			m, t, _, err := a.snapshot(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.restoreSnapshot(c.Context(), t, m, id, opt, c.Flags().Changed)
		},
	}
	f.add(c, "")
	return c
}

func sessionForkCommand(a *app) *cobra.Command {
	var f startFlags
	c := &cobra.Command{
		Use: "fork ID", Short: "go on from where a session is, as a second one", Args: cobra.ExactArgs(1),
		Long: `Takes a snapshot of a session and starts a new one from it, as 'ctl snapshot restore' does; of
a session that is parked or closed its newest good snapshot serves. The first one goes on as
it was. Prints the new session's id.`,
		Example: "  ctl session fork release-42 --id release-42b",
		RunE: func(c *cobra.Command, args []string) error {
			opt, id, err := f.goesOn()
			if err == nil {
				err = checkName("session id", args[0])
			}
			if err != nil {
				return err
			}
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			m, err := a.newestSnapshot(c.Context(), t, args[0])
			if err != nil {
				return err
			}
			return a.restoreSnapshot(c.Context(), t, m, id, opt, c.Flags().Changed)
		},
	}
	f.add(c, "")
	return c
}

// goesOn are the options and the id of a session that begins with a snapshot.
func (f *startFlags) goesOn() (opt workflows.SessionOptions, id string, err error) {
	if f.dir != "" {
		return opt, "", usage("--dir: a snapshot is restored into a folder of its own, never over one of yours")
	}
	if opt, err = f.options(); err != nil {
		return opt, "", err
	}
	id, err = f.sessionID()
	return opt, id, err
}

// newestSnapshot takes one of a session that is at work somewhere; else it is
// the newest good one that there is.
func (a *app) newestSnapshot(ctx context.Context, t *temporal, session string) (newest snapshots.Manifest, err error) {
	doing := "fork session " + session
	v, err := a.session(ctx, t, session)
	if err != nil && exitOf(err) != exitNotFound {
		return newest, err
	}
	switch unknown := err != nil; {
	case unknown, v.State == workflows.Parked, v.State == workflows.Closed, v.State == workflows.Failed:
	default:
		acc, kept, err := a.askSnapshot(ctx, t, session)
		if err != nil || kept {
			return newest, errOr(err, unreachable("%s: a snapshot of it is taken as soon as a worker is up", doing).hinted("do it again then"))
		}
		return a.takenSnapshot(ctx, t, acc)
	}
	worker, err := a.anyWorker(ctx, t)
	if err != nil {
		return newest, err
	}
	for m, err := range worker.Snapshots(ctx, session) {
		if err != nil {
			return newest, apiFailure(doing, err)
		}
		if m.Newer() {
			return newest, newerSnapshot(doing, m)
		}
		if m.GoesOn() {
			newest = m
		}
	}
	if newest.ID == "" {
		return newest, notFound("%s: there is no good snapshot of it", doing).hinted("`ctl session list` and `ctl snapshot list` show what there is")
	}
	return newest, nil
}

// newerSnapshot refuses what only a newer version knows how to use.
func newerSnapshot(doing string, m snapshots.Manifest) error {
	return refused("%s: %s was made by a newer version than the worker's", doing, m.ID).hinted("bring the workers to that version; `ctl status` shows which each of them has")
}

func errOr(err error, or error) error {
	if err != nil {
		return err
	}
	return or
}

func (a *app) restoreSnapshot(ctx context.Context, t *temporal, m snapshots.Manifest, id string, opt workflows.SessionOptions, given func(flag string) bool) error {
	if m.Newer() {
		return newerSnapshot("restore snapshot "+m.ID, m)
	}
	if !m.Complete {
		return refused("restore snapshot %s: it is incomplete, and never used", m.ID).hinted("`ctl snapshot list %s` shows the others", m.Session)
	}
	opt.From = m.ID
	asItWas(&opt, m, given)
	a.sameCredentials(ctx, t, &opt, m.Session, given)
	if err := a.startSession(ctx, t, id, opt); err != nil {
		return err
	}
	return a.print().show(map[string]string{"id": id}, func(p *printer) { p.printf("%s\n", id) })
}

// asItWas takes over how the thread was set up, but for what flags say.
func asItWas(opt *workflows.SessionOptions, m snapshots.Manifest, given func(flag string) bool) {
	for _, f := range []struct {
		flag string
		to   *string
		was  string
	}{
		{"sandbox", &opt.Sandbox, m.Sandbox}, {"approval-policy", &opt.ApprovalPolicy, m.ApprovalPolicy},
		{"model", &opt.Model, m.Model}, {"effort", &opt.Effort, m.Effort}, {"snapshot", &opt.Snapshot.Work, m.Work},
	} {
		if !given(f.flag) && f.was != "" {
			*f.to = f.was
		}
	}
	if !given("snapshot-exclude") && opt.Snapshot.Work != activities.WorkNone {
		opt.Snapshot.Exclude = m.Exclude
	}
}

// sameCredentials are those of the session that the snapshot is of, given to it
// in the same way. Where nobody knows it any more there are none but what the
// flags say.
func (a *app) sameCredentials(ctx context.Context, t *temporal, opt *workflows.SessionOptions, session string, given func(flag string) bool) {
	if opt.Seed != "" || opt.SeedPool != "" {
		return
	}
	var v workflows.SessionView
	if _, err := t.askEither(ctx, "show session "+session, workflows.SessionID(session), workflows.QueryState, &v); err != nil {
		a.note("session %s is not known any more: without --seed the new one has no credentials", session)
		return
	}
	opt.Seed = v.Seed
	if word := v.Options["credentials"]; !given("credentials") && opt.Seed != "" {
		opt.Credentials = word
	}
	if word := v.Options["on_auth"]; !given("on-auth") {
		opt.OnAuth = word
	}
	if word := v.Options["on_interrupt"]; !given("on-interrupt") && word != "" {
		opt.OnInterrupt = word
	}
}
