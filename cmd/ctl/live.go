package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/workflows"
)

// liveWait bounds requests that only make the output more current.
const liveWait = 2 * time.Second

// live asks the worker that is attached to a session for the current state, which the
// session learns only when its pump returns. Without an attached or reachable worker, live
// is the zero value, and trouble says why none is attached.
func (a *app) live(ctx context.Context, t *temporal, session string) (live activities.SessionLive, trouble string) {
	ctx, cancel := context.WithTimeout(ctx, min(liveWait, a.wait(liveWait)))
	defer cancel()
	d, err := t.DescribeWorkflowExecution(ctx, workflows.SessionID(session), "")
	if err != nil {
		return activities.SessionLive{}, ""
	}
	for _, c := range a.attached(d.GetPendingActivities()) {
		if live, err := c.Live(ctx, session); err == nil && live.Attached {
			return live, ""
		}
	}
	return activities.SessionLive{}, troubleOf(d.GetPendingActivities(), t.codec)
}

// troubleOf says which activity is being retried, and why. A session does not show that its
// host is unreachable: the turn counts as running all the while.
func troubleOf(pending []*workflowpb.PendingActivityInfo, codec *payload.Codec) string {
	for _, p := range pending {
		if why := codec.Message(p.GetLastFailure()); why != "" && p.GetAttempt() > 1 {
			return fmt.Sprintf("try %d, since the last one failed: %s", p.GetAttempt(), why)
		}
	}
	return ""
}

// goesOn reports whether a worker may be working for a session in this state.
func goesOn(s workflows.SessionStatus) bool {
	return s == workflows.Preparing || s == workflows.Starting || s == workflows.Running || s == workflows.Resuming || s == workflows.Closing
}

// freshen adds to a session what the attached worker knows.
func freshen(v *workflows.SessionView, live activities.SessionLive, trouble string) {
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
	if p := workflows.ViewOfProgress(live.Progress); p != nil || live.TurnID != "" {
		v.Progress = p // the progress of the running turn, or nil if it has reported none
	}
	freshenUse(v, live.Use)
	for i := range v.Messages {
		m := &v.Messages[i]
		onItsWay := m.State == string(activities.Decided) || m.State == string(activities.Sent)
		if onItsWay && slices.Contains(live.Acknowledged, m.ID) {
			m.State = string(activities.Acknowledged)
		}
	}
}

// freshenApproval does the same for an approval: codex may have acknowledged the decision.
func freshenApproval(ap *workflows.Approval, live activities.SessionLive) {
	_, digits, _ := cutLast(ap.ID)
	n, _ := strconv.Atoi(digits) // cannot fail: the session made the id
	onItsWay := ap.State == workflows.ApprovalDecided || ap.State == workflows.ApprovalSent
	if onItsWay && slices.Contains(live.Acknowledged, workflows.SendID(ap.Session, n)) {
		ap.State = workflows.ApprovalAcknowledged
	}
}

// freshenAll queries the sessions of a list that have not ended. A session that does not
// answer in time is shown as Temporal keeps it.
func (a *app) freshenAll(ctx context.Context, t *temporal, list []workflows.SessionView) {
	ctx, cancel := context.WithTimeout(ctx, liveWait)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(8)
	for i := range list {
		if list[i].State == workflows.Closed || list[i].State == workflows.Failed {
			continue
		}
		g.Go(func() error {
			id := list[i].ID
			var v workflows.SessionView
			if t.query(ctx, "show session "+id, workflows.SessionID(id), workflows.QueryState, &v) == nil {
				if goesOn(v.State) {
					live, trouble := a.live(ctx, t, id)
					freshen(&v, live, trouble)
				}
				list[i] = v
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return no errors
}
