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
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// liveWait bounds requests for more current output.
const liveWait = 2 * time.Second

// Now asks the attached worker for the state, which the session learns only when its pump
// returns. Without such a worker live is zero, and trouble says why.
func Now(ctx context.Context, a *core.App, t *conn.Conn, session string) (live protocol.SessionLive, trouble string) {
	ctx, cancel := context.WithTimeout(ctx, min(liveWait, a.Wait(liveWait)))
	defer cancel()
	d, err := t.DescribeWorkflowExecution(ctx, protocol.SessionID(session), "")
	if err != nil {
		return protocol.SessionLive{}, ""
	}
	for _, c := range conn.Attached(a, t, d.GetPendingActivities()) {
		if live, err := c.Live(ctx, session); err == nil && live.Attached {
			return live, ""
		}
	}
	return protocol.SessionLive{}, troubleOf(d.GetPendingActivities(), t.Codec)
}

// troubleOf says which activity is retried, and why: a session on an unreachable host still
// says that its turn runs.
func troubleOf(pending []*workflowpb.PendingActivityInfo, codec *payload.Codec) string {
	for _, p := range pending {
		if why := codec.Message(p.GetLastFailure()); why != "" && p.GetAttempt() > 1 {
			return fmt.Sprintf("try %d, since the last one failed: %s", p.GetAttempt(), why)
		}
	}
	return ""
}

// goesOn reports whether a worker may be at work.
func goesOn(s protocol.SessionStatus) bool {
	return s == protocol.Preparing || s == protocol.Starting || s == protocol.Running || s == protocol.Resuming || s == protocol.Closing
}

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
		v.Progress = p // nil if the turn reported none
	}
	if live.Notices != nil || live.TurnID != "" {
		v.Notices = live.Notices
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

// FreshenAccounts asks the sessions that hold logins, and the workers that are attached to
// them, how much of the logins is used, and adds the answers to the views. What is not
// answered in time is left as it was.
func FreshenAccounts(ctx context.Context, a *core.App, t *conn.Conn, list []protocol.SeedView) {
	ctx, cancel := context.WithTimeout(ctx, 2*liveWait)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(8)
	for i := range list {
		v := &list[i]
		g.Go(func() error {
			if holder := t.FreshenAccount(ctx, v); goesOn(holder.State) {
				if live, _ := Now(ctx, a, t, holder.ID); live.Use != nil {
					v.Account = v.Account.With(protocol.ViewRateLimits(live.Use.RateLimits), time.Now())
				}
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return no errors
}

// FreshenApproval notes that codex has acknowledged a decision.
func FreshenApproval(ap *protocol.Approval, live protocol.SessionLive) {
	_, digits, _ := core.CutLast(ap.ID)
	n, _ := strconv.Atoi(digits) // cannot fail: the session made the id
	onItsWay := ap.State == protocol.ApprovalDecided || ap.State == protocol.ApprovalSent
	if onItsWay && slices.Contains(live.Acknowledged, protocol.SendID(ap.Session, n)) {
		ap.State = protocol.ApprovalAcknowledged
	}
}

// FreshenAll queries sessions that have not ended. Those that do not answer in time keep
// Temporal's record.
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
				return nil
			}
			t.MarkLeft(&list[i])
			return nil
		})
	}
	_ = g.Wait() // the functions return no errors
}

// Session returns a session's report, or Temporal's record if no worker answers.
func Session(ctx context.Context, a *core.App, t *conn.Conn, id string) (protocol.SessionView, error) {
	var v protocol.SessionView
	if err := core.CheckName("session id", id); err != nil {
		return v, err
	}
	err := t.Ask(ctx, "show session "+id, protocol.SessionID(id), protocol.QueryState, &v)
	if err == nil && v.State != protocol.Closed && v.State != protocol.Failed {
		// A terminated workflow answers queries as if it ran.
		if kept, kerr := t.Kept(ctx, id); kerr == nil && kept.Error != nil {
			v.State, v.Waits, v.Error, v.UpdatedAt = kept.State, "", kept.Error, kept.UpdatedAt
		}
	}
	if err == nil && !flows.HasEnded(v.State) && t.MarkLeft(&v) {
		return v, nil
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
	if !t.MarkLeft(&kept) {
		a.Note("no worker answers: this is what Temporal keeps")
	}
	return kept, nil
}
