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

// Until a login that codex made is saved, it exists only on the host. If a holder ends
// and has not shown that the login is saved and removed there, an activity fetches it
// from the host, and nobody else gets the seed before that.

// recovery is the activity that fetches a login.
type recovery struct {
	epoch  int64
	fut    workflow.Future
	cancel workflow.CancelFunc
	back   bool // cancelled for a rollover: the next run begins it again
}

func (r *recovery) callBack() {
	r.back = true
	r.cancel()
}

// lookAgain is the interval at which holders are checked while somebody waits for the seed.
const lookAgain = 30 * time.Second

// lookSoon reports whether the holders are to be checked now because somebody waits for the
// seed.
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

// reap checks whether the holders and the sessions in line still run.
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

// ended takes a lease from a holder whose workflow ended without a release.
func (s *seedCore) ended(l *Lease) {
	if !l.Rotates || l.Brokered {
		s.drop(l.Epoch) // the host has only a copy of a login that the store has, or nothing
		return
	}
	s.unclean(l, fmt.Sprintf("session %s has ended without giving it back", l.Holder))
}

// unclean has the credential fetched from the host where the lease's holder had it.
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

// recoveryPart fetches the credential from where a holder left it.
type recoveryPart struct {
	*seedCore
	saving *savingPart

	again *kit.Alarm // for the next try; its time is kept in the lease
}

// recover takes the result of a recovery, and begins the next one if it is due.
func (s *recoveryPart) recover() {
	if s.fetched() {
		s.takeFetched()
	}
	i := slices.IndexFunc(s.st.Leases, func(l Lease) bool { return l.Ended != "" })
	if s.rec != nil || i < 0 || s.asking && s.exclusive() { // the result of a refresh comes first
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
			// This generation is above that of the holder's own activities, even if
			// l.Generation is not known.
			Claim: protocol.Claim{Session: l.Holder, Host: *l.At, Generation: now.Unix(), Pump: int64(l.Tries)}})}
}

// inZone runs an activity on the workers of a zone, because only they reach its
// hosts.
func inZone(ctx workflow.Context, zone string) workflow.Context {
	if zone == "" {
		return ctx
	}
	return workflow.WithTaskQueue(ctx, protocol.TaskQueueOf(zone))
}

func (s *recoveryPart) fetched() bool { return s.rec != nil && s.rec.fut.IsReady() }

// fetchAgain returns the pause before the next try: ten seconds at first, ten
// minutes at most.
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
	if l == nil { // a person has given it up meanwhile
		if out.Saved != nil {
			s.saving.keepBlob(out.Saved.Blob)
		}
		return
	}
	now := workflow.Now(s.ctx)
	switch {
	case err != nil && rec.back:
		l.NextTry = now
	case err != nil:
		l.Problem = kit.FailureOf("fetch it from "+l.where(), err)
		l.NextTry = now.Add(fetchAgain(l.Tries))
	case out.Saved != nil:
		if out.Auth != authOf(s.st.Files) {
			s.saving.advance(*out.Saved, out.Files)
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
