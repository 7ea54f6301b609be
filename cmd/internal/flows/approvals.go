package flows

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// askedAtOnce is how many sessions are asked for their approvals at a time.
const askedAtOnce = 8

// Approvals lists the approvals of one session, or of all that run: the open ones, or all. They
// are Checked. Of all sessions, it asks only those that may allows; nil allows each. It asks the
// sessions also, too, which Temporal's list may lack for a moment.
func (t *Conn) Approvals(ctx context.Context, session string, all bool, may func(session string) bool, also ...string) ([]protocol.Approval, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		list []protocol.Approval
		err  error
	}
	answers := map[string]*answer{}
	var g errgroup.Group
	g.SetLimit(askedAtOnce)
	ask := func(id string) {
		if answers[id] != nil || session == "" && may != nil && !may(id) {
			return
		}
		a := &answer{}
		answers[id] = a
		g.Go(func() error {
			a.err = t.Ask(ctx, "list approvals of session "+id, protocol.SessionID(id), protocol.QueryApprovals, &a.list)
			return nil
		})
	}
	if session != "" {
		if err := errkind.CheckName("session id", session); err != nil {
			return nil, err
		}
		ask(session)
	} else {
		query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", protocol.TypeSession)
		if !all {
			query += " AND FairleadApprovals > 0"
		}
		var infos []*workflowpb.WorkflowExecutionInfo
		var listErr error
		listed := make(chan struct{})
		go func() {
			defer close(listed)
			infos, listErr = t.List(ctx, "list approvals", query, 1000)
		}()
		for _, id := range also { // while Temporal makes the list
			ask(id)
		}
		<-listed
		if listErr != nil {
			cancel()
			_ = g.Wait()
			return nil, listErr
		}
		for _, info := range infos {
			ask(strings.TrimPrefix(info.GetExecution().GetWorkflowId(), "session/"))
		}
	}
	_ = g.Wait()
	ids := slices.Sorted(maps.Keys(answers))
	list, silent := []protocol.Approval{}, 0
	for _, id := range ids {
		err := answers[id].err
		if session == "" && errkind.ExitCode(err) == errkind.ExitUnreachable && ctx.Err() == nil && err != nil && silent < len(ids)-1 {
			silent++ // must not hide the others
			t.Side.Note("session %s does not answer; its approvals are not listed", id)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, ap := range answers[id].list {
			if all || ap.State == protocol.ApprovalOpen || ap.State == protocol.ApprovalUnjudged {
				list = append(list, Checked(ap))
			}
		}
	}
	return list, nil
}

// DecidedBy returns an approval as it will be after a decision.
func DecidedBy(seen protocol.SessionDetail, session string, d protocol.Decide) protocol.Approval {
	ap, err := Pick(seen.Approvals, "", d.Approval)
	if err != nil {
		ap = protocol.Approval{ID: d.Approval, Session: session, Digest: d.Digest}
	}
	ap.State = protocol.ApprovalDecided
	ap.Decision = &protocol.Decision{Outcome: d.Outcome, By: d.By, Reason: d.Reason, Scope: cmp.Or(d.Scope, "once"), At: time.Now().UTC(),
		Answers: AnswersOf(d.Answers), AnswersBlob: d.AnswersBlob, Grant: d.Grant}
	return ap
}

// Checked returns an approval with what can be found out about its digest. If it is open and
// what it shows does not give the digest, it has no digest any more, so that no script
// takes it from there.
func Checked(ap protocol.Approval) protocol.Approval {
	ap.DigestCheck = ""
	if ap.State != protocol.ApprovalOpen {
		return ap
	}
	ap, err := Verified(ap)
	if ap.DigestCheck = protocol.WordFor(err); ap.DigestCheck == protocol.DigestOther {
		ap.Digest = ""
	}
	return ap
}

// Verified checks the digest. What is shown beside its content is made anew.
func Verified(ap protocol.Approval) (protocol.Approval, error) {
	r := ap.Request()
	err := activities.Verify(r)
	if err == nil {
		ap.Summary, ap.Network, ap.Amendment = r.Summary, r.Network, r.Amendment
	}
	return ap, err
}

// InFull returns an approval with all that was asked for, instead of excerpts.
func InFull(ap protocol.Approval, req protocol.Request) protocol.Approval {
	ap.Command, ap.CWD, ap.Reason, ap.Summary = req.Command, req.CWD, req.Reason, req.Summary
	ap.Changes, ap.Truncated = req.Changes, false
	ap.Network, ap.Permissions, ap.URL, ap.Server, ap.Tool, ap.Amendment = req.Network, req.Permissions, req.URL, req.Server, req.Tool, req.Amendment
	ap.Args, ap.GrantRoot, ap.Digested = req.Args, req.GrantRoot, req.Digested
	if req.Questions != nil {
		ap.Questions = req.Questions
	}
	return ap
}
