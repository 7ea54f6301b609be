package apiflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/passkey"
	"fairlead.dev/fairlead/internal/protocol"
)

// approvalsWait bounds a list of approvals, which asks each session.
const approvalsWait = time.Minute

// mostWaiting bounds the sessions whose approvals are followed.
const mostWaiting = 1000

// Approvals implements httpapi.Sessions.
func (b *Backend) Approvals(ctx context.Context, session string, all bool, may func(string) bool) ([]protocol.Approval, error) {
	t, err := b.conn()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, approvalsWait)
	defer cancel()
	var also []string
	if b.opts.Asking != nil && session == "" && !all {
		also = b.opts.Asking()
	}
	list, err := t.Approvals(ctx, session, all, may, also...)
	if ctx.Err() == context.DeadlineExceeded { // what may read then is not known
		return nil, errkind.TimedOut("list approvals: not all sessions answered within %s", approvalsWait).Hinted("name a session")
	}
	return list, err
}

// Waiting lists the sessions with open approvals. The text of a session changes when the list shows a
// change of the session.
func (b *Backend) Waiting(ctx context.Context) (map[string]string, error) {
	t, err := b.conn()
	if err != nil {
		return nil, err
	}
	infos, err := t.List(ctx, "list approvals", fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND FairleadApprovals > 0", protocol.TypeSession), mostWaiting)
	if err != nil {
		return nil, err
	}
	looks := map[string]string{}
	for _, info := range infos {
		v, attrs := flows.KeptView(info, t.Codec), info.GetSearchAttributes().GetIndexedFields()
		looks[v.ID] = fmt.Sprint(info.GetExecution().GetRunId(), " ", v.State, " ", v.Waits, " ", flows.Attr[int64](attrs, "FairleadApprovals"), " ", flows.Attr[int64](attrs, "FairleadTurn"))
	}
	return looks, nil
}

// Asks returns the approvals of a session, if a worker answers.
func (b *Backend) Asks(ctx context.Context, session string) (list []protocol.Approval, err error) {
	t, err := b.conn()
	if err != nil {
		return nil, err
	}
	return list, t.Query(ctx, "list approvals of session "+session, protocol.SessionID(session), protocol.QueryApprovals, &list)
}

// Checked is flows.Checked.
func (b *Backend) Checked(ap protocol.Approval) protocol.Approval { return flows.Checked(ap) }

// Approval implements httpapi.Sessions.
func (b *Backend) Approval(ctx context.Context, id string) (ap protocol.Approval, err error) {
	t, err := b.conn()
	if err != nil {
		return ap, err
	}
	session, _, _ := protocol.CutApproval(id)
	doing := "show approval " + id
	var list []protocol.Approval
	if err := t.Ask(ctx, doing, protocol.SessionID(session), protocol.QueryApprovals, &list); err != nil {
		return ap, err
	}
	if ap, err = flows.Pick(list, doing, id); err != nil {
		return ap, err
	}
	if ap.Truncated {
		req, err := b.store.Whole(ctx, session, ap.Digest)
		if err != nil {
			return ap, err
		}
		ap = flows.InFull(ap, req)
	}
	if ap = flows.Checked(ap); ap.DigestCheck == protocol.DigestOther {
		return ap, errkind.Refused("%s: %v", doing, protocol.ErrOtherContent)
	}
	return ap, nil
}

// Decide implements httpapi.Sessions.
func (b *Backend) Decide(ctx context.Context, key string, d protocol.Decide) (ap protocol.Approval, err error) {
	t, err := b.conn()
	if err != nil {
		return ap, err
	}
	d.By = b.by(ctx)
	doing := d.Outcome + " approval " + d.Approval
	session, _, _ := protocol.CutApproval(d.Approval)
	unproved, err := b.proved(ctx, doing, &d)
	if err != nil {
		return ap, err
	}
	own, err := b.again(ctx, t, key, protocol.SignalDecide, session, doing, d)
	if err != nil {
		return ap, err
	}
	request := ""
	if key != "" {
		request = own
	}
	msg := flows.Delivery{Doing: doing, Session: session, Name: protocol.SignalDecide, UpdateID: own, Msg: withRequest(d, request), Again: true, Check: flows.Decidable(doing, d)}
	seen, live, lookErr := msg.Look(ctx, t)
	if lookErr == nil && protocol.Took(seen.Taken, msg.Name, d.By, request) != nil {
		return flows.Pick(seen.Approvals, doing, d.Approval)
	}
	if err := public(doing, seen, d, lookErr); err != nil {
		return ap, err
	}
	kept, err := sendOnce(ctx, t, msg, request, d, seen, live, lookErr, &ap)
	if key != "" && err != nil && errkind.ExitCode(err) == errkind.ExitRefused {
		// The session may have continued as new since the first request with this key, and its
		// worker may not know ids of requests.
		if was, perr := flows.Pick(seen.Approvals, doing, d.Approval); perr == nil && decidedAs(doing, was, d) {
			return was, nil
		}
	}
	if err != nil && unproved != nil {
		return ap, unproved // the worker has put the refusal on record
	}
	if err != nil {
		return ap, err
	}
	if kept {
		return flows.DecidedBy(seen, session, d), nil
	}
	return ap, flows.Ours(doing, ap, d)
}

// proved verifies the passkey of a decision, and adds its public key. One that does not count goes
// on without: the worker of the session refuses it then, and puts that on record. unproved says why
// it does not count.
func (b *Backend) proved(ctx context.Context, doing string, d *protocol.Decide) (unproved, err error) {
	if d.Passkey == nil {
		return nil, nil
	}
	p := *d.Passkey
	p.PublicKey = ""
	if b.opts.Passkeys != nil {
		who, _, _ := api.Principal(ctx)
		p, unproved = b.opts.Passkeys.Used(ctx, who, p)
	}
	d.Passkey = &p
	if errors.Is(unproved, passkey.ErrUnknown) {
		return nil, errkind.Unreachable("%s: %v", doing, unproved).Because(unproved)
	}
	if unproved != nil {
		unproved = errkind.New(errkind.ExitRefused, errkind.PasskeyNeeded, "%s: %v", doing, unproved).Because(unproved).
			Hinted("look at the approval again, and decide it with one of your passkeys")
	}
	return unproved, nil
}

// decidedAs reports whether an approval was decided by the principal of d, and as d says.
func decidedAs(doing string, ap protocol.Approval, d protocol.Decide) bool {
	return ap.Decision != nil && flows.Ours(doing, ap, d) == nil && slices.Contains(strings.Split(ap.Decision.By, ", "), d.By)
}

// public refuses answers that may be secret: Temporal keeps them.
func public(doing string, seen protocol.SessionDetail, d protocol.Decide, lookErr error) error {
	if len(d.Answers) == 0 {
		return nil
	}
	if lookErr != nil {
		var e *errkind.Error
		if errors.As(lookErr, &e) {
			return lookErr
		}
		return errkind.Unreachable("%s: the questions cannot be read now, so nobody can know which answers are secret", doing).Because(lookErr)
	}
	var answers map[string]any
	if err := json.Unmarshal(d.Answers, &answers); err != nil {
		return errkind.Usage("%s: answers: want an object with a text or a list of texts for each question", doing).Because(err)
	}
	ap, err := flows.Pick(seen.Approvals, doing, d.Approval)
	if err != nil {
		return err
	}
	for id := range answers {
		if slices.ContainsFunc(ap.Questions, func(q protocol.Question) bool { return q.ID == id && q.Secret }) {
			return errkind.Usage("%s: the answer to %s is secret", doing, id).
				Hinted("POST it to /v1/sessions/%s/requests/%s/answers, and give answers_blob", ap.Session, ap.Digest)
		}
	}
	return nil
}
