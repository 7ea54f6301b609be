package seed

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// A login that codex made is only on the host until it is saved. If a holder ends and has
// not shown that it is saved and removed there, an activity fetches it before anybody else
// gets the seed.

type recovery struct {
	epoch  int64
	fut    workflow.Future
	cancel workflow.CancelFunc
	back   bool // cancelled for a rollover; the next run begins it again
	// stale says that the seed got another login from the store meanwhile. What was fetched is
	// compared with that one by the next fetch.
	stale bool
}

func (r *recovery) callBack() {
	r.back = true
	r.cancel()
}

// lookAgain is the interval between checks of holders while somebody waits.
const lookAgain = 30 * time.Second

func (s *holdersPart) lookSoon() bool {
	return len(s.st.Queue) > 0 && len(s.heldBy()) > 0 && !workflow.Now(s.ctx).Before(s.st.LookedAt.Add(lookAgain))
}

func (s *holdersPart) setAlarm() {
	if len(s.st.Leases) == 0 {
		return
	}
	if s.st.ReapAt.IsZero() {
		s.st.ReapAt = workflow.Now(s.ctx).Add(s.reapEvery)
	}
	s.alarm.Set(s.st.ReapAt)
}

func (s *holdersPart) reap() {
	s.st.LookedAt = workflow.Now(s.ctx)
	var all []lease.Who
	for _, l := range s.st.Leases {
		if l.Ended == "" && !l.Internal {
			all = append(all, lease.Who{Holder: l.Holder, Run: l.Run})
		}
	}
	for _, t := range s.st.Queue[:min(len(s.st.Queue), 200)] {
		all = append(all, lease.Who{Holder: t.Holder, Run: t.Run})
	}
	ended, err := lease.FindEnded(s.ctx, s.roll, all)
	if err != nil {
		workflow.GetLogger(s.ctx).Warn("holders not looked at", "error", err)
		return
	}
	for _, h := range ended {
		s.isGone(h, false)
	}
}

// ended takes a lease from a holder that ended without a release.
func (s *seedCore) ended(l *Lease) {
	if !l.Rotates || l.Brokered {
		s.drop(l.Epoch) // the host has at most a copy of a stored login
		return
	}
	s.unclean(l, fmt.Sprintf("session %s has ended without giving it back", l.Holder))
}

// unclean has the login fetched from the lease's host. If the host is not known, the login
// is lost.
func (s *seedCore) unclean(l *Lease, why string) {
	if l.At == nil {
		epoch := l.Epoch
		s.drop(epoch)
		s.st.Rotated = nil
		s.burnt(why+", and it is not known on which host it was", hintBurnt(s.name))
		return
	}
	l.Ended, l.NextTry = why, workflow.Now(s.ctx)
	s.work = true
}

func (s *seedCore) beingFetched(l *Lease) string {
	if l.Problem != nil {
		return fmt.Sprintf("recovering: %s, and what codex made of the login on %s could not be fetched: %s", l.Ended, l.where(), l.Problem.Message)
	}
	return fmt.Sprintf("recovering: %s; what codex made of the login is being fetched from %s", l.Ended, l.where())
}

type recoveryPart struct {
	*seedCore
	saving *savingPart

	again *kit.Alarm // for the next try, whose time is in the lease
}

// recover takes the result of a fetch, and begins the next one that is due.
func (s *recoveryPart) recover() {
	if s.fetched() {
		s.takeFetched()
	}
	i := slices.IndexFunc(s.st.Leases, func(l Lease) bool { return l.Ended != "" })
	if s.rec != nil || i < 0 || s.asking && s.exclusive() { // a refresh comes first
		return
	}
	l, now := &s.st.Leases[i], workflow.Now(s.ctx)
	if now.Before(l.NextTry) {
		s.again.Set(l.NextTry)
		return
	}
	l.Tries++
	ref := *s.st.Ref
	ref.Epoch = l.Epoch
	ctx, cancel := workflow.WithCancel(inZone(kit.SetUp(s.ctx, "fetch seed "+s.name+" from "+l.where()), l.Zone))
	s.rec = &recovery{epoch: l.Epoch, cancel: cancel,
		fut: workflow.ExecuteActivity(ctx, loginJobs.RecoverSeed, inquiry.RecoverSeedInput{Seed: ref, Generation: l.Generation,
			// Above the generation of the holder's own activities, even if l.Generation is
			// not known.
			Claim: protocol.Claim{Session: l.Holder, Host: *l.At, Generation: now.Unix(), Pump: int64(l.Tries)}})}
}

func inZone(ctx workflow.Context, zone string) workflow.Context {
	if zone == "" {
		return ctx
	}
	return workflow.WithTaskQueue(ctx, protocol.TaskQueueOf(zone))
}

func (s *recoveryPart) fetched() bool { return s.rec != nil && s.rec.fut.IsReady() }

func fetchAgain(tries int) time.Duration {
	return min(10*time.Second<<min(tries-1, 10), 10*time.Minute)
}

func (s *recoveryPart) takeFetched() {
	rec := s.rec
	s.rec, s.work = nil, true
	rec.cancel()
	var out inquiry.RecoverSeedResult
	err := rec.fut.Get(s.ctx, &out)
	l := s.byEpoch(rec.epoch)
	if l == nil { // a person gave it up
		if out.Saved != nil {
			s.saving.keepBlob(out.Saved.Blob)
		}
		return
	}
	now := workflow.Now(s.ctx)
	switch {
	case err != nil && rec.back, rec.stale:
		if out.Saved != nil {
			s.saving.keepBlob(out.Saved.Blob)
		}
		l.NextTry = now
	case err != nil:
		l.Problem = kit.FailureOf("fetch it from "+l.where(), err)
		l.NextTry = now.Add(fetchAgain(l.Tries))
	case out.Saved != nil:
		if out.Auth != authOf(s.st.Files) {
			s.saving.advance(*out.Saved, out.Files)
			s.recordSaved(fmt.Sprintf("codex of session %s rotated the login, and it was fetched from host %s", l.Holder, l.where()))
		}
		s.st.Rotated, l.Problem, l.NextTry = nil, nil, now // the next recovery wipes
	case out.Absent || out.Wiped:
		s.recovered(l, out)
	default:
		l.Problem = &protocol.Failure{Kind: protocol.ErrTypeInternal, Message: "it could not be removed from " + l.where()}
		l.NextTry = now.Add(fetchAgain(l.Tries))
	}
}

// recovered ends a lease of which nothing is left on its host.
func (s *recoveryPart) recovered(l *Lease, out inquiry.RecoverSeedResult) {
	rotated, holder, host := s.st.Rotated, l.Holder, l.where()
	s.st.Rotated = nil
	s.drop(l.Epoch)
	if out.Absent && rotated != nil && rotated.Auth != authOf(s.st.Files) {
		s.burnt(fmt.Sprintf("codex of session %s rotated the login, and it was neither saved nor is it on %s any more", holder, host), hintBurnt(s.name))
	}
}
