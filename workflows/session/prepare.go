package session

import (
	"cmp"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/gateways"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

type placePart struct {
	*core
	approvals *approvalsPart
	snaps     *snapsPart
	process   *processPart
	leases    *leasesPart
	moving    *movingPart
	follows   *followsPart
}

// prepare gets a slot and a seed, and prepares the host. It continues where a former run
// stopped. Codex is started last. If that fails in a way that passes, the session keeps its
// host and starts codex when a turn needs it.
func (s *placePart) prepare() (f *protocol.Failure, again bool) {
	s.publish()
	if f := s.pin(); f != nil || s.st.Close != nil {
		return f, false
	}
	if f, again := s.acquireSlot(); s.st.Lease == nil {
		return f, again
	}
	if s.leases.wantsSeed() && !s.st.SeedHeld {
		if f, again := s.leases.acquireSeed(); !s.st.SeedHeld {
			return f, again
		}
	}
	if f := s.cannotBeServed(); f != nil {
		return f, false
	}
	if s.st.Begun {
		s.become(protocol.Resuming)
	} else {
		s.become(protocol.Preparing)
	}
	s.publish()
	if f := s.prepareHost(); f != nil || s.st.Layout == nil || s.st.Close != nil {
		return f, f == nil && s.st.Close == nil
	}
	s.overcome()
	f, again = s.process.restart()
	if again || f == nil || !kit.FailurePasses(f) || s.moving.mustMove(f) || s.st.Close != nil {
		return f, again
	}
	s.meet(StartCodex, f)
	return nil, false
}

// pin keeps the snapshot with which the session begins from being pruned until the session
// has its own.
func (s *placePart) pin() *protocol.Failure {
	from := cmp.Or(s.opt.From, s.opt.Workspace.Snapshot)
	if from == "" || s.st.Pinned {
		return nil
	}
	in := snaps.PinSnapshotInput{Snapshot: from, Session: s.id, Run: s.firstRun()}
	for _, f := range s.opt.Files {
		in.Blobs = append(in.Blobs, f.Blob)
	}
	in.Blobs = append(in.Blobs, s.opt.givenBlobs()...)
	_, err := unlessClosing(s.core, kit.SetUp(s.ctx, "pin "+from), snapJobs.PinSnapshot, in)
	if err != nil && s.st.Close == nil {
		return kit.FailureOf("begin with snapshot "+from, err)
	}
	s.st.Pinned = err == nil
	return nil
}

// acquireSlot asks for the host that a resume names, or the options, or else for any host
// that fits, preferably the one with the session's folder.
func (s *placePart) acquireSlot() (f *protocol.Failure, again bool) {
	for s.st.Lease == nil {
		asked := s.st.Resume
		a := s.leases.wantsSlot()
		if s.st.Warm != nil {
			a.Prefer = s.st.Warm.Spec.Name
		}
		a.Begun = s.st.Begun
		if asked != nil && asked.Host != "" {
			a.Host, a.Begun = asked.Host, false // a named host that does not exist is refused at once
		}
		got, f, again := s.leases.acquire(protocol.PoolID(s.opt.Zone), a, func() bool { return s.st.Resume != asked })
		switch {
		case got == nil && f == nil && !again && s.st.Close == nil:
			continue // somebody wants the session on another host
		case got == nil:
			return f, again
		}
		s.cameTo(got.Spec.Name)
		s.st.Lease = &HostLease{Spec: *got.Spec, Epoch: got.Epoch, Labels: got.Labels}
		if w := s.st.Warm; w != nil && w.Spec.Name != got.Spec.Name {
			s.st.Warm = nil // the pool cleans it up
		}
		s.st.Attempt++
		// The generation begins with the time. So it is higher than all that a host or the
		// store still knows of an earlier session with the same id, even one that Temporal
		// has forgotten.
		s.st.Generation = max(s.st.Generation+1, workflow.Now(s.ctx).Unix())
	}
	return nil, false
}

// cameTo removes a wish to resume that the granted host fulfils. A later wish for another
// host stays, and makes the session move.
func (s *placePart) cameTo(host string) {
	wish := s.st.Resume
	if wish == nil || wish.Host != "" && wish.Host != host {
		return
	}
	if wish.Host != "" && s.opt.Host != "" {
		s.opt.Host = host // from now on, only this host
	}
	s.st.Named = wish.Host != ""
	s.st.Resume = nil
}

// prepareHost makes the host ready for codex. Without a failure and a layout, the activity
// was called off, or the next run continues it. It waits for busy workers.
func (s *placePart) prepareHost() *protocol.Failure {
	s.st.Touched = true
	s.chooseBySeed()
	name := s.st.Lease.Spec.Name
	discarded := func() bool { return s.st.Close != nil && s.st.Close.Discard }
	var out places.PrepareSessionResult
	err := s.inLine(func() bool { return s.st.Close != nil || s.full() || s.tooLateToStart() != nil }, func() (err error) {
		s.st.PumpN++
		out, err = doingUnless(s.core, kit.Carrying(kit.SetUp(s.ctx, "prepare "+name)), discarded, placeJobs.PrepareSession, places.PrepareSessionInput{
			Claim: s.claim(), Seed: s.st.Seed, Dir: s.opt.Dir, Sandbox: s.opt.Sandbox, Confine: s.opt.Confine, Credentials: s.credentials(), Egress: s.opt.Egress,
			Restore:  s.restoreFrom(),
			Policies: s.approvals.policyTexts(),
			Snapshot: s.snaps.keeping(), Workspace: s.workspace(), Bounded: s.st.SeedBounds != nil,
			Agents: s.opt.Agents, Base: s.opt.Base, Team: s.opt.TeamTools,
		})
		return err
	})
	switch {
	case err != nil && discarded(), kit.WasBusy(err) && s.tooLateToStart() == nil:
		return nil // called off, or there was no room yet
	case err != nil:
		f := kit.FailureOf("prepare "+name, err)
		if hosts.HostFault(f.Kind) {
			s.st.Fault = f
		}
		if f.Kind == protocol.ErrTypeSeedFenced && s.leases.wantsSeed() { // asked for again
			s.st.SeedHeld, f.Kind, f.Final = false, KindSeedAway, false
			s.st.SeedGone = s.st.Bare // the login is on this host
		}
		return f
	}
	s.follows.takeRules(out.FollowUps)
	if out.Credentials != "" {
		s.choose(out.Credentials, protocol.ByOrganisation)
	}
	s.st.Layout, s.st.Permissions, s.st.Unprotected = &out.Layout, out.Permissions, out.Unprotected
	text := "prepared"
	if out.Unprotected != "" {
		text = "prepared, and the agent can read its credential: " + out.Unprotected
	}
	data := map[string]string{
		"host": name, "codex": out.CodexVersion, "sandbox": s.opt.Sandbox,
		"approval_policy": s.opt.ApprovalPolicy, "permissions": out.Permissions,
	}
	if way, by := s.credentialWords(); by != "" {
		data["credentials"], data["credentials_by"] = way, by
	}
	if out.Restored != "" {
		data["restored"], data["snapshot"] = out.Restored, cmp.Or(s.snaps.goodSnapshot(), s.opt.From)
	}
	s.cameToWork(out)
	if out.CodexRepaired != "" {
		s.note(codexRepaired(name, out.CodexRepaired))
	}
	s.note(conversation.Note{Type: "state", Text: text, Data: data})
	if out.Differs != "" {
		s.note(conversation.Note{Type: "state", Text: "the restored work folder is not quite as it was: " + out.Differs, Data: map[string]string{"host": name}})
	}
	if s.opt.From != "" && !s.st.Begun {
		s.st.ForkOf, s.st.Pump.ThreadID = out.ThreadID, out.ThreadID
	}
	s.moving.tellMoved(out.Restored)
	s.st.Warm, s.st.Begun, s.st.Bare, s.st.LeftOn = nil, true, false, ""
	return nil
}

// codexRepaired notes that somebody had changed codex on a host.
func codexRepaired(host, what string) conversation.Note {
	return conversation.Note{Type: "state", Text: what, Data: map[string]string{"host": host, "codex": "repaired"}}
}

// restoreFrom returns the state from which the session goes on, or nil.
func (s *placePart) restoreFrom() *snaps.RestoreSpec {
	r := snaps.RestoreSpec{Snapshot: s.snaps.goodSnapshot()}
	if r.Snapshot == "" && s.opt.From != "" {
		r.Snapshot, r.Fork = s.opt.From, true
	}
	switch {
	case s.st.Warm != nil:
		r.Warm = s.st.Warm.Generation
	case s.st.Bare:
		r.Warm = s.st.Generation // the session never left its host
	case r.Snapshot == "":
		return nil
	}
	return &r
}

// cannotBeServed refuses a seed that a broker or the model gateway cannot use.
func (s *placePart) cannotBeServed() *protocol.Failure {
	switch seed := s.st.Seed; s.credentials() {
	case protocol.CredentialsBroker:
		if seed.Kind != logins.KindChatGPT {
			return &protocol.Failure{Kind: protocol.RefusedBadInput, Hint: "leave --credentials broker out, or name a seed that is a ChatGPT login",
				Message: fmt.Sprintf("seed %s is of kind %s: only a ChatGPT login has access tokens that a broker can give", seed.Name, seed.Kind)}
		}
	case protocol.CredentialsGateway:
		if err := gateways.CheckKind(seed.Kind); err != nil {
			return &protocol.Failure{Kind: protocol.RefusedBadInput, Hint: "leave --credentials gateway out, or name a seed with an API key or a model provider",
				Message: fmt.Sprintf("seed %s: %v", seed.Name, err)}
		}
	}
	return nil
}

// hadTurn reports whether the thread has, or may have, a rollout. Such a thread is
// resumed and never replaced.
func (st *State) hadTurn() bool { return st.HasTurn || st.MayHaveTurn }
