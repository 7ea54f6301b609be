package session

import (
	"cmp"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/admit"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// commandState is what a session remembers of signed commands.
type commandState struct {
	Commands command.Nonces `json:"commands,omitzero"`
}

// verbs has the verb that a principal needs for each command.
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
	// Owner says that the state keeps whose rights count for what the session begins. Runs that
	// an earlier release began keep that only for sessions with rules or children.
	Owner bool `json:"owner,omitempty"`
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
			return admission{Signed: k != nil, User: audit.UnixUser()}
		case in.Carry != nil:
			return admission{Signed: true, User: audit.UnixUser(), Start: authority.Verdict{Refused: "it has the state of an earlier run, and only that run may pass it on"}}
		case info.ParentWorkflowExecution != nil && in.Auth == nil && authority.BegunByWorker(ctx):
			if in.Judged == "" {
				return admission{Signed: true, User: audit.UnixUser(), Start: authority.Verdict{Refused: "its firing began before commands were judged here: the next one starts another session"}}
			}
			return admission{Signed: true, Owner: true, User: audit.UnixUser(), Start: mayUse(k, in, k.Allows(in.Judged, in.Groups, access.SessionStart, startObject(in, in.Judged)))}
		}
		raw, err := in.signed()
		if err != nil {
			return admission{Signed: true, User: audit.UnixUser(), Start: authority.Verdict{Refused: err.Error()}}
		}
		return admission{Signed: true, Owner: true, User: audit.UnixUser(), Start: mayUse(k, in, k.Judge(authority.Command{
			Received: command.Received{Workflow: info.WorkflowExecution.ID, Name: protocol.TypeSession, Kind: command.Start, Raw: raw, Waited: command.KeptFor},
			Verb:     access.SessionStart,
			Object:   startObject(in, principalOf(in.Auth)),
			Lent:     lent(in),
		}))}
	}).Get(&a)
	if err == nil && a.Start.Refused != "" {
		err = kit.Refuse(protocol.RefusedForbidden, "start session %s: %s", in.ID, a.Start.Refused)
	}
	return a, err
}

// lent are the files and instructions of the session that is forked. Their names may be those of others' blobs:
// see startReads.
func lent(in Input) (all []string) {
	if in.Options.From == "" {
		return nil
	}
	for _, f := range in.Options.Files {
		if owned.Is(f.Blob, owned.Inputs) {
			all = append(all, f.Blob)
		}
	}
	for _, key := range in.Options.givenBlobs() {
		if isMessage(key) {
			all = append(all, key)
		}
	}
	return all
}

// startReads is what the session begins with that its principal must be allowed to read; nil
// if that is nothing, or nobody asks.
func startReads(in Input, start authority.Verdict) *protocol.StartReads {
	r := &protocol.StartReads{Principal: start.Principal, Groups: start.Groups, Session: in.ID, Snapshot: cmp.Or(in.Options.From, in.Options.Workspace.Snapshot)}
	for _, key := range lent(in) {
		folder, _, _ := owned.Parse(key)
		if tag, _ := owned.Uploader(key); tag != owned.Tag(start.Principal) {
			owner, _ := owned.OwnerOf(folder)
			r.Owners = append(r.Owners, owner.String())
		}
	}
	slices.Sort(r.Owners)
	r.Owners = slices.Compact(r.Owners)
	if in.Carry != nil || r.Principal == "" || r.Snapshot == "" && len(r.Owners) == 0 {
		return nil
	}
	return r
}

// startObject is what conditions of the access file see of a session that begins.
func startObject(in Input, owner string) access.Object {
	return in.Options.Object(in.ID, owner)
}

// Object is what conditions of the access file see of a session that has neither host nor
// seed yet. A pool may choose any of them.
func (o Options) Object(id, owner string) access.Object {
	return access.Object{Session: id, Owner: owner, Labels: o.Labels, Host: o.Host, HostUnknown: o.Host == "", Seed: o.Seed, SeedUnknown: o.SeedPool != "", Tenant: o.Tenant}
}

// mayUse refuses a start whose principal may start the session and not use its seed.
func mayUse(k *authority.Keeper, in Input, v authority.Verdict) authority.Verdict {
	if o := startObject(in, v.Principal); v.Refused == "" && (o.Seed != "" || o.SeedUnknown) {
		if a := k.Decide(access.Request{Who: v.Principal, Groups: v.Groups, Verb: access.SeedUse, Object: o}); !a.Allowed {
			v.Refused = a.Reason
		}
	}
	return v
}

func principalOf(a *protocol.Auth) string {
	if a == nil {
		return ""
	}
	return a.Principal
}

// object is what conditions of the access file see of the session.
func (s *core) object() access.Object {
	o := s.opt.Object(s.id, s.opt.By)
	if l := s.st.Lease; l != nil {
		o.Host, o.HostUnknown, o.HostLabels = l.Spec.Name, false, l.Labels
		if o.HostLabels == nil {
			o.HostLabels = map[string]string{}
		}
	}
	if s.st.Seed != nil {
		o.Seed, o.SeedUnknown = s.st.Seed.Name, false
	}
	return o
}

// shown is what others learn of object. Before the id is the owner's, the store may have
// data of somebody else under it.
func (s *core) shown() access.Object {
	if !s.owned {
		return access.Object{Session: s.id, Unknown: true}
	}
	return s.object()
}

// claim takes the session's id for its owner, and lets its signed start count once.
func (s *session) claim(reads *protocol.StartReads) error {
	in := protocol.ClaimStart{Reads: reads}
	if s.admission.Start.Principal != "" {
		in.Owns = &protocol.SessionOwner{Session: s.id, Owner: s.opt.By, Labels: s.opt.Labels, Tenant: s.opt.Tenant}
	}
	err := authority.Claim(s.ctx, protocol.TypeSession, s.admission.Start, in)
	s.owned = err == nil
	return err
}

// openDoor returns the door of the session's commands.
func (s *session) openDoor() *admit.Door {
	return &admit.Door{Ctx: s.ctx, Signed: s.admission.Signed, Nonces: &s.st.Commands, Object: s.object, Repeats: s.repeats, Began: s.began}
}

// began reports whether a workflow is the batch or the firing that began the session. A batch
// that has the id of an earlier one has another owner.
func (s *session) began(by protocol.Sender) bool {
	ofBatch := by.From == s.opt.Origin && strings.HasPrefix(by.From, protocol.BatchOrigins)
	return ofBatch && by.Owner == s.opt.By || admit.BegunBy(s.ctx, by)
}

// repeats reports whether a message was accepted before: then it gets the first answer.
func (s *session) repeats(name string, plain []byte) bool {
	m, err := kit.Decode[protocol.Message](plain)
	return name == protocol.SignalMessage && err == nil && s.messages.said(m.ID) == sum(m)
}
