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

// liveWait bounds how long ctl asks for what only makes its answer fresher.
const liveWait = 2 * time.Second

// live asks the worker that is attached to a session where it is. The session
// itself learns of it only when its pump returns. Where nobody is attached, or
// the worker cannot be reached, it is the zero value; trouble says what keeps
// one from being attached.
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

// troubleOf says what is tried again and again, and why: a host that cannot be
// reached for hours is a running turn to its session.
func troubleOf(pending []*workflowpb.PendingActivityInfo, codec *payload.Codec) string {
	for _, p := range pending {
		if why := codec.Message(p.GetLastFailure()); why != "" && p.GetAttempt() > 1 {
			return fmt.Sprintf("try %d, since the last one failed: %s", p.GetAttempt(), why)
		}
	}
	return ""
}

// goesOn says that somebody may be at work for a session in this state.
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
		v.Progress = p // of a turn that runs, or none of that yet
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

// freshenApproval is freshen for a decision on its way: codex may have it by now.
func freshenApproval(ap *workflows.Approval, live activities.SessionLive) {
	_, digits, _ := cutLast(ap.ID)
	n, _ := strconv.Atoi(digits) // the session made the id
	onItsWay := ap.State == workflows.ApprovalDecided || ap.State == workflows.ApprovalSent
	if onItsWay && slices.Contains(live.Acknowledged, workflows.SendID(ap.Session, n)) {
		ap.State = workflows.ApprovalAcknowledged
	}
}

// freshenAll asks the sessions of a list that have not ended how they are. What
// does not answer in time is left as Temporal keeps it.
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
	_ = g.Wait() // none fails
}
