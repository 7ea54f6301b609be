package httpapi

import (
	"context"
	"net/http"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

type approvalsInput struct {
	Session string `query:"session" doc:"only this session's"`
	All     bool   `query:"all" doc:"also those decided, expired or void"`
	Paged
}

// OfApproval names an approval in a path.
type OfApproval struct {
	ID string `path:"id" doc:"approval: SESSION.N"`
}

type decideInput struct {
	OfApproval
	Keyed
	Body DecideApproval
}

func (a *API) addApprovals() {
	add(a, spot{method: http.MethodGet, path: "/v1/approvals", id: "listApprovals", summary: "List approvals, the oldest first"}, a.approvals)
	add(a, spot{method: http.MethodGet, path: "/v1/approvals/{id}", id: "showApproval", summary: "Show an approval in full", verb: access.SessionRead, session: ofApproval},
		func(ctx context.Context, in *OfApproval) (*Body[protocol.Approval], error) {
			return answer(a.sessions.Approval(ctx, in.ID))
		})
	add(a, spot{method: http.MethodPost, path: "/v1/approvals/{id}/decision", id: "decideApproval", summary: "Decide an approval", verb: access.ApprovalDecide, session: ofApproval},
		func(ctx context.Context, in *decideInput) (*Body[protocol.Approval], error) {
			b := in.Body
			return answer(a.sessions.Decide(ctx, in.of(ctx), protocol.Decide{
				Approval: in.ID, Digest: b.Digest, Outcome: b.Outcome, Scope: b.Scope, Reason: b.Reason,
				Answers: b.Answers, AnswersBlob: b.AnswersBlob, Grant: b.Grant, Signature: b.Signature, Passkey: b.Passkey,
			}))
		})
}

func (a *API) approvals(ctx context.Context, in *approvalsInput) (*Body[Page[protocol.Approval]], error) {
	if in.Session != "" {
		if _, err := sessionID(in.Session); err != nil {
			return nil, badInput("session: %v", err)
		}
		if !a.records.MayRead(ctx, in.Session) {
			return nil, problem(http.StatusForbidden, "forbidden", "session "+in.Session+" does not exist, or you may not read it", "`ctl access why` says which bindings were looked at")
		}
	}
	leave, err := a.lists.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	list, err := a.sessions.Approvals(ctx, in.Session, in.All, func(session string) bool { return a.records.MayRead(ctx, session) })
	if err != nil {
		return nil, err
	}
	of := "approvals " + in.Session
	if in.All {
		of += " all"
	}
	return answer(pageByTime(in.Paged, of, list, func(ap protocol.Approval) mark { return mark{ap.AskedAt, ap.ID} }))
}
