package seed

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// Input starts a Seed workflow.
type Input struct {
	Auth  *protocol.Auth `json:"auth,omitempty"` // of who starts it, as in all signed starts
	Name  string         `json:"name"`
	Carry *State         `json:"carry,omitempty"`

	newer kit.Newer // a field that this program does not know
}

// UnmarshalJSON notes a field that this program does not know.
func (in *Input) UnmarshalJSON(raw []byte) (err error) {
	type plain Input
	in.newer, err = kit.Known(raw, (*plain)(in))
	return err
}

// Required implements newer.Input.
func (in Input) Required() []string { return nil }

// Unknown implements newer.Input.
func (in Input) Unknown() []string { return in.newer.Fields() }

// Given returns the JSON of an input that has a field which this program does not know, and
// otherwise nil. The signature of a start is of this JSON.
func (in Input) Given() []byte { return in.newer.Given() }

// State is what a Seed carries across continue-as-new.
type State struct {
	Ref     *protocol.SeedRef   `json:"ref,omitempty"`
	Files   []protocol.SeedFile `json:"files,omitempty"`
	Blobs   []string            `json:"blobs,omitempty"` // of all generations, for a purge
	Epoch   int64               `json:"epoch"`           // of the newest lease
	Leases  []Lease             `json:"leases,omitempty"`
	Queue   []lease.Ticket      `json:"queue,omitempty"`
	Share   int                 `json:"share,omitempty"` // most holders; 0 means no bound
	Pools   []seedInPool        `json:"pools,omitempty"`
	Rotated *seedRotated        `json:"rotated,omitempty"`
	Health  Health              `json:"health"`
	Spent   bool                `json:"spent,omitempty"` // the refresh token may be used up
	// Renews is a refresh whose outcome is not known yet.
	Renews *logins.RefreshSeedInput `json:"renews,omitempty"`
	Former []string                 `json:"former,omitempty"` // digests of former auth.json
	Check  *seedCheck               `json:"check,omitempty"`
	// Account is who the login belongs to and how much of it is used, as far as is known.
	Account *protocol.SeedAccount `json:"account,omitempty"`
	// Served is what the model gateway did for the sessions that gave the seed back.
	Served *protocol.ModelUse `json:"served,omitempty"`
	// Tools are those that the newest bundle gives to each session.
	Tools []protocol.SeedTool `json:"tools,omitempty"`
	// FollowUps are the rules that the newest bundle gives to each session.
	FollowUps []protocol.SeedFollowUp `json:"follow_ups,omitempty"`

	VerifiedAt time.Time            `json:"verified_at"` // last known to be alive
	UsedAt     time.Time            `json:"used_at"`     // last granted or given back
	PutAt      time.Time            `json:"put_at"`
	ReapAt     time.Time            `json:"reap_at"`
	LookedAt   time.Time            `json:"looked_at"` // holders last checked
	Exported   *protocol.SeedExport `json:"exported,omitempty"`
	Policy     string               `json:"policy,omitempty"` // for every session with the seed
	Amend      bool                 `json:"amend,omitempty"`  // its sessions are offered amendments
	Bounds     *protocol.Ceiling    `json:"bounds,omitempty"` // of its sessions
	// Credentials is how sessions that do not say it get the credential.
	Credentials string `json:"credentials,omitempty"`
	Deleted     bool   `json:"deleted,omitempty"`
	Purge       bool   `json:"purge,omitempty"` // delete its blobs, too
	// First is below the epochs of all leases of this workflow. Leases of an earlier
	// workflow of the seed, ended by force, have epochs up to First. It is 0 if a person
	// gave up what they left, or if an older release began the workflow.
	First int64 `json:"first,omitempty"`
	// Lost are the epochs of leases that Temporal has forgotten, because its database was
	// restored to an earlier point. The newest ranges are kept.
	Lost []inquiry.Epochs `json:"lost,omitempty"`
	// Settled is when a person revived or imported the seed, if that was after a reconciliation.
	Settled time.Time `json:"settled,omitzero"`
	// Commands are those that were signed, so that each counts once.
	Commands command.Nonces `json:"commands,omitzero"`
	// Audit has the records of accepted commands that may not be in the store.
	Audit audit.Chain `json:"audit,omitzero"`
}

// Run returns the workflow Seed.
func Run(every kit.Intervals) func(workflow.Context, Input) error {
	return func(ctx workflow.Context, in Input) error { return runSeed(ctx, every, in) }
}

func runSeed(ctx workflow.Context, every kit.Intervals, in Input) error {
	s := seedOf(&seedCore{ctx: ctx, reapEvery: every.Reap, name: in.Name, st: in.Carry, roll: kit.NewRollover(ctx)})
	if s.st == nil {
		// Above the epochs of a deleted seed of this name: somebody may still act under one
		// of its leases.
		s.st = &State{Epoch: workflow.Now(ctx).Unix()}
		s.st.First = s.st.Epoch
	}
	s.grants.after = s.st.Epoch
	authority.Remember(ctx, &s.st.Commands)
	s.ledger = authority.Record(ctx, &s.st.Audit)
	s.ledger.Keep()
	if err := s.listen(); err != nil {
		return err
	}
	if s.st.Renews != nil {
		s.asking = true // nobody gets the seed before that is settled
		workflow.Go(ctx, s.checks.renewAgain)
	}
	for !s.st.Deleted {
		s.holders.serve()
		if s.holders.lookSoon() {
			s.holders.reap()
		}
		s.recovery.recover()
		s.members.tellPools()
		s.tell()
		s.holders.setAlarm()
		err := workflow.Await(ctx, func() bool {
			s.drain()
			return s.work || s.st.Deleted || s.alarm.Due() || s.recovery.again.Due() || s.recovery.fetched() || s.full()
		})
		if err != nil {
			return err
		}
		s.recovery.again.Off() // recover looks for what is due
		if s.alarm.Off() {
			s.st.ReapAt = time.Time{}
			s.holders.reap()
		}
		if s.full() && !s.st.Deleted { // even with work to do: requests may never stop
			return s.rollOver()
		}
	}
	return s.bury()
}

func (s *seed) listen() error {
	s.acq = workflow.GetSignalChannel(s.ctx, lease.SignalAcquire)
	s.rel = workflow.GetSignalChannel(s.ctx, lease.SignalRelease)
	s.rep = workflow.GetSignalChannel(s.ctx, lease.SignalReport)
	return kit.FirstError(
		workflow.SetQueryHandler(s.ctx, protocol.QuerySeed, func() (protocol.SeedView, error) { return s.view(), nil }),
		workflow.SetQueryHandler(s.ctx, protocol.QuerySeedNow, func() (inquiry.SeedNow, error) { return s.saving.nowForQueries(), nil }),
		updating(s.seedCore, protocol.UpdatePutSeed, s.saving.checkPut, s.saving.put, s.saving.checkBlob),
		updating(s.seedCore, protocol.UpdateSetSeed, s.saving.checkSet, s.saving.set),
		updating(s.seedCore, protocol.UpdateDeleteSeed, s.saving.checkRemove, s.saving.remove),
		updating(s.seedCore, protocol.UpdateReviveSeed, s.holders.checkRevive, s.holders.revive),
		updating(s.seedCore, protocol.UpdateExportSeed, s.saving.checkExport, s.saving.export),
		updating(s.seedCore, protocol.UpdateSaveSeed, s.saving.checkSave, s.saving.save),
		updating(s.seedCore, protocol.UpdateRotatedSeed, s.saving.checkRotated, s.saving.rotated),
		updating(s.seedCore, protocol.UpdateAdoptSeed, s.saving.checkAdopt, s.saving.adopt),
		workflow.SetUpdateHandlerWithOptions(s.ctx, protocol.UpdateVerifySeed, s.checks.verify,
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in protocol.VerifySeed) error {
				return kit.FirstError(s.checks.checkVerify(in), s.checks.crowded())
			}}),
		workflow.SetUpdateHandlerWithOptions(s.ctx, protocol.UpdateRefreshSeed, s.checks.refresh,
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in inquiry.RefreshSeed) error {
				return kit.FirstError(s.checks.checkRefresh(in), s.checks.crowded())
			}}),
	)
}

// updating sets the handler of an update that only changes the state. A refused
// update costs no event. first are checks of the validator alone.
func updating[In, Out any](s *seedCore, name string, check func(In) error, take func(In) Out, first ...func(In) error) error {
	return workflow.SetUpdateHandlerWithOptions(s.ctx, name,
		func(_ workflow.Context, in In) (Out, error) {
			// Something may have come since the validator, in the same task.
			if err := check(in); err != nil {
				var none Out
				return none, err
			}
			s.roll.Took()
			s.work = true
			return take(in), nil
		},
		workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in In) error {
			for _, f := range first {
				if err := f(in); err != nil {
					return err
				}
			}
			return check(in)
		}})
}

// bury purges a deleted seed once no fetch goes on, and writes its last audit records.
// Meanwhile it refuses requests.
func (s *seed) bury() error {
	s.ledger.End()
	var purged workflow.Future
	for {
		if s.recovery.fetched() {
			s.recovery.takeFetched()
		}
		if s.st.Purge && purged == nil && s.rec == nil {
			purged = workflow.ExecuteActivity(kit.UntilDone(s.ctx, "purge seed "+s.name), loginJobs.DeleteSeedBlobs,
				logins.DeleteSeedInput{Name: s.name, Blobs: s.st.Blobs, Before: s.saving.removed})
		}
		s.holders.serve()
		s.members.tellPools()
		done := func() bool {
			return (!s.st.Purge || purged != nil && purged.IsReady()) && workflow.AllHandlersFinished(s.ctx) && s.ledger.Settled()
		}
		if err := workflow.Await(s.ctx, func() bool { s.drain(); return s.work || s.recovery.fetched() || done() }); err != nil {
			return err
		}
		switch {
		case s.work, s.recovery.fetched():
		case purged != nil:
			return purged.Get(s.ctx, nil)
		default:
			return nil
		}
	}
}

// full reports whether this run's history is long enough. It waits for a recovery or
// refresh, but not for ever: a worker or issuer may not come back.
func (s *seed) full() bool {
	return s.roll.Due() && (s.rec == nil && !s.asking || s.roll.Overdue())
}

// rollOver continues as a new run, which takes up a recovery or refresh that goes on: the
// store has what was saved.
func (s *seed) rollOver() error {
	s.rolling = true
	if s.rec != nil {
		s.rec.callBack()
	}
	if s.asking {
		s.checks.callBack()
	}
	for {
		err := workflow.Await(s.ctx, func() bool {
			s.drain()
			return workflow.AllHandlersFinished(s.ctx) && (s.rec == nil || s.recovery.fetched())
		})
		if err != nil {
			return err
		}
		if s.recovery.fetched() {
			s.recovery.takeFetched()
		}
		if s.drain(); len(s.holders.no) == 0 {
			break
		}
		no := s.holders.no // refusals are not carried to the next run
		s.holders.no = nil
		lease.Post(s.ctx, no)
	}
	return workflow.NewContinueAsNewError(s.ctx, protocol.TypeSeed, Input{Name: s.name, Carry: s.st})
}

// drain receives the signals that have arrived. Temporal does not order signals of
// different names, so their content does: a report comes before the release of its lease,
// and a release takes back requests up to its generation.
func (s *seed) drain() {
	for _, r := range kit.Unread[lease.Report](s.rep) {
		s.holders.reported(r)
	}
	rels, acqs := kit.Unread[lease.Release](s.rel), kit.Unread[lease.Acquire](s.acq)
	for _, r := range rels {
		acqs = without(acqs, r)
		s.holders.release(r)
	}
	for _, a := range acqs {
		s.holders.enqueue(a)
	}
}
