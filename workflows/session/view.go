package session

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

type attributes struct {
	state, host, seed, thread, waits string
	progress, origin                 string
	approvals, turn                  int64
	name                             string
	archived                         bool
	limited                          bool // waits is about the end of a limit
}

type viewsPart struct {
	*core
	messages  *messagesPart
	approvals *approvalsPart
	bounds    *boundsPart
	choices   *choicesPart
	snaps     *snapsPart
	leases    *leasesPart
	parking   *parkingPart
	ending    *endingPart
	pushes    *pushesPart

	shown attributes // as last set
}

// publish updates the search attributes when they change (one event for all) and the
// current details always (no event).
func (s *viewsPart) publish() {
	now := attributes{
		state: string(s.st.Status), host: s.hostName(), seed: s.seedName(),
		thread: s.threadID(), waits: s.waitsFor(),
		approvals: int64(len(s.st.Open())), turn: int64(s.st.TurnN),
		name: s.st.Chosen.Name, archived: s.st.Archived != nil, limited: s.bounds.limited(),
		progress: kit.Cut(protocol.ViewOfProgress(s.st.Progress).String(), kit.MaxWord), origin: s.opt.Origin,
	}
	now.waits, now.thread = kit.Cut(now.waits, kit.MaxWord), kit.Cut(now.thread, kit.MaxWord)
	workflow.SetCurrentDetails(s.ctx, s.details())
	if now == s.shown {
		return
	}
	more := s.tellChosen(now)
	if now.progress != s.shown.progress { // a cluster without progress reports need not have this attribute
		more = append(more, kit.AttrProgress.ValueSet(now.progress))
	}
	if now.origin != s.shown.origin {
		more = append(more, kit.AttrOrigin.ValueSet(now.origin))
	}
	s.shown = now
	err := workflow.UpsertTypedSearchAttributes(s.ctx, append(more,
		kit.AttrState.ValueSet(now.state), kit.AttrHost.ValueSet(now.host), kit.AttrSeed.ValueSet(now.seed),
		kit.AttrThread.ValueSet(now.thread), kit.AttrWaits.ValueSet(now.waits),
		kit.AttrApprovals.ValueSet(now.approvals), kit.AttrTurn.ValueSet(now.turn))...)
	if err != nil {
		s.log.Warn("search attributes not set", "error", err)
	}
}

// showRefused lists a refused session among the failed ones.
func showRefused(ctx workflow.Context) {
	if err := workflow.UpsertTypedSearchAttributes(ctx, kit.AttrState.ValueSet(string(protocol.Failed))); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes not set", "error", err)
	}
}

// threadID returns the session's own thread, not the thread from which it was forked.
func (s *viewsPart) threadID() string {
	if s.st.ForkOf != "" && s.st.Pump.ForkedFrom == "" {
		return ""
	}
	return s.st.Pump.ThreadID
}

// seedName returns the seed that is or was held, or else the requested one.
func (s *viewsPart) seedName() string {
	if s.st.Seed != nil {
		return s.st.Seed.Name
	}
	return s.opt.Seed
}

func (s *viewsPart) lostHost() string {
	l := s.st.Lost
	return fmt.Sprintf("host %s, out of reach since %s", l.Host, l.Since.UTC().Format("2006-01-02 15:04 MST"))
}

func (s *viewsPart) waitsFor() string {
	if s.crowded {
		return "a free worker: all workers are busy taking or restoring snapshots"
	}
	if s.waitsForAttempt() && s.st.Status != protocol.Failed {
		return s.st.Trouble.Text()
	}
	switch s.st.Status {
	case protocol.Queued:
		if s.st.Waits != "" {
			return s.st.Waits
		}
		return "a host"
	case protocol.Preparing, protocol.Starting, protocol.Resuming:
		if s.st.Waits != "" && s.st.Begun {
			return s.st.Waits
		}
		if s.st.Lost != nil {
			return s.lostHost()
		}
		return "the host"
	case protocol.Idle, protocol.Interrupted:
		if s.parking.now {
			return "the host, to park"
		}
		if s.leases.lacksSeed() && s.st.Waits != "" {
			return s.st.Waits
		}
		if s.pushes.now != nil {
			return "git, which pushes to " + s.pushes.now.Branch
		}
		if s.bounds.overBudget() {
			return "a higher budget"
		}
		if s.st.Held && len(s.st.Queue) > 0 {
			return fmt.Sprintf("a message; %d queued wait with it", len(s.st.Queue))
		}
		return "a message"
	case protocol.Parked:
		if s.bounds.limited() {
			return s.bounds.limitText()
		}
		if s.bounds.overBudget() {
			return "a higher budget"
		}
		if s.st.Held && len(s.st.Queue) > 0 {
			return fmt.Sprintf("a message; %d queued wait with it", len(s.st.Queue))
		}
		return "a message"
	case protocol.Running:
		if s.st.Lost != nil {
			return s.lostHost()
		}
		return "codex"
	case protocol.Waiting:
		if s.bounds.limited() {
			return s.bounds.limitText()
		}
		if len(s.st.Open()) == 0 && s.st.waitsForChildren() {
			return s.st.waitsText()
		}
		return "a decision"
	case protocol.Closing:
		return "the host to be cleaned up"
	case protocol.Failed:
		if s.st.Touched && s.st.Closed == nil {
			return "the host to be cleaned up"
		}
	}
	return ""
}

// placedApprovals returns the approvals with the host and the sandbox of the session.
func (s *viewsPart) placedApprovals() []protocol.Approval {
	all := s.approvals.approvalViews()
	for i := range all {
		all[i].Host, all[i].Sandbox = s.hostName(), s.opt.Sandbox
	}
	return all
}

func (s *viewsPart) options() map[string]string {
	o, sn := s.opt, s.opt.Snapshot
	way, by := s.credentialWords()
	words := map[string]string{
		"sandbox": o.Sandbox, "approval_policy": o.ApprovalPolicy, "model": cmp.Or(s.choices.model(), s.st.Pump.Model), "effort": s.choices.effort(), "dir": o.Dir, "codex": s.st.Pump.CodexVersion,
		"on_interrupt": o.OnInterrupt, "credentials": way, "on_auth": o.OnAuth,
		"on_limit": s.bounds.onLimit(), "snapshot": sn.Work, "snapshot_when": sn.When, "on_host_lost": o.OnHostLost, "lost_after": o.LostAfter.String(),
	}
	if by != "" {
		words["credentials_by"] = by
	}
	s.confinement(words)
	if sn.Every > 0 {
		words["snapshot_every"] = sn.Every.String()
	}
	if len(sn.Exclude) > 0 {
		words["snapshot_exclude"] = strings.Join(sn.Exclude, "\n") // none contains a newline
	}
	if o.TTL > 0 {
		words["ttl"], words["ends_at"] = o.TTL.String(), s.ending.ttlAt().UTC().Format(time.RFC3339)
	}
	if o.StartTimeout != nil {
		words["start_timeout"] = o.StartTimeout.String()
	}
	if o.ParkAfter > 0 {
		words["park_after"] = o.ParkAfter.String()
	}
	if len(o.Tools) > 0 {
		words["tools"] = strings.Join(o.Tools, ",")
	}
	if o.Verdict {
		words["deliver_verdict"] = "required"
	}
	if c := o.Children; c != nil {
		words["children"] = fmt.Sprintf("max=%d,depth=%d", c.Max, c.Deep())
	}
	if len(o.Egress) > 0 {
		words["egress"] = strings.Join(o.Egress, ",")
	}
	if o.TeamTools != nil {
		words["team_tools"] = strings.Join(o.TeamTools.Names, ",")
	}
	if o.From != "" {
		words["from"] = o.From
	}
	if o.Personality != "" {
		words["personality"] = o.Personality
	}
	if o.Instructions != "" {
		words["instructions"] = o.Instructions
	}
	return words
}

func (s *viewsPart) view() protocol.SessionView {
	st := s.st
	v := protocol.SessionView{
		ID: s.id, Name: st.Chosen.Name, Archived: st.Archived != nil, Queued: s.messages.queue(), State: st.Status, Host: s.hostName(), Seed: s.seedName(), ThreadID: s.threadID(),
		Requests: []protocol.RequestBrief{}, Attempt: max(st.Attempt, 1), Switched: st.Switched, Error: st.Error,
		CreatedAt: st.CreatedAt, UpdatedAt: st.UpdatedAt, Waits: s.waitsFor(), Queue: s.messages.queued(),
		Refusals: st.Refusals, Close: st.Closed, Unprotected: st.Unprotected,
		Usage:      protocol.UsageView{Input: st.Pump.Usage.Input, Output: st.Pump.Usage.Output, Cached: st.Pump.Usage.Cached, Turns: st.TurnN - st.Skipped, Context: protocol.ViewContext(st.Pump.Context)},
		RateLimits: protocol.ViewRateLimits(st.Pump.RateLimits), Files: st.Files,
		Options: s.options(), Gateway: st.Served, SeedGateway: st.SeedServed, Egress: st.Carried,
		Budget: s.bounds.budgetView(), Messages: s.messages.messageViews(), Snapshot: s.snaps.snapshotView(),
	}
	if st.Close != nil && st.Status != protocol.Closed && st.Status != protocol.Failed {
		v.State = protocol.Closing
	}
	if t := st.turn(st.TurnN); t != nil && st.TurnN > 0 {
		v.Turn = &protocol.TurnBrief{N: t.N, ID: t.TurnID, Status: t.Status, StartedAt: t.StartedAt}
		if st.Running {
			v.Turn.ID = st.Pump.TurnID
		}
	}
	for _, a := range st.Open() {
		v.Requests = append(v.Requests, protocol.RequestBrief{
			ID: s.approvalID(a.N), Kind: string(a.Request.Kind), Summary: a.Request.Summary,
			AskedAt: a.AskedAt, ExpiresAt: a.Expires, Earlier: a.Earlier,
		})
	}
	v.Origin, v.FollowUps, v.Rules = s.opt.Origin, st.Follow.Started, s.ruleViews()
	v.Given = s.opt.givenView()
	v.WaitingFor = s.waitingView()
	v.Lost, v.Limit, v.Progress = st.Lost, s.bounds.limitView(), protocol.ViewOfProgress(st.Progress)
	v.Notices = st.Pump.Notices.Newest
	v.Policy, v.SeedPolicy = s.approvals.policyViews()
	v.Judged = st.Pump.Tally.Judged
	if w := st.Warm; w != nil && st.Lease == nil {
		v.Warm = &protocol.WarmView{Host: w.Spec.Name, Generation: w.Generation, Since: w.Since}
	}
	if st.Incarnation > 0 {
		v.Process = &protocol.ProcessView{Name: "app-server", Incarnation: st.Incarnation, Alive: st.Alive, End: kit.Cut(st.ProcessEnd, 500), Offset: st.Pump.Cursor.Offset}
	}
	v.Audit = st.Audit.Newest()
	v.Verdicts = s.approvals.verdictViews()
	v.Children, v.Parent = st.Child.Started, protocol.ParentOf(s.opt.Origin)
	return v
}

func (s *viewsPart) detail() protocol.SessionDetail {
	d := protocol.SessionDetail{View: s.view(), Approvals: s.placedApprovals(), Turns: s.messages.turnViews(), Seq: s.st.Pump.Seq, Taken: s.st.Requests}
	if s.st.Layout != nil {
		d.Layout = *s.st.Layout
	}
	if s.st.Lease != nil {
		spec := s.st.Lease.Spec
		d.Host = &spec
	}
	return d
}

// details returns the workflow's Markdown for the Temporal UI.
func (s *viewsPart) details() string {
	st := s.st
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(fmt.Sprintf(format, args...)) }
	say("**%s**", st.Status)
	if w := s.waitsFor(); w != "" {
		say(", waits for %s", w)
	}
	if p := protocol.ViewOfProgress(s.st.Progress); p != nil {
		say("; turn %d: %s", p.Turn, p)
	}
	say("\n\n- host: %s\n- seed: %s\n- thread: %s\n- turn: %d\n", kit.Dash(s.hostName()), kit.Dash(s.seedName()), kit.Dash(s.threadID()), st.TurnN)
	if n := s.messages.queued(); n > 0 {
		say("- queued messages: %d\n", n)
	}
	if l := st.Lost; l != nil {
		say("- host %s cannot be reached since %s (%s)\n", l.Host, l.Since.UTC().Format("2006-01-02 15:04 MST"), kit.Cut(l.Stays, 300))
	}
	if st.Error != nil {
		say("- error: %s: %s (%s)\n", st.Error.Kind, kit.Cut(st.Error.Message, 500), kit.Cut(st.Error.Hint, 300))
	}
	if sn := st.Snap; sn.Good != nil {
		say("- snapshot: %s, of turn %d\n", sn.Good.ID, sn.Good.Turn)
	}
	if f := st.Snap.Error; f != nil {
		say("- snapshot %d failed: %s: %s (%s)\n", st.Snap.Tried, f.Kind, kit.Cut(f.Message, 500), kit.Cut(f.Hint, 300))
	}
	for _, a := range st.Open() {
		say("\n**%s** (%s), until %s\n\n    %s\n", s.approvalID(a.N), a.Request.Kind,
			a.Expires.UTC().Format("2006-01-02 15:04 MST"), kit.Cut(strings.ReplaceAll(a.Request.Summary, "\n", "\n    "), 1000))
		for _, line := range asksFor(a.Request) {
			say("    %s\n", kit.Cut(strings.ReplaceAll(line, "\n", " "), 500))
		}
	}
	return kit.Cut(escape.Text(b.String()), 16<<10)
}

// asksFor returns a line for each thing to decide on beyond the summary.
func asksFor(r protocol.Request) (lines []string) {
	for _, q := range r.Questions {
		line := q.ID + ": " + q.Text
		var labels []string
		for _, o := range q.Options {
			labels = append(labels, o.Label)
		}
		if len(labels) > 0 {
			line += " (" + strings.Join(labels, ", ") + ")"
		}
		lines = append(lines, line)
	}
	if r.Kind == protocol.KindPermissions {
		//workflowcheck:ignore // JSON is a pure function
		lines = append(lines, activities.PermissionWords(r.Permissions)...)
	}
	if r.URL != "" {
		lines = append(lines, "visit "+r.URL)
	}
	return lines
}

func (s *viewsPart) tellChosen(now attributes) (more []temporal.SearchAttributeUpdate) {
	if now.name != s.shown.name {
		more = append(more, kit.AttrName.ValueSet(now.name))
	}
	switch {
	case now.archived && !s.shown.archived:
		more = append(more, kit.AttrArchived.ValueSet(true))
	case !now.archived && s.shown.archived:
		more = append(more, kit.AttrArchived.ValueUnset())
	}
	return more
}

// outOfDate reports whether the search attributes lack the present name or archived state.
func (s *viewsPart) outOfDate() bool {
	return s.shown.name != s.st.Chosen.Name || s.shown.archived != (s.st.Archived != nil)
}
