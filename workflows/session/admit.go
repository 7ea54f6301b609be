package session

import (
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/admit"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// commandState is what a session remembers of signed commands.
type commandState struct {
	Commands command.Nonces `json:"commands,omitzero"`
}

// verbs say what a principal needs a role for.
var verbs = map[string]access.Verb{
	protocol.SignalBudget:    access.SessionSet,
	protocol.SignalMessage:   access.SessionMessage,
	protocol.SignalDecide:    access.ApprovalDecide,
	protocol.SignalInterrupt: access.SessionInterrupt,
	protocol.SignalClose:     access.SessionClose,
	protocol.SignalPark:      access.SessionPark,
	protocol.SignalSet:       access.SessionSet,
	protocol.SignalUnsend:    access.SessionMessage,
	protocol.SignalModels:    access.SessionSet,
	protocol.SignalArchive:   access.SessionPark,
	protocol.SignalUnarchive: access.SessionPark,
	protocol.SignalResume:    access.SessionPark,
	protocol.SignalSnapshot:  access.SnapshotWrite,
	protocol.UpdatePush:      access.SessionExec,
}

// An admission tells, for a run of the workflow, whether its worker had an authority when
// the run began, and its verdict on the start. It is part of histories.
type admission struct {
	Signed bool              `json:"signed"` // commands must be signed
	Start  authority.Verdict `json:"start"`
	User   string            `json:"user,omitempty"` // the worker's
}

// admitStart records whether commands to this run must be signed, and judges who starts the
// session. Runs that began before v0.2 take signals from everybody until they continue as
// new.
func admitStart(ctx workflow.Context, in Input) (admission, error) {
	var a admission
	if !admit.Judges(ctx) {
		return a, nil
	}
	info := workflow.GetInfo(ctx)
	err := workflow.SideEffect(ctx, func(workflow.Context) any {
		k := authority.Of(ctx)
		goesOn := info.ContinuedExecutionRunID != "" // authority.Interceptor admits only what a worker passed on
		switch {
		case k == nil || in.Carry != nil && goesOn:
			return admission{Signed: k != nil, User: unixUser()}
		case in.Carry != nil:
			return admission{Signed: true, User: unixUser(), Start: authority.Verdict{Refused: "it has the state of an earlier run, and only that run may pass it on"}}
		case info.ParentWorkflowExecution != nil && in.Auth == nil && authority.BegunByWorker(ctx):
			// A schedule's firing, which was judged.
			return admission{Signed: true, User: unixUser(), Start: k.Allows(in.Options.By, access.SessionStart, startObject(in, in.Options.By))}
		}
		raw, err := command.Marshal(in)
		if err != nil {
			return admission{Signed: true, User: unixUser(), Start: authority.Verdict{Refused: err.Error()}}
		}
		return admission{Signed: true, User: unixUser(), Start: k.Judge(authority.Command{
			Received: command.Received{Workflow: info.WorkflowExecution.ID, Name: protocol.TypeSession, Kind: command.Start, Raw: raw, Waited: admit.KeptFor},
			Verb:     access.SessionStart,
			Object:   startObject(in, principalOf(in.Auth)),
		})}
	}).Get(&a)
	if err == nil && a.Start.Refused != "" {
		err = kit.Refuse(protocol.RefusedForbidden, "start session %s: %s", in.ID, a.Start.Refused)
	}
	return a, err
}

// startObject is what conditions of the access file see of a session that begins.
func startObject(in Input, owner string) access.Object {
	return access.Object{Session: in.ID, Owner: owner, Labels: in.Options.Labels, Host: in.Options.Host, Seed: in.Options.Seed, Tenant: in.Options.Tenant}
}

func principalOf(a *protocol.Auth) string {
	if a == nil {
		return ""
	}
	return a.Principal
}

// object is what conditions of the access file see of the session.
func (s *core) object() access.Object {
	return access.Object{Session: s.id, Owner: s.opt.By, Labels: s.opt.Labels, Host: s.opt.Host, Seed: s.opt.Seed, Tenant: s.opt.Tenant}
}

// openDoor returns the door of the session's commands.
func (s *session) openDoor() *admit.Door {
	return &admit.Door{Ctx: s.ctx, Signed: s.admission.Signed, Nonces: &s.st.Commands, Object: s.object, Repeats: s.repeats}
}

// repeats reports whether a message was accepted before: then it gets the first answer.
func (s *session) repeats(name string, plain []byte) bool {
	m, err := kit.Decode[protocol.Message](plain)
	return name == protocol.SignalMessage && err == nil && s.messages.said(m.ID) == sum(m)
}
