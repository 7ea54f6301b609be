package live

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// liveWait bounds requests that only make the output more current.
const liveWait = 2 * time.Second

// Now asks the worker that is attached to a session for the current state. The session
// itself learns this state only when its pump returns. If no worker is attached or can be
// reached, live is the zero value, and trouble says why no worker is attached.
func Now(ctx context.Context, a *core.App, t *conn.Conn, session string) (live protocol.SessionLive, trouble string) {
	ctx, cancel := context.WithTimeout(ctx, min(liveWait, a.Wait(liveWait)))
	defer cancel()
	d, err := t.DescribeWorkflowExecution(ctx, protocol.SessionID(session), "")
	if err != nil {
		return protocol.SessionLive{}, ""
	}
	for _, c := range conn.Attached(a, d.GetPendingActivities()) {
		if live, err := c.Live(ctx, session); err == nil && live.Attached {
			return live, ""
		}
	}
	return protocol.SessionLive{}, troubleOf(d.GetPendingActivities(), t.Codec)
}

// troubleOf says which activity is being retried, and why. The session's own state does not
// show that its host is unreachable, because the turn counts as running meanwhile.
func troubleOf(pending []*workflowpb.PendingActivityInfo, codec *payload.Codec) string {
	for _, p := range pending {
		if why := codec.Message(p.GetLastFailure()); why != "" && p.GetAttempt() > 1 {
			return fmt.Sprintf("try %d, since the last one failed: %s", p.GetAttempt(), why)
		}
	}
	return ""
}

// goesOn reports whether a worker may be working for a session in this state.
func goesOn(s protocol.SessionStatus) bool {
	return s == protocol.Preparing || s == protocol.Starting || s == protocol.Running || s == protocol.Resuming || s == protocol.Closing
}

// freshen adds to a session the newer values that the attached worker has.
func freshen(v *protocol.SessionView, live protocol.SessionLive, trouble string) {
	if trouble != "" {
		v.Waits = trouble
	}
	if !live.Attached {
		return
	}
	if live.ThreadID != "" {
		v.ThreadID = live.ThreadID
	}
	if v.Turn != nil && live.TurnID != "" && v.Turn.Status == "inProgress" {
		v.Turn.ID = live.TurnID
	}
	if v.Process != nil && live.Offset > v.Process.Offset {
		v.Process.Offset = live.Offset
	}
	if p := protocol.ViewOfProgress(live.Progress); p != nil || live.TurnID != "" {
		v.Progress = p // the progress of the running turn, or nil if it has reported none
	}
	show.FreshenUse(v, live.Use)
	for i := range v.Messages {
		m := &v.Messages[i]
		onItsWay := m.State == string(protocol.Decided) || m.State == string(protocol.Sent)
		if onItsWay && slices.Contains(live.Acknowledged, m.ID) {
			m.State = string(protocol.Acknowledged)
		}
	}
}

// FreshenApproval updates an approval with the attached worker's values: codex may have
// acknowledged the decision.
func FreshenApproval(ap *protocol.Approval, live protocol.SessionLive) {
	_, digits, _ := core.CutLast(ap.ID)
	n, _ := strconv.Atoi(digits) // cannot fail: the session made the id
	onItsWay := ap.State == protocol.ApprovalDecided || ap.State == protocol.ApprovalSent
	if onItsWay && slices.Contains(live.Acknowledged, protocol.SendID(ap.Session, n)) {
		ap.State = protocol.ApprovalAcknowledged
	}
}

// FreshenAll queries the sessions of a list that have not ended. A session that does
// not answer in time stays as it is in the list, which comes from Temporal's records.
func FreshenAll(ctx context.Context, a *core.App, t *conn.Conn, list []protocol.SessionView) {
	ctx, cancel := context.WithTimeout(ctx, liveWait)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(8)
	for i := range list {
		if list[i].State == protocol.Closed || list[i].State == protocol.Failed {
			continue
		}
		g.Go(func() error {
			id := list[i].ID
			var v protocol.SessionView
			if t.Query(ctx, "show session "+id, protocol.SessionID(id), protocol.QueryState, &v) == nil {
				if goesOn(v.State) {
					live, trouble := Now(ctx, a, t, id)
					freshen(&v, live, trouble)
				}
				list[i] = v
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return no errors
}

// Session returns a session as it reports itself. If no worker answers, it returns the
// session as Temporal keeps it.
func Session(ctx context.Context, a *core.App, t *conn.Conn, id string) (protocol.SessionView, error) {
	var v protocol.SessionView
	if err := core.CheckName("session id", id); err != nil {
		return v, err
	}
	err := t.Ask(ctx, "show session "+id, protocol.SessionID(id), protocol.QueryState, &v)
	if err == nil && v.State != protocol.Closed && v.State != protocol.Failed {
		// A workflow that was terminated from outside still answers queries as if it ran.
		if kept, kerr := t.Kept(ctx, id); kerr == nil && kept.Error != nil {
			v.State, v.Waits, v.Error, v.UpdatedAt = kept.State, "", kept.Error, kept.UpdatedAt
		}
	}
	if err == nil && goesOn(v.State) {
		live, trouble := Now(ctx, a, t, id)
		freshen(&v, live, trouble)
	}
	if err == nil || core.ExitCode(err) != core.ExitUnreachable {
		return v, err
	}
	kept, kerr := t.Kept(ctx, id)
	if kerr != nil {
		return v, err
	}
	a.Note("no worker answers: this is what Temporal keeps")
	return kept, nil
}
