package seed

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// A Lease is a holder's right to a seed. It names the place of the credential before the
// credential is there, so that it can be fetched however the holder ends.
type Lease struct {
	Holder     string             `json:"holder"`
	Epoch      int64              `json:"epoch"`
	At         *protocol.HostSpec `json:"at,omitempty"`
	Zone       string             `json:"zone,omitempty"`
	Run        string             `json:"run,omitempty"` // first run of the holder's workflow; another is another session
	Generation int64              `json:"generation"`    // of the holder's claim on the host
	Since      time.Time          `json:"since"`
	Pool       string             `json:"pool,omitempty"`     // the seed pool that asked
	Told       int64              `json:"told"`               // generation of the seed that the holder knows
	Rotates    bool               `json:"rotates,omitempty"`  // its holder may make new generations
	Internal   bool               `json:"internal,omitempty"` // held by the seed itself
	Brokered   bool               `json:"brokered,omitempty"` // the credential is not on the host

	// Ended, if not empty, says why the holder lost the lease. The credential may still be
	// on the host, and is fetched.
	Ended   string            `json:"ended,omitempty"`
	Tries   int               `json:"tries,omitempty"`
	NextTry time.Time         `json:"next_try"`
	Problem *protocol.Failure `json:"problem,omitempty"` // of the newest try
}

func (l *Lease) where() string {
	if l.At == nil {
		return "a host that is not known"
	}
	return l.At.Name
}

// exclusive reports whether only one session may hold the seed: its refresh token works
// once.
func (s *seedCore) exclusive() bool { return s.st.Ref != nil && lease.Rotates(s.st.Ref.Kind) }

func (s *seedCore) lease(holder string) *Lease {
	for i := range s.st.Leases {
		if s.st.Leases[i].Holder == holder && !s.st.Leases[i].Internal {
			return &s.st.Leases[i]
		}
	}
	return nil
}

// holds returns a lease that has not ended, or nil.
func (s *seedCore) holds(holder string, epoch int64) *Lease {
	if l := s.lease(holder); l != nil && l.Epoch == epoch && l.Ended == "" {
		return l
	}
	return nil
}

func (s *seedCore) byEpoch(epoch int64) *Lease {
	for i := range s.st.Leases {
		if s.st.Leases[i].Epoch == epoch {
			return &s.st.Leases[i]
		}
	}
	return nil
}

type holdersPart struct {
	*seedCore
	saving  *savingPart
	members *membersPart

	no []lease.Letter // refusals, not sent yet
}

func (s *holdersPart) grant(l Lease) *Lease {
	s.st.Epoch++
	s.grants.add(s.st.Epoch, l.Holder)
	l.Epoch, l.Since, l.Told, l.Rotates = s.st.Epoch, workflow.Now(s.ctx), s.st.Ref.Generation, s.exclusive()
	if !l.Internal {
		s.st.UsedAt = l.Since
	}
	s.st.Leases = append(s.st.Leases, l)
	return &s.st.Leases[len(s.st.Leases)-1]
}

// drop ends a lease of which no host has anything.
func (s *seedCore) drop(epoch int64) {
	l := s.byEpoch(epoch)
	if l == nil {
		return
	}
	if l.Pool != "" {
		p := s.inPool(l.Pool)
		p.Left = append(p.Left, l.Holder)
	}
	if !l.Internal {
		s.st.UsedAt = workflow.Now(s.ctx)
	}
	s.st.Leases = slices.DeleteFunc(s.st.Leases, func(l Lease) bool { return l.Epoch == epoch })
	s.work = true
}

// enqueue lets a holder that asks again keep its place, and has it told its place again.
func (s *holdersPart) enqueue(a lease.Acquire) {
	switch {
	case a.Holder == "" && protocol.NamePattern.MatchString(a.Pool):
		s.members.surveyed(a.Pool)
		return
	case !protocol.NamePattern.MatchString(a.Holder):
		return
	case a.TooLarge():
		s.no, s.work = append(s.no, a.Decline(protocol.SeedID(s.name))), true
		return
	}
	switch l := s.lease(a.Holder); {
	case l == nil || l.Ended != "":
	case l.Run != a.Run: // an earlier session of that name
		s.ended(l)
	case !s.stays(l, a):
		s.unclean(l, fmt.Sprintf("session %s went to another host", a.Holder))
	}
	if i := slices.IndexFunc(s.st.Queue, func(t lease.Ticket) bool { return t.Holder == a.Holder }); i >= 0 {
		s.st.Queue[i] = lease.Ticket{Acquire: a}
	} else {
		s.st.Queue = append(s.st.Queue, lease.Ticket{Acquire: a})
	}
	s.work = true
}

// stays records the place that a holder names, or returns false if the credential is still
// at another place.
func (s *holdersPart) stays(l *Lease, a lease.Acquire) bool {
	moved := l.At != nil && a.At != nil && (l.At.Name != a.At.Name || l.At.Address != a.At.Address || l.Zone != a.Zone)
	if l.Rotates && !l.Brokered && moved && a.Generation > l.Generation {
		return false
	}
	if a.At != nil && a.Generation >= l.Generation {
		l.At, l.Zone, l.Generation = a.At, a.Zone, a.Generation
	}
	return true
}

func without(acqs []lease.Acquire, r lease.Release) []lease.Acquire {
	return slices.DeleteFunc(acqs, func(a lease.Acquire) bool { return a.Holder == r.Holder && a.Generation <= r.Generation })
}

// release takes the seed back. Epoch 0 is from a session that never took the lease that it
// may have been granted. Any other epoch must be that of the lease.
func (s *holdersPart) release(r lease.Release) {
	s.served(r.Served)
	l := s.lease(r.Holder)
	switch {
	case r.Epoch != 0 && r.At != nil && !r.Clean && s.saving.takesFrom(r.Holder, r.Epoch):
		s.fetchFrom(r)
		return
	case r.Epoch != 0 && (l == nil || l.Epoch != r.Epoch):
		workflow.GetLogger(s.ctx).Warn("release of a lease that has ended", "holder", r.Holder, "epoch", r.Epoch)
		return
	case r.Epoch == 0 && l != nil && l.Run != r.Run:
		// An earlier session of that name has the seed, and must have ended.
		s.ended(l)
		l = nil
	case r.Epoch == 0 && l != nil && l.Generation > r.Generation:
		return
	}
	s.st.Queue = slices.DeleteFunc(s.st.Queue, func(t lease.Ticket) bool { return t.Holder == r.Holder && t.Generation <= r.Generation })
	s.work = true
	if l == nil || l.Ended != "" {
		return
	}
	if !r.Proven.IsZero() {
		s.alive(r.Proven, r.Proven)
	}
	s.used(r.Use, r.Proven)
	who := "session " + r.Holder
	switch {
	case !l.Rotates || l.Brokered:
		s.drop(l.Epoch)
	case !r.Clean:
		s.unclean(l, who+" ended and could not show that its credential is gone")
	case r.Discarded || s.st.Rotated != nil:
		s.drop(l.Epoch)
		s.st.Rotated = nil
		s.burnt(fmt.Sprintf("%s was given up with a login that codex had rotated and that was not saved", who), hintBurnt(s.name))
	default:
		s.drop(l.Epoch)
	}
}

// fetchFrom has the login of a forgotten lease (see forgot) fetched from its host. Nobody
// is granted the seed before.
func (s *holdersPart) fetchFrom(r lease.Release) {
	s.st.Queue = slices.DeleteFunc(s.st.Queue, func(t lease.Ticket) bool { return t.Holder == r.Holder && t.Generation <= r.Generation })
	l := s.grant(Lease{Holder: r.Holder, At: r.At, Zone: r.Zone, Run: r.Run, Generation: r.Generation})
	s.unclean(l, fmt.Sprintf("session %s ended without having its seed back", r.Holder))
}

// denies returns why nobody can have the seed now, or ever.
func (s *seedCore) denies() (why string, never *protocol.Failure) {
	switch st := s.st; {
	case st.Ref == nil || st.Deleted:
		return "", &protocol.Failure{Kind: "seed_not_found", Message: "seed " + s.name + " has no content", Hint: "import it again"}
	case st.Health.State == protocol.Dead:
		return "", &protocol.Failure{Kind: "seed_dead", Message: fmt.Sprintf("seed %s is dead: %s", s.name, st.Health.Reason), Hint: st.Health.Hint}
	case st.Health.State == protocol.Suspect:
		return fmt.Sprintf("seed %s, which is suspect: %s (%s)", s.name, st.Health.Reason, st.Health.Hint), nil
	}
	for i := range s.st.Leases {
		switch l := &s.st.Leases[i]; {
		case l.Ended != "":
			return fmt.Sprintf("seed %s, %s", s.name, s.beingFetched(l)), nil
		case l.Internal:
			return fmt.Sprintf("seed %s, which is being verified", s.name), nil
		case l.Rotates || s.exclusive():
			return fmt.Sprintf("seed %s, held by %s", s.name, l.Holder), nil
		}
	}
	switch {
	case s.asking && s.exclusive(): // for a holder that has given it back
		return fmt.Sprintf("seed %s, which is being refreshed", s.name), nil
	case s.st.Rotated != nil:
		return fmt.Sprintf("seed %s, which was rotated and is not saved", s.name), nil
	case s.st.Share > 0 && len(s.st.Leases) >= s.st.Share:
		return fmt.Sprintf("seed %s, which %d sessions use, as many as may", s.name, len(s.st.Leases)), nil
	}
	return "", nil
}

// serve grants leases in order. It decides everything before it tells anybody.
func (s *holdersPart) serve() {
	s.work = false
	letters, fresh := append(s.no, s.news()...), map[string]bool{}
	s.no = nil
	say := func(to lease.Who, g lease.Granted) {
		g.From, g.Run = protocol.SeedID(s.name), to.Run
		letters = append(letters, lease.Letter{To: to.Holder, Text: g})
	}
	give := func(l *Lease, t lease.Ticket) {
		ref := *s.st.Ref
		ref.Epoch = l.Epoch
		l.Told = ref.Generation
		if l.Pool = t.Pool; l.Pool != "" {
			s.members.answerPool(t, true)
		}
		say(lease.Who{Holder: l.Holder, Run: l.Run}, lease.Granted{Pool: t.Pool, Epoch: l.Epoch, Seed: &ref, Policy: s.st.Policy, Amend: s.st.Amend, Bounds: s.st.Bounds, Credentials: s.st.Credentials})
	}
	var left []lease.Ticket
	full := 0 // requests refused for a full line
	for _, t := range s.st.Queue {
		l := s.lease(t.Holder)
		why, never := s.denies()
		switch {
		case l != nil && l.Ended == "" && s.st.Ref != nil:
			give(l, t)
		case t.Pool != "" && (why != "" || never != nil || t.Again):
			s.members.answerPool(t, false)
		case never != nil:
			say(t.Who(), lease.Granted{Refused: never})
		case why == "":
			fresh[t.Holder] = true
			give(s.grant(Lease{Holder: t.Holder, At: t.At, Zone: t.Zone, Run: t.Run, Generation: t.Generation, Brokered: t.Brokered}), t)
		case len(left) >= lease.MaxLine:
			say(t.Who(), lease.Granted{Refused: lease.LineFull(fmt.Sprintf("%s, and %d sessions wait already", why, len(left)), "more seeds shorten the line"), RetryAfter: lease.RetryAfter(full)})
			full++
		default:
			if len(left) >= lease.Exactly {
				why = "seed " + s.name
			}
			if left = append(left, t); t.Told != why {
				left[len(left)-1].Told = why
				say(t.Who(), lease.Granted{Queued: why + lease.Before(len(left)-1)})
			}
		}
	}
	s.st.Queue = left
	for _, holder := range lease.Post(s.ctx, letters) {
		s.isGone(lease.Who{Holder: holder}, fresh[holder])
	}
}

// news tells the holder of a login that rotates about a new generation. Holders that share
// a seed keep theirs.
func (s *holdersPart) news() (letters []lease.Letter) {
	for i := range s.st.Leases {
		l := &s.st.Leases[i]
		if !l.Rotates || l.Internal || l.Ended != "" || s.st.Ref == nil || l.Told == s.st.Ref.Generation {
			continue
		}
		ref := *s.st.Ref
		ref.Epoch = l.Epoch
		l.Told = ref.Generation
		letters = append(letters, lease.Letter{To: l.Holder, Text: lease.Granted{From: protocol.SeedID(s.name), Run: l.Run, Epoch: l.Epoch, Seed: &ref}})
	}
	return letters
}

// isGone records that a holder's workflow has ended. If h names no run, that of any run
// has. untold says that the holder was not told of its lease, so the credential is on no
// host.
func (s *holdersPart) isGone(h lease.Who, untold bool) {
	s.st.Queue = slices.DeleteFunc(s.st.Queue, func(t lease.Ticket) bool { return h.Is(t.Who()) })
	s.work = true
	l := s.lease(h.Holder)
	switch {
	case l == nil || l.Ended != "" || !h.Is(lease.Who{Holder: l.Holder, Run: l.Run}):
	case untold:
		s.drop(l.Epoch)
	default:
		s.ended(l)
	}
}
