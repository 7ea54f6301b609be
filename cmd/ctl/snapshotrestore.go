package main

import (
	"cmp"
	"context"
	"strings"

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
said by flags is as it was there: sandbox, policy, approval policy, model, effort, credentials and how
they are given, --on-interrupt, --on-auth, --snapshot, --snapshot-exclude and the bounds of
--budget, of which the new session has used nothing; all else begins with its default. --sandbox read-only takes over no --write, and danger-full-access nothing of it. A later session of the same id is not asked for what the snapshot does not
say: then --seed, and --policy where it had one, and for some --sandbox, --approval-policy and --budget, are yours to say. Any host with a free slot will do, unless --host or --label says which.
Prints the new session's id; the session waits for a message.`,
		Example: "  ctl snapshot restore release-42.snap-20260102t030405-0a1b2c --host web-2\n  ctl snapshot restore release-42.snap-20260102t030405-0a1b2c --id release-43",
		RunE: func(c *cobra.Command, args []string) error {
			opt, id, err := a.goesOn(&f, c.Flags().Changed)
			if err != nil {
				return err
			}
			m, t, _, err := a.snapshot(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.restoreSnapshot(c.Context(), t, m, id, opt, f.budget, c.Flags().Changed)
		},
	}
	f.add(c, "")
	goesOnFlags(c)
	return c
}

func sessionForkCommand(a *app) *cobra.Command {
	var f startFlags
	c := &cobra.Command{
		Use: "fork ID", Short: "go on from where a session is, as a second one", Args: cobra.ExactArgs(1),
		Long: `Takes a snapshot of a session and starts a new one from it, as 'ctl snapshot restore' does; of
a session that is parked or closed its newest good snapshot serves. The first one goes on as
it was. What the new one uses is counted from nothing, and so are its budgets. Prints the new
session's id.`,
		Example: "  ctl session fork release-42 --id release-42b",
		RunE: func(c *cobra.Command, args []string) error {
			opt, id, err := a.goesOn(&f, c.Flags().Changed)
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
			if err := t.unused(c.Context(), id); err != nil {
				return err
			}
			m, err := a.newestSnapshot(c.Context(), t, args[0])
			if err != nil {
				return err
			}
			return a.restoreSnapshot(c.Context(), t, m, id, opt, f.budget, c.Flags().Changed)
		},
	}
	f.add(c, "")
	goesOnFlags(c)
	return c
}

// notToGoOn lists the flags of a session's start that fill its work folder. A session that
// continues from a snapshot has the work folder of the snapshot.
var notToGoOn = []string{"dir", "repo", "ref", "depth", "git-token-file", "git-user", "forward-agent", "git-known-hosts", "clone-timeout", "upload", "from-snapshot"}

// goesOnFlags adapts the flags of a session's start to a session that continues from a
// snapshot. It hides those that are refused.
func goesOnFlags(c *cobra.Command) {
	asItWasByDefault(c)
	fl := c.Flags()
	for _, name := range notToGoOn {
		fl.Lookup(name).Hidden = true
	}
	fl.Lookup("snapshot").Usage = strings.Replace(fl.Lookup("snapshot").Usage, "what snapshots hold", "what the new session's own snapshots hold", 1)
}

// mayGoOn refuses flags that fill the work folder.
func mayGoOn(f *startFlags, given func(flag string) bool) error {
	for _, name := range notToGoOn {
		switch {
		case !given(name):
		case name == "dir":
			return usage("--dir: a snapshot is restored into a folder of its own, never over one of yours")
		default:
			return usage("--%s: a session that goes on from a snapshot has the work folder of that snapshot", name).
				hinted("leave it out, or begin a new session with `ctl session start --%s`", name)
		}
	}
	if isSnapshot(f.goOn.work) {
		return usage("--snapshot %s: here it says what the new session's own snapshots hold: full, git or none", f.goOn.work).
			hinted("`ctl snapshot restore %s` goes on from that one; leave --snapshot out", f.goOn.work)
	}
	return nil
}

// asItWasByDefault replaces the defaults in --help for settings that are taken over from
// the snapshot.
func asItWasByDefault(c *cobra.Command) {
	for _, name := range []string{"sandbox", "approval-policy", "model", "effort", "credentials", "on-interrupt", "on-auth", "snapshot", "snapshot-exclude", "tools", "policy"} {
		flag := c.Flags().Lookup(name)
		if flag.Value.Type() == "string" { // other types show no default
			flag.DefValue = ""
		}
		flag.Usage = strings.NewReplacer(", the default)", ")", "; the default with a broker)", ")").Replace(flag.Usage) + " (default: as it was)"
	}
	c.Flags().Lookup("seed").Usage += " (default: that of the session it is of)"
}

// goesOn returns the options and the id of a session that continues from a snapshot.
func (a *app) goesOn(f *startFlags, given func(flag string) bool) (opt workflows.SessionOptions, id string, err error) {
	if err := mayGoOn(f, given); err != nil {
		return opt, "", err
	}
	if opt, err = a.sessionOptions(f); err != nil {
		return opt, "", err
	}
	id, err = f.sessionID()
	return opt, id, err
}

// unused refuses an id that a session already has, before anything is done for the new
// session.
func (t *temporal) unused(ctx context.Context, id string) error {
	switch _, err := t.DescribeWorkflowExecution(ctx, workflows.SessionID(id), ""); {
	case err == nil:
		return refused("start session %s: the id is in use", id).hinted("choose another id")
	case exitOf(t.explain(ctx, "look for session "+id, err)) == exitNotFound:
		return nil
	default:
		return t.explain(ctx, "look for session "+id, err)
	}
}

// newestSnapshot takes a new snapshot of a session that is on a host. For other sessions it
// returns the newest usable snapshot.
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
		if m.GoesOn() && (v.ID == "" || isOf(m, v)) {
			newest = m
		}
	}
	if newest.ID == "" {
		return newest, notFound("%s: there is no good snapshot of it", doing).hinted("`ctl session list` and `ctl snapshot list` show what there is")
	}
	if v.State == workflows.Parked { // settings that were changed while parked are in no snapshot
		newest.Model, newest.Effort = cmp.Or(v.Options["model"], newest.Model), cmp.Or(v.Options["effort"], newest.Effort)
	}
	return newest, nil
}

// newerSnapshot refuses a snapshot that needs a newer version of the worker.
func newerSnapshot(doing string, m snapshots.Manifest) error {
	return refused("%s: %s was made by a newer version than the worker's", doing, m.ID).hinted("bring the workers to that version; `ctl status` shows which each of them has")
}

func errOr(err error, or error) error {
	if err != nil {
		return err
	}
	return or
}

func (a *app) restoreSnapshot(ctx context.Context, t *temporal, m snapshots.Manifest, id string, opt workflows.SessionOptions, budget string, given func(flag string) bool) error {
	if m.Newer() {
		return newerSnapshot("restore snapshot "+m.ID, m)
	}
	if !m.Complete {
		return refused("restore snapshot %s: it is incomplete, and never used", m.ID).hinted("`ctl snapshot list %s` shows the others", m.Session)
	}
	opt.From = m.ID
	former, known := t.former(ctx, m)
	if err := asItWas(&opt, m, former, given); err != nil {
		return err
	}
	sameThread(&opt, former, given)
	if err := sameBudget(&opt, m, former, budget, given); err != nil {
		return err
	}
	if err := a.samePolicy(ctx, t, &opt, m, known, given); err != nil {
		return err
	}
	if opt.Seed == "" && opt.SeedPool == "" {
		if !known {
			a.note("session %s, as it was then, is not known any more: without --seed the new one has no credentials", m.Session)
		}
		sameCredentials(&opt, former, given)
	}
	if _, err := a.startSession(ctx, t, id, opt, nil); err != nil {
		return err
	}
	return a.print().show(map[string]string{"id": id}, func(p *printer) { p.printf("%s\n", id) })
}

// former returns the session that a snapshot was taken of. known is false if it does not
// exist any more, or if its id belongs to a later session.
func (t *temporal) former(ctx context.Context, m snapshots.Manifest) (v workflows.SessionView, known bool) {
	_, err := t.askEither(ctx, "show session "+m.Session, workflows.SessionID(m.Session), workflows.QueryState, &v)
	if err != nil || !isOf(m, v) {
		return workflows.SessionView{}, false
	}
	return v, true
}

// isOf reports whether a snapshot was taken of this session, and not of an earlier one with
// the same id, which may have had another seed and other rights. Equal thread ids mean the
// same session.
//
// A fork that has not begun has the thread of another session. Then the snapshot's
// generation decides: it begins with the time at which its session got a host, by the clock
// of CreatedAt. A snapshot of what a session left on a host (Left) may have the generation
// of the session that found it, so its generation proves nothing.
func isOf(m snapshots.Manifest, v workflows.SessionView) bool {
	if m.ThreadID != "" && m.ThreadID == v.ThreadID {
		return true
	}
	return !m.Left && m.Generation >= v.CreatedAt.Unix()
}

// asItWas takes over the settings of the thread, unless flags replace them. The snapshot's
// settings count before the session's. A snapshot of what a session left on a host has
// none. Settings that decide what codex may do are never guessed: if they are unknown, the
// user must state them.
func asItWas(opt *workflows.SessionOptions, m snapshots.Manifest, former workflows.SessionView, given func(flag string) bool) error {
	for _, f := range []struct {
		flag string
		to   *string
		was  string
		must bool
	}{
		{"sandbox", &opt.Sandbox, cmp.Or(m.Sandbox, former.Options["sandbox"]), true},
		{"approval-policy", &opt.ApprovalPolicy, cmp.Or(m.ApprovalPolicy, former.Options["approval_policy"]), true},
		{"model", &opt.Model, m.Model, false}, {"effort", &opt.Effort, m.Effort, false}, {"snapshot", &opt.Snapshot.Work, askedFor(m), false},
		{"on-interrupt", &opt.OnInterrupt, former.Options["on_interrupt"], false},
	} {
		switch {
		case given(f.flag), f.flag == "sandbox" && given("profile"):
		case f.was != "":
			*f.to = f.was
		case f.must:
			return usage("restore snapshot %s: it does not say how its session was set up, and session %s is not there to say it", m.ID, m.Session).
				hinted("say it with --sandbox and --approval-policy")
		}
	}
	if err := sameConfinement(opt, m, former, given); err != nil {
		return err
	}
	if err := sameTools(opt, m, former, given); err != nil {
		return err
	}
	if !given("snapshot-exclude") && opt.Snapshot.Work != activities.WorkNone {
		opt.Snapshot.Exclude = m.Exclude
	}
	return nil
}

// sameTools gives a session the tools of Fairlead that its thread has. A fork cannot add
// tools to a thread, so --tools may only remove some.
func sameTools(opt *workflows.SessionOptions, m snapshots.Manifest, former workflows.SessionView, given func(flag string) bool) error {
	var has []string
	if tools := former.Options["tools"]; tools != "" {
		has = strings.Split(tools, ",")
	}
	if !given("tools") {
		opt.Tools = has
		return nil
	}
	if m.ThreadID == "" || len(former.Options) == 0 { // a new thread, or unknown tools
		return nil
	}
	if more := without(opt.Tools, has); len(more) > 0 {
		return usage("--tools: the thread of snapshot %s began without %s, and a fork gets no further tools", m.ID, strings.Join(more, ", ")).
			hinted("leave --tools out to keep those it has, or say none")
	}
	return nil
}

// sameThread takes over the thread's instructions and the files that came with its
// messages, if the former session is known. The conversation itself is in codex's rollout.
func sameThread(opt *workflows.SessionOptions, former workflows.SessionView, given func(flag string) bool) {
	if !given("instructions") {
		opt.Instructions = former.Options["instructions"]
	}
	if !given("personality") {
		opt.Personality = former.Options["personality"]
	}
	opt.Files = former.Files
}

// askedFor returns the policy for the work folder that the user chose. A snapshot may hold
// more: without a usable git remote, the folder is kept in full.
func askedFor(m snapshots.Manifest) string {
	if m.WorkWhy != "" {
		return activities.WorkGit
	}
	return m.Work
}

// sameCredentials gives a session the former session's seed, in the same way. If that
// session is unknown, only the flags count.
func sameCredentials(opt *workflows.SessionOptions, former workflows.SessionView, given func(flag string) bool) {
	opt.Seed = former.Seed
	if word := former.Options["credentials"]; !given("credentials") && opt.Seed != "" {
		opt.Credentials = word
	}
	if word := former.Options["on_auth"]; !given("on-auth") && word != "" {
		opt.OnAuth = word
	}
}
