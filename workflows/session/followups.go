package session

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// After a turn that a rule applies to, a second session goes on from the snapshot of that
// turn. If the session closes first, it goes on from the snapshot that closing takes.

type followsPart struct {
	*core
	snaps    *snapsPart
	leases   *leasesPart
	children *childrenPart

	ended    workflow.ReceiveChannel // of follow-ups
	starting int
	watches  bool // startWhenKept runs
}

type followState struct {
	Follow followUps `json:"follow,omitzero"`
}

type followUps struct {
	N       int                     `json:"n,omitempty"` // newest number; each is used once
	Counts  map[string]int          `json:"counts,omitempty"`
	Due     []dueFollowUp           `json:"due,omitempty"`
	Started []protocol.FollowUpView `json:"started,omitempty"` // newest last
	// Owner is the principal whose start of the session was judged, and Groups are those that
	// the owner's login named.
	Owner  string   `json:"owner,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// Rules are those of the seed.
	Rules *seedRules `json:"rules,omitempty"`
}

// dueFollowUp waits for a snapshot with at least the number Snap.
type dueFollowUp struct {
	Name string `json:"name"`
	Turn int    `json:"turn"`
	Snap int    `json:"snap"`
}

const (
	keepFollowUps = 20
	maxSessionID  = 63
	// followUpTries bounds the ids that are tried for a follow-up. An id may be in use: ids of
	// follow-ups of sessions that began before v0.2 can be guessed.
	followUpTries = 5
)

func (o Options) checkFollowUps() error {
	if err := protocol.CheckFollowUps(o.FollowUps); err != nil {
		return err
	}
	for _, r := range o.FollowUps {
		//workflowcheck:ignore // a pure function
		if err := conversation.CheckPatterns(r.Files); err != nil {
			return fmt.Errorf("follow-up %s: files: %w", r.Name, err)
		}
	}
	switch {
	case len(o.FollowUps) == 0:
	case o.Snapshot.When == protocol.SnapshotOff:
		return errors.New("follow-ups go on from snapshots, and the session takes none")
	case strings.HasPrefix(o.Origin, protocol.SessionOrigins):
		return errors.New("a follow-up has no follow-ups")
	}
	return nil
}

// turnEnded looks which rules apply to a turn.
func (s *followsPart) turnEnded(t *conversation.TurnEnd) {
	rules := s.rules()
	if len(rules) == 0 || t.Status != "completed" || t.Problem != nil || t.Foreign {
		return
	}
	f := &s.st.Follow
	if f.Counts == nil {
		f.Counts = map[string]int{}
	}
	for _, r := range rules {
		var due bool
		switch {
		case r.Turns > 0:
			f.Counts[r.Name]++
			due = f.Counts[r.Name] >= r.Turns
		case r.ToolCalls > 0:
			f.Counts[r.Name] += t.Tools
			due = f.Counts[r.Name] >= r.ToolCalls
		default:
			due = slices.Contains(t.Touched, r.Name)
		}
		if !due {
			continue
		}
		f.Counts[r.Name] = 0
		f.Due = slices.DeleteFunc(f.Due, func(d dueFollowUp) bool { return d.Name == r.Name }) // one for both turns
		f.Due = append(f.Due, dueFollowUp{Name: r.Name, Turn: s.st.TurnN})
	}
	if len(f.Due) == 0 {
		return
	}
	n := s.st.Snap.N + 1 // closing takes a snapshot anyway
	if s.st.Close == nil || s.st.Snap.Wish != nil {
		n = s.snaps.wantSnapshot()
	}
	for i := range f.Due {
		f.Due[i].Snap = n
	}
}

// turnBroken gives up what is due, because every later snapshot has a turn that did not
// complete.
func (s *followsPart) turnBroken(status string) {
	due := s.st.Follow.Due
	s.st.Follow.Due = nil
	for _, d := range due {
		s.notStarted(d, &protocol.Failure{Kind: "state", Message: fmt.Sprintf("turn %d was %s before a snapshot had turn %d", s.st.TurnN, status, d.Turn)})
	}
}

// kept reports whether there is a snapshot for what is due, or never will be one.
func (s *followsPart) kept() (ok, never bool) {
	f, sn := &s.st.Follow, &s.st.Snap
	switch {
	case len(f.Due) == 0 || s.st.Close != nil || s.st.Status == protocol.Failed:
		return false, false
	case sn.Good != nil && sn.GoodN >= f.Due[0].Snap:
		return !sn.Mid, false // one that was taken within a turn is followed by another
	}
	return false, sn.Tried >= f.Due[0].Snap && sn.RetryAt.IsZero() && sn.Wish == nil && sn.Taking == nil
}

func (s *followsPart) startWhenKept(ctx workflow.Context) {
	for {
		var ok, never bool
		if workflow.Await(ctx, func() bool { ok, never = s.kept(); return ok || never }) != nil {
			return
		}
		d := s.st.Follow.Due[0]
		s.st.Follow.Due = s.st.Follow.Due[1:]
		if ok {
			s.start(ctx, d, s.st.Snap.Good.ID)
		} else {
			s.notStarted(d, s.st.Snap.Error)
		}
	}
}

// startFromLast starts what is due when the session ends. It reports whether that was
// something.
func (s *followsPart) startFromLast() bool {
	due := s.st.Follow.Due
	s.st.Follow.Due = nil
	for _, d := range due {
		from := s.lastOf(d)
		switch {
		case s.st.Status == protocol.Failed:
			s.notStarted(d, s.st.Error)
		case from == "":
			s.notStarted(d, &protocol.Failure{Kind: "state", Message: fmt.Sprintf("no snapshot has turn %d", d.Turn)})
		default:
			s.start(s.ctx, d, from)
		}
	}
	if err := workflow.Await(s.ctx, func() bool { return s.starting == 0 }); err != nil {
		s.log.Error("a follow-up was not waited for", "error", err)
	}
	return len(due) > 0
}

// lastOf returns the newest snapshot of a session that ends, if it has the turn; or "".
func (s *followsPart) lastOf(d dueFollowUp) string {
	good, sn := s.snaps.goodSnapshot(), &s.st.Snap
	if c := s.st.Closed; c != nil && c.Archive != "" && c.Archive != good {
		return c.Archive // that closing took
	}
	if sn.GoodN >= d.Snap && !sn.Mid {
		return good
	}
	return ""
}

func (s *followsPart) notStarted(d dueFollowUp, why *protocol.Failure) {
	s.add(protocol.FollowUpView{Name: d.Name, Turn: d.Turn, State: string(protocol.Failed), Error: why, EndedAt: workflow.Now(s.ctx)})
	s.note(conversation.Note{Type: protocol.EntryState, Turn: d.Turn, Text: fmt.Sprintf("follow-up %s of turn %d was not started", d.Name, d.Turn), Data: failureData(why)})
}

func (s *followsPart) add(v protocol.FollowUpView) {
	f := &s.st.Follow
	f.Started = append(f.Started, v)
	if n := len(f.Started) - keepFollowUps; n > 0 {
		f.Started = f.Started[n:]
	}
	s.st.UpdatedAt = workflow.Now(s.ctx)
}

func (s *followsPart) start(ctx workflow.Context, d dueFollowUp, snapshot string) {
	r, ok := s.rule(d.Name)
	if !ok {
		s.notStarted(d, &protocol.Failure{Kind: protocol.RefusedState, Message: "the seed of the session no longer has the rule"})
		return
	}
	s.starting++
	defer func() { s.starting-- }()
	id, err := s.startNext(ctx, r, d, snapshot)
	if err != nil {
		s.notStarted(d, kit.FailureOf("start follow-up "+d.Name, err))
		return
	}
	s.add(protocol.FollowUpView{Name: d.Name, Turn: d.Turn, Session: id, State: protocol.FollowUpStarted, StartedAt: workflow.Now(ctx)})
	s.note(conversation.Note{Type: protocol.EntryState, Turn: d.Turn, Text: fmt.Sprintf("follow-up %s of turn %d: session %s", d.Name, d.Turn, id),
		Data: map[string]string{"follow_up": d.Name, "session": id}})
}

func (s *followsPart) startNext(ctx workflow.Context, r protocol.FollowUp, d dueFollowUp, snapshot string) (id string, err error) {
	if s.admission.Signed && s.st.Follow.Owner == "" {
		return "", errNobody()
	}
	for range followUpTries {
		s.st.Follow.N++
		var tag string
		if tag, err = tagOf(ctx, "follow-ups have ids of their own"); err != nil {
			return "", err
		}
		id = followUpID(s.id, r.Name, s.st.Follow.N, tag)
		in := NewInput(id, s.followUpOptions(r, snapshot), &protocol.Message{ID: "follow-up", Text: r.Prompt, By: s.opt.By})
		var began workflow.Future
		if began, err = s.begin(ctx, in); err != nil {
			return "", err
		}
		err = began.Get(ctx, nil)
		var taken *temporal.ChildWorkflowExecutionAlreadyStartedError
		if !errors.As(err, &taken) {
			break
		}
		s.note(conversation.Note{Type: protocol.EntryState, Turn: d.Turn, Text: fmt.Sprintf("follow-up %s of turn %d: the id %s is another workflow's: it gets another id", r.Name, d.Turn, id)})
	}
	return id, err
}

// begin starts another session in the name of this one's owner. The future is ready once
// that session has begun.
func (s *followsPart) begin(ctx workflow.Context, in Input) (workflow.Future, error) {
	if s.admission.Signed {
		if s.st.Follow.Owner == "" {
			return nil, errNobody()
		}
		in.Judged, in.Groups = s.st.Follow.Owner, s.st.Follow.Groups
	}
	return workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: protocol.SessionID(in.ID), TaskQueue: protocol.TaskQueueOf(s.opt.Zone), StaticSummary: "codex session " + in.ID,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, ParentClosePolicy: enums.PARENT_CLOSE_POLICY_ABANDON,
	}), protocol.TypeSession, in).GetChildWorkflowExecution(), nil
}

func errNobody() error {
	return kit.Refuse(protocol.RefusedForbidden, "the session began when nobody had to sign, so nobody's rights count for it")
}

// tagOf returns the part of an id that nobody can know before the workflow of that id is
// started: somebody who may start workflows could otherwise take the id first. Sessions that
// began before the change have none.
func tagOf(ctx workflow.Context, change string) (tag string, err error) {
	if workflow.GetVersion(ctx, change, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return "", nil
	}
	err = workflow.SideEffect(ctx, func(workflow.Context) any {
		var b [5]byte
		rand.Read(b[:]) // is recorded
		return hex.EncodeToString(b[:])
	}).Get(&tag)
	return tag, err
}

// followUpID is the first session's id with the rule, a number and a tag. A long id is cut, and
// has a digest of the whole one.
func followUpID(session, rule string, n int, tag string) string {
	tail := fmt.Sprintf("-%s-%d", rule, n)
	if tag != "" {
		tail += "-" + tag
	}
	if len(session)+len(tail) > maxSessionID {
		//workflowcheck:ignore // a digest is a pure function
		sum := sha256.Sum256([]byte(session))
		tail = "-" + hex.EncodeToString(sum[:3]) + tail
		session = session[:maxSessionID-len(tail)]
	}
	return session + tail
}

func (s *followsPart) followUpOptions(r protocol.FollowUp, snapshot string) Options {
	o := s.opt
	o.From, o.Origin, o.Notify, o.CloseAfter, o.FollowUps = snapshot, protocol.OriginSession(s.id), protocol.SessionID(s.id), true, nil
	o.Dir, o.Workspace, o.Files = "", workspaces.Workspace{}, s.st.Files
	o.Model, o.Effort = cmp.Or(r.Model, s.st.Model, o.Model), cmp.Or(r.Effort, s.st.Effort, o.Effort)
	o.ApprovalPolicy, o.Bounds = cmp.Or(r.ApprovalPolicy, o.ApprovalPolicy), r.Bounds
	if r.Sandbox != "" {
		o.Sandbox, o.Confine.Profile = r.Sandbox, ""
	}
	if r.Seed != "" || r.SeedPool != "" {
		o.Seed, o.SeedPool = r.Seed, r.SeedPool
	}
	o.Children = nil // the bound of a tree of sessions is that of its first session
	o.ParkAfter, o.TTL = 0, min(cmp.Or(o.TTL, followUpTTL), followUpTTL)
	return o
}

// followUpTTL bounds the life of a follow-up.
const followUpTTL = 24 * time.Hour

// drainEnded takes the ends of follow-ups.
func (s *followsPart) drainEnded() {
	for _, e := range kit.Unread[protocol.SessionEnded](s.ended) {
		if s.children.ended(e) {
			continue
		}
		i := slices.IndexFunc(s.st.Follow.Started, func(v protocol.FollowUpView) bool { return v.Session == e.ID && v.State == protocol.FollowUpStarted })
		if i < 0 {
			continue
		}
		v := &s.st.Follow.Started[i]
		v.State, v.Error, v.EndedAt = string(e.State), e.Failure, e.EndedAt
		if t := e.Turn; t != nil {
			v.Status = t.Status
			v.Text = kit.Cut(t.FinalText, protocol.MaxFollowUpText)
			v.Truncated = t.FinalTruncated || len(v.Text) < len(t.FinalText)
			if v.Error == nil {
				v.Error = t.Error
			}
		}
		s.note(conversation.Note{Type: protocol.EntryState, Turn: v.Turn, Text: fmt.Sprintf("follow-up %s of turn %d ended: %s", v.Name, v.Turn, cmp.Or(v.Text, v.State)),
			Data: map[string]string{"follow_up": v.Name, "session": v.Session, "status": v.Status}})
		s.st.UpdatedAt = workflow.Now(s.ctx)
	}
}
