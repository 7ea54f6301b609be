package restores

import (
	"cmp"
	"context"
	"strings"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows/session"
)

// Settings fills in the options of a session from the snapshot that it goes on from. asked
// are the bounds that the user named. given reports whether the options have a value for a flag.
// known is false if nobody knows the session of the snapshot any more.
func Settings(ctx context.Context, t *flows.Conn, m snapshots.Manifest, opt *session.Options, asked *protocol.Budget, given func(flag string) bool) (known bool, err error) {
	if err := Usable("restore snapshot "+m.ID, m); err != nil {
		return false, err
	}
	opt.From = m.ID
	was, known := former(ctx, t, m)
	if err := asItWas(opt, m, was, given); err != nil {
		return known, err
	}
	sameThread(opt, was, given)
	if err := sameBudget(opt, m, was, asked, given); err != nil {
		return known, err
	}
	if err := samePolicy(ctx, t, opt, m, known, given); err != nil {
		return known, err
	}
	if opt.Seed == "" && opt.SeedPool == "" {
		sameCredentials(opt, was, given)
	} else if was.Options["credentials"] == protocol.CredentialsGateway && !given("credentials") {
		opt.Credentials = protocol.CredentialsGateway // the key of no seed goes to a host unasked
	}
	return known, nil
}

// Usable refuses a snapshot that no session can go on from.
func Usable(doing string, m snapshots.Manifest) error {
	switch {
	case m.Newer():
		return errkind.Refused("%s: %s was made by a newer version than the worker's", doing, m.ID).Hinted("bring the workers to that version; `ctl status` shows which each of them has")
	case !m.Complete:
		return errkind.Refused("%s: it is incomplete, and never used", doing).Hinted("`ctl snapshot list %s` shows the others", m.Session)
	}
	return nil
}

// Newest returns the snapshot for a fork of a session that is on no host. It skips
// those of an earlier session with the same id.
func Newest(doing string, v protocol.SessionView, all []snapshots.Manifest) (newest snapshots.Manifest, err error) {
	for _, m := range all {
		if m.Newer() {
			return newest, Usable(doing, m)
		}
		if m.GoesOn() && (v.ID == "" || isOf(m, v)) {
			newest = m
		}
	}
	if newest.ID == "" {
		return newest, errkind.NotFound("%s: there is no good snapshot of it", doing).Hinted("`ctl session list` and `ctl snapshot list` show what there is")
	}
	if v.State == protocol.Parked { // no snapshot has the settings that were changed since
		newest.Model, newest.Effort = cmp.Or(v.Options["model"], newest.Model), cmp.Or(v.Options["effort"], newest.Effort)
	}
	return newest, nil
}

// Takes reports whether a fork takes a new snapshot of the session, because the session is on a host.
func Takes(v protocol.SessionView) bool {
	return v.State != protocol.Parked && v.State != protocol.Closed && v.State != protocol.Failed
}

// former returns the session that a snapshot was taken of. known is false if it no longer
// exists or its id belongs to a later session.
func former(ctx context.Context, t *flows.Conn, m snapshots.Manifest) (v protocol.SessionView, known bool) {
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
// them. The snapshot of a leftover has no settings. asItWas guesses no setting that decides
// what codex may do: if such a setting is unknown, the user must give it.
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
			return errkind.Usage("restore snapshot %s: neither the snapshot nor session %s says how the session was set up", m.ID, m.Session).
				Hinted("say it with --sandbox and --approval-policy")
		}
	}
	if err := sameConfinement(opt, m, former, given); err != nil {
		return err
	}
	if err := sameTools(opt, m, former, given); err != nil {
		return err
	}
	if was := former.Options["egress"]; was != "" && !given("egress") {
		opt.Egress = strings.Split(was, ",")
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
	if more := without(opt.Tools, has); len(more) > 0 {
		return errkind.Usage("--tools: the thread of snapshot %s began without %s, and a fork gets no further tools", m.ID, strings.Join(more, ", ")).
			Hinted("leave --tools out to keep those it has, or say none")
	}
	return nil
}

// TeamTools stands for the file of tools of a team, which given is asked for. ctl names the file in
// --tools, and the HTTP API has a field for it.
const TeamTools = "team-tools"

// sameTeamTools does the same for the tools of a team. A file may name other handlers for tools that
// the thread has.
func sameTeamTools(opt *session.Options, m snapshots.Manifest, former protocol.SessionView, given func(flag string) bool) error {
	var had *protocol.ToolsGiven
	if former.Given != nil {
		had = former.Given.Tools
	}
	if !given(TeamTools) {
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
	if more := without(opt.TeamTools.Names, names); len(more) > 0 {
		return errkind.Usage("tools of your own: the thread of snapshot %s began without %s, and a fork gets no further tools", m.ID, strings.Join(more, ", ")).
			Hinted("leave the file out to keep those it has")
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
	word := former.Options["credentials"]
	unsaid := word == protocol.CredentialsPlanted && former.Options["credentials_by"] != ""
	if !unsaid && !given("credentials") && opt.Seed != "" {
		opt.Credentials = word
	}
	if word := former.Options["on_auth"]; !given("on-auth") && word != "" {
		opt.OnAuth = word
	}
}
