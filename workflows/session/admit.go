package session

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// keptFor is how old a command may be that Temporal kept while no worker was up.
const keptFor = 24 * time.Hour

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
}

// admitStart records whether commands to this run must be signed, and judges who starts the
// session. Runs that began before v0.2 take signals from everybody until they continue as
// new.
func admitStart(ctx workflow.Context, in Input) (admission, error) {
	var a admission
	if workflow.GetVersion(ctx, "authority", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return a, nil
	}
	info := workflow.GetInfo(ctx)
	err := workflow.SideEffect(ctx, func(workflow.Context) any {
		k := authority.Of(ctx)
		if k == nil || in.Carry != nil && info.ContinuedExecutionRunID != "" {
			return admission{Signed: k != nil}
		}
		raw, err := command.Marshal(in)
		if err != nil {
			return admission{Signed: true, Start: authority.Verdict{Refused: err.Error()}}
		}
		return admission{Signed: true, Start: k.Judge(authority.Command{
			Received: command.Received{Workflow: info.WorkflowExecution.ID, Name: protocol.TypeSession, Raw: raw, Waited: keptFor},
			Verb:     access.SessionStart,
			Object:   access.Object{Session: in.ID, Owner: principalOf(in.Auth), Labels: in.Options.Labels, Host: in.Options.Host, Seed: in.Options.Seed, Tenant: in.Options.Tenant},
		})}
	}).Get(&a)
	if err == nil && a.Start.Refused != "" {
		err = kit.Refuse(protocol.RefusedForbidden, "start session %s: %s", in.ID, a.Start.Refused)
	}
	return a, err
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

// admitUpdate refuses an update whose principal may not give it. It is part of a validator,
// so a refused update leaves nothing in the history.
func (s *session) admitUpdate(name string, raw []byte) ([]byte, error) {
	plain, auth, err := command.Plain(raw)
	if err != nil {
		return nil, kit.Refuse(protocol.RefusedBadInput, "%s: %v", name, err)
	}
	k := authority.Of(s.ctx)
	if k == nil {
		return plain, nil
	}
	v := k.Judge(s.command(name, raw, 0))
	if v.Refused == "" && !s.fresh(name, plain, auth) {
		v.Refused = "its nonce was used before"
	}
	if v.Refused != "" {
		return nil, kit.Refuse(protocol.RefusedForbidden, "%s session %s: %s", name, s.id, v.Refused)
	}
	return plain, nil
}

// admitSignal refuses a signal whose principal may not give it. Where commands must be
// signed it costs one event.
func (s *session) admitSignal(name string, raw []byte) ([]byte, error) {
	plain, auth, err := command.Plain(raw)
	if err != nil {
		return nil, kit.Refuse(protocol.RefusedBadInput, "%s: %v", name, err)
	}
	if !s.admission.Signed {
		return plain, nil
	}
	var v authority.Verdict
	err = workflow.SideEffect(s.ctx, func(workflow.Context) any {
		if k := authority.Of(s.ctx); k != nil {
			return k.Judge(s.command(name, raw, keptFor))
		}
		return authority.Verdict{Principal: principalOf(auth)}
	}).Get(&v)
	if err != nil {
		return nil, err
	}
	if v.Refused == "" && !s.fresh(name, plain, auth) {
		v.Refused = "its nonce was used before"
	}
	if v.Refused != "" {
		return nil, kit.Refuse(protocol.RefusedForbidden, "%s session %s: %s", name, s.id, v.Refused)
	}
	return plain, nil
}

func (s *session) command(name string, raw []byte, waited time.Duration) authority.Command {
	return authority.Command{
		Received: command.Received{Workflow: protocol.SessionID(s.id), Name: name, Raw: raw, Waited: waited},
		Verb:     verbs[name], Object: s.object(),
	}
}

// fresh reports whether a signed command may count. A message counts once by its id, and a
// repeated one gets the first answer.
func (s *session) fresh(name string, plain []byte, auth *protocol.Auth) bool {
	if auth == nil || s.st.Commands.Fresh(auth) {
		return true
	}
	m, err := kit.Decode[protocol.Message](plain)
	return name == protocol.SignalMessage && err == nil && s.messages.said(m.ID) == sum(m)
}
