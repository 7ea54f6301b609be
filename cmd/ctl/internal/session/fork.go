package session

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/cmd/ctl/internal/start"
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
	switch unknown := err != nil; {
	case unknown, v.State == protocol.Parked, v.State == protocol.Closed, v.State == protocol.Failed:
	default:
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
	for m, err := range worker.Snapshots(ctx, session) {
		if err != nil {
			return newest, conn.APIFailure(doing, err)
		}
		if m.Newer() {
			return newest, newerSnapshot(doing, m)
		}
		if m.GoesOn() && (v.ID == "" || isOf(m, v)) {
			newest = m
		}
	}
	if newest.ID == "" {
		return newest, core.NotFound("%s: there is no good snapshot of it", doing).Hinted("`ctl session list` and `ctl snapshot list` show what there is")
	}
	if v.State == protocol.Parked { // no snapshot has the settings that were changed since
		newest.Model, newest.Effort = cmp.Or(v.Options["model"], newest.Model), cmp.Or(v.Options["effort"], newest.Effort)
	}
	return newest, nil
}

func newerSnapshot(doing string, m snapshots.Manifest) error {
	return core.Refused("%s: %s was made by a newer version than the worker's", doing, m.ID).Hinted("bring the workers to that version; `ctl status` shows which each of them has")
}

func errOr(err error, or error) error {
	if err != nil {
		return err
	}
	return or
}

func RestoreSnapshot(ctx context.Context, a *core.App, t *conn.Conn, m snapshots.Manifest, id string, opt session.Options, budget string, given func(flag string) bool) error {
	if m.Newer() {
		return newerSnapshot("restore snapshot "+m.ID, m)
	}
	if !m.Complete {
		return core.Refused("restore snapshot %s: it is incomplete, and never used", m.ID).Hinted("`ctl snapshot list %s` shows the others", m.Session)
	}
	opt.From = m.ID
	former, known := former(ctx, t, m)
	if err := asItWas(&opt, m, former, given); err != nil {
		return err
	}
	sameThread(&opt, former, given)
	if err := start.SameBudget(&opt, m, former, budget, given); err != nil {
		return err
	}
	if err := start.SamePolicy(ctx, t, &opt, m, known, given); err != nil {
		return err
	}
	if opt.Seed == "" && opt.SeedPool == "" {
		if !known {
			a.Note("the session of the snapshot, %s, is no longer known; without --seed the new session has no credentials", m.Session)
		}
		sameCredentials(&opt, former, given)
	}
	if err := start.KeepGiven(ctx, a, t, start.OfSession(id), &opt); err != nil {
		return err
	}
	if _, err := start.Session(ctx, t, id, opt, nil); err != nil {
		return err
	}
	return a.Print().Show(map[string]string{"id": id}, func(p *core.Printer) { p.Printf("%s\n", id) })
}

// former returns the session that a snapshot was taken of. known is false if it no longer
// exists or its id belongs to a later session.
func former(ctx context.Context, t *conn.Conn, m snapshots.Manifest) (v protocol.SessionView, known bool) {
	_, err := t.AskEither(ctx, "show session "+m.Session, protocol.SessionID(m.Session), protocol.QueryState, &v)
	if err != nil || !isOf(m, v) {
		return protocol.SessionView{}, false
	}
	return v, true
}

// isOf reports whether a snapshot is of this session. An earlier session with the same id
// may have had another seed and other rights. Equal thread ids mean the same session.
//
// A fork that has not begun has the thread of another session. Then the generation decides.
// It begins with the time at which the session got a host, by the clock of CreatedAt. A
// leftover's snapshot (Left) may have the generation of the session that found the
// leftover, so that generation proves nothing.
func isOf(m snapshots.Manifest, v protocol.SessionView) bool {
	if m.ThreadID != "" && m.ThreadID == v.ThreadID {
		return true
	}
	return !m.Left && m.Generation >= v.CreatedAt.Unix()
}

// asItWas takes over settings of the snapshot, or else of the session, unless flags replace
// them. A leftover's snapshot has no settings. A setting that decides what codex may do is
// never guessed: if it is unknown, the user must give it.
func asItWas(opt *session.Options, m snapshots.Manifest, former protocol.SessionView, given func(flag string) bool) error {
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
			return core.Usage("restore snapshot %s: neither the snapshot nor session %s says how the session was set up", m.ID, m.Session).
				Hinted("say it with --sandbox and --approval-policy")
		}
	}
	if err := start.SameConfinement(opt, m, former, given); err != nil {
		return err
	}
	if err := sameTools(opt, m, former, given); err != nil {
		return err
	}
	if !given("snapshot-exclude") && opt.Snapshot.Work != protocol.WorkNone {
		opt.Snapshot.Exclude = m.Exclude
	}
	return nil
}

// sameTools gives a session the tools of Fairlead that its thread has. A fork cannot add
// tools, so --tools may only remove some.
func sameTools(opt *session.Options, m snapshots.Manifest, former protocol.SessionView, given func(flag string) bool) error {
	var has []string
	if tools := former.Options["tools"]; tools != "" {
		has = strings.Split(tools, ",")
	}
	if err := sameTeamTools(opt, m, former, given); err != nil {
		return err
	}
	if !given("tools") {
		opt.Tools = has
		return nil
	}
	if m.ThreadID == "" || len(former.Options) == 0 { // a new thread, or unknown tools
		return nil
	}
	if more := start.Without(opt.Tools, has); len(more) > 0 {
		return core.Usage("--tools: the thread of snapshot %s began without %s, and a fork gets no further tools", m.ID, strings.Join(more, ", ")).
			Hinted("leave --tools out to keep those it has, or say none")
	}
	return nil
}

// sameTeamTools does the same for the tools of a team. --tools may name other handlers for
// tools that the thread has.
func sameTeamTools(opt *session.Options, m snapshots.Manifest, former protocol.SessionView, given func(flag string) bool) error {
	var had *protocol.ToolsGiven
	if former.Given != nil {
		had = former.Given.Tools
	}
	if !given("tools") {
		opt.TeamTools = had
		return nil
	}
	if opt.TeamTools == nil || m.ThreadID == "" || len(former.Options) == 0 {
		return nil
	}
	var names []string
	if had != nil {
		names = had.Names
	}
	if more := start.Without(opt.TeamTools.Names, names); len(more) > 0 {
		return core.Usage("--tools: the thread of snapshot %s began without %s, and a fork gets no further tools", m.ID, strings.Join(more, ", ")).
			Hinted("leave --tools out to keep those it has")
	}
	return nil
}

// sameThread takes over the thread's instructions and the files that came with its
// messages. The conversation is in codex's rollout.
func sameThread(opt *session.Options, former protocol.SessionView, given func(flag string) bool) {
	if !given("developer-instructions") {
		opt.Instructions = former.Options["instructions"]
	}
	if g := former.Given; g != nil {
		if !given("instructions") {
			opt.Agents = g.Agents
		}
		if !given("base-instructions") {
			opt.Base = g.Base
		}
	}
	if !given("personality") {
		opt.Personality = former.Options["personality"]
	}
	opt.Files = former.Files
}

// askedFor returns the work folder policy that the user chose. Without a usable git remote,
// the snapshot has the full folder.
func askedFor(m snapshots.Manifest) string {
	if m.WorkWhy != "" {
		return protocol.WorkGit
	}
	return m.Work
}

// sameCredentials takes over the former session's seed and its delivery.
func sameCredentials(opt *session.Options, former protocol.SessionView, given func(flag string) bool) {
	opt.Seed = former.Seed
	if word := former.Options["credentials"]; !given("credentials") && opt.Seed != "" {
		opt.Credentials = word
	}
	if word := former.Options["on_auth"]; !given("on-auth") && word != "" {
		opt.OnAuth = word
	}
}
