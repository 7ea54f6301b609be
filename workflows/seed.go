package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// SeedInput starts a Seed workflow.
type SeedInput struct {
	Name  string     `json:"name"`
	Carry *seedState `json:"carry,omitempty"`
}

// seedState is all that a seed carries across continue-as-new.
type seedState struct {
	Ref     *activities.SeedRef `json:"ref,omitempty"`
	Files   []SeedFile          `json:"files,omitempty"`
	Blobs   []string            `json:"blobs,omitempty"` // every generation's, for a purge
	Epoch   int64               `json:"epoch"`           // of the newest lease
	Leases  []seedLease         `json:"leases,omitempty"`
	Queue   []ticket            `json:"queue,omitempty"`
	Share   int                 `json:"share,omitempty"` // holders at a time; 0 means no bound
	Pools   []seedInPool        `json:"pools,omitempty"`
	Rotated *seedRotated        `json:"rotated,omitempty"`
	Health  seedHealth          `json:"health"`
	Spent   bool                `json:"spent,omitempty"`  // its refresh token may be
	Former  []string            `json:"former,omitempty"` // digests of what auth.json was before
	Check   *seedCheck          `json:"check,omitempty"`  // the newest verification

	VerifiedAt time.Time   `json:"verified_at"` // when it was last known to be alive
	UsedAt     time.Time   `json:"used_at"`     // when it was last given or given back
	PutAt      time.Time   `json:"put_at"`
	ReapAt     time.Time   `json:"reap_at"`
	LookedAt   time.Time   `json:"looked_at"`          // when holders were last looked at
	Exported   *SeedExport `json:"exported,omitempty"` // last
	Policy     string      `json:"policy,omitempty"`   // judges in every session that has it
	Amend      bool        `json:"amend,omitempty"`    // its sessions are offered amendments
	Deleted    bool        `json:"deleted,omitempty"`
	Purge      bool        `json:"purge,omitempty"` // its blobs too
}

// Seed names the newest generation of a credential and who holds it. It ends
// when the seed is deleted.
func Seed(ctx workflow.Context, in SeedInput) error {
	s := &seed{ctx: ctx, name: in.Name, st: in.Carry, roll: newRollover(ctx),
		alarm: newAlarm(ctx, "look after holders"), again: newAlarm(ctx, "fetch the credential again")}
	if s.st == nil {
		// Epochs rise also above those of a seed that had this name and was
		// deleted: somebody may believe in one of them still.
		s.st = &seedState{Epoch: workflow.Now(ctx).Unix()}
	}
	if err := s.listen(); err != nil {
		return err
	}
	for !s.st.Deleted {
		s.serve()
		if s.lookSoon() {
			s.reap()
		}
		s.recover()
		s.tellPools()
		s.tell()
		s.setAlarm()
		err := workflow.Await(ctx, func() bool {
			s.drain()
			return s.work || s.st.Deleted || s.alarm.due() || s.again.due() || s.fetched() || s.full()
		})
		if err != nil {
			return err
		}
		s.again.off() // recover looks what is due
		if s.alarm.off() {
			s.st.ReapAt = time.Time{}
			s.reap()
		}
		if s.full() && !s.work && !s.st.Deleted {
			return s.rollOver()
		}
	}
	return s.bury()
}

type seed struct {
	ctx  workflow.Context
	name string
	st   *seedState
	acq  workflow.ReceiveChannel
	rel  workflow.ReceiveChannel
	rep  workflow.ReceiveChannel
	work bool

	asking bool      // a verification or a refresh goes on
	behind int       // how many wait for that
	no     []letter  // to whom what they asked for is refused, not sent
	rec    *recovery // that goes on
	alarm  *alarm    // for the holders; its time is carried, so that no rollover puts it off
	again  *alarm    // for the next try to recover; its time is the lease's
	roll   *rollover
	read   ruling // its policy

	removed time.Time // when it was deleted
}

func (s *seed) listen() error {
	s.acq = workflow.GetSignalChannel(s.ctx, signalAcquire)
	s.rel = workflow.GetSignalChannel(s.ctx, signalRelease)
	s.rep = workflow.GetSignalChannel(s.ctx, signalReport)
	return firstError(
		workflow.SetQueryHandler(s.ctx, QuerySeed, func() (SeedView, error) { return s.view(), nil }),
		workflow.SetQueryHandler(s.ctx, activities.QuerySeedNow, func() (activities.SeedNow, error) { return s.now(), nil }),
		updating(s, UpdatePutSeed, s.checkPut, s.put),
		updating(s, UpdateSetSeed, s.checkSet, s.set),
		updating(s, UpdateDeleteSeed, s.checkRemove, s.remove),
		updating(s, UpdateReviveSeed, s.checkRevive, s.revive),
		updating(s, UpdateExportSeed, s.checkExport, s.export),
		updating(s, activities.UpdateSaveSeed, s.checkSave, s.save),
		updating(s, activities.UpdateRotatedSeed, s.checkRotated, s.rotated),
		workflow.SetUpdateHandlerWithOptions(s.ctx, activities.UpdateVerifySeed, s.verify,
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in activities.VerifySeed) error {
				return firstError(s.checkVerify(in), s.crowded())
			}}),
		workflow.SetUpdateHandlerWithOptions(s.ctx, activities.UpdateRefreshSeed, s.refresh,
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in activities.RefreshSeed) error {
				return firstError(s.checkRefresh(in), s.crowded())
			}}),
	)
}

// updating sets the handler of an update that only changes the state: a
// refused one costs no event.
func updating[In, Out any](s *seed, name string, check func(In) error, take func(In) Out) error {
	return workflow.SetUpdateHandlerWithOptions(s.ctx, name,
		func(_ workflow.Context, in In) (Out, error) {
			// What came between the validator and this, in the same task.
			if err := check(in); err != nil {
				var none Out
				return none, err
			}
			s.roll.took()
			s.work = true
			return take(in), nil
		},
		workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in In) error { return check(in) }})
}

// bury purges a deleted seed, once nobody writes any more of it. Whoever asks
// for it meanwhile is told.
func (s *seed) bury() error {
	var purged workflow.Future
	for {
		if s.fetched() {
			s.takeFetched()
		}
		if s.st.Purge && purged == nil && s.rec == nil {
			purged = workflow.ExecuteActivity(untilDone(s.ctx, "purge seed "+s.name), seeds.DeleteSeedBlobs,
				activities.DeleteSeedInput{Name: s.name, Blobs: s.st.Blobs, Before: s.removed})
		}
		s.serve()
		s.tellPools()
		done := func() bool {
			return (!s.st.Purge || purged != nil && purged.IsReady()) && workflow.AllHandlersFinished(s.ctx)
		}
		if err := workflow.Await(s.ctx, func() bool { s.drain(); return s.work || s.fetched() || done() }); err != nil {
			return err
		}
		switch {
		case s.work, s.fetched():
		case purged != nil:
			return purged.Get(s.ctx, nil)
		default:
			return nil
		}
	}
}

// full says that this run's history is long enough. A recovery and a refresh
// are waited for: what they saved must not be forgotten.
func (s *seed) full() bool { return s.rec == nil && !s.asking && s.roll.due() }

func (s *seed) rollOver() error {
	err := workflow.Await(s.ctx, func() bool { s.drain(); return workflow.AllHandlersFinished(s.ctx) })
	if err != nil {
		return err
	}
	s.drain()
	return workflow.NewContinueAsNewError(s.ctx, Seed, SeedInput{Name: s.name, Carry: s.st})
}

// drain takes the signals that lie unread; see session.drain for why so. How
// signals of different names followed each other cannot be told, so it is read
// from what they say: a report comes before the release of its lease, and a
// release takes back what its holder asked for up to its generation.
func (s *seed) drain() {
	for _, r := range unread[report](s.rep) {
		s.reported(r)
	}
	rels, acqs := unread[release](s.rel), unread[acquire](s.acq)
	for _, r := range rels {
		acqs = without(acqs, r)
		s.release(r)
	}
	for _, a := range acqs {
		s.enqueue(a)
	}
}

// unread are the signals of a channel that nobody has taken.
func unread[T any](ch workflow.ReceiveChannel) (all []T) {
	for {
		var v T
		if !ch.ReceiveAsync(&v) {
			return all
		}
		all = append(all, v)
	}
}
