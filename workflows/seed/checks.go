package seed

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// seedCheck is the newest verification of a seed, also one without result.
type seedCheck struct {
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
	logins.SeedVerdict
}

// Outcomes besides the activities' verdicts.
const (
	CheckHeld       = "held"       // its holder's turns show whether it works
	checkRecovering = "recovering" // the newest login may be on a host
)

// doubtful is the age of the newest proof at which a person's question refreshes the login.
const doubtful = time.Hour

type checksPart struct {
	*seedCore
	holders *holdersPart
	saving  *savingPart

	behind   int // how many wait for a verification or refresh
	callBack workflow.CancelFunc
}

func (s *checksPart) checkVerify(protocol.VerifySeed) error {
	if s.st.Ref == nil || s.st.Deleted {
		return kit.Refuse(protocol.RefusedNotFound, "there is no seed %q", s.name)
	}
	return nil
}

// verify finds out whether a seed is alive. Meanwhile it holds the lease of a login that
// rotates. It does not touch a login that a session holds.
func (s *checksPart) verify(ctx workflow.Context, in protocol.VerifySeed) (protocol.SeedView, error) {
	if err := s.turn(ctx, func() error { return s.checkVerify(in) }); err != nil {
		return protocol.SeedView{}, err
	}
	ctx = s.begin(ctx)
	defer s.over()
	check := seedCheck{By: kit.Cut(in.By, kit.MaxWord), SeedVerdict: s.untouchable()}
	if check.Verdict == "" {
		check.SeedVerdict = s.ask(ctx, in)
	}
	check.At = workflow.Now(ctx)
	if check.Verdict != CheckHeld && check.Verdict != checkRecovering {
		s.st.Check = &check
	}
	v := s.view()
	v.Check = check.view()
	return v, nil
}

// MostBehind bounds the updates that wait for a verification or refresh. Temporal takes ten
// at a time, and a person's must find room.
const MostBehind = 4

func (s *checksPart) crowded() error {
	if s.rolling {
		return kit.Refuse(protocol.RefusedState, "seed %s is about to go on in a new run: try again in a moment", s.name)
	}
	if s.asking && s.behind >= MostBehind {
		return kit.Refuse(protocol.RefusedState, "seed %s is being verified, and %d wait for that already: try again in a moment", s.name, s.behind)
	}
	return nil
}

// turn waits for the verification or refresh that runs, and begins one.
func (s *checksPart) turn(ctx workflow.Context, check func() error) error {
	if err := s.crowded(); err != nil {
		return err
	}
	s.behind++
	err := workflow.Await(ctx, func() bool { return !s.asking })
	if s.behind--; err != nil {
		return err
	}
	if err := kit.FirstError(s.crowded(), check()); err != nil {
		return err
	}
	s.roll.Took()
	s.asking = true
	return nil
}

func (s *checksPart) begin(ctx workflow.Context) workflow.Context {
	ctx, s.callBack = workflow.WithCancel(ctx)
	return ctx
}

// busyVerifying refuses a change that a refresh would overwrite.
func (s *seedCore) busyVerifying() error {
	return kit.Refuse(protocol.RefusedState, "seed %s is being verified: try again in a moment", s.name)
}

func (s *checksPart) over() {
	s.callBack()
	s.asking, s.work = false, true
}

// untouchable says why the seed cannot be verified now; its verdict is empty if it can.
func (s *checksPart) untouchable() logins.SeedVerdict {
	if !s.exclusive() {
		return logins.SeedVerdict{}
	}
	for i := range s.st.Leases {
		switch l := &s.st.Leases[i]; {
		case l.Ended != "":
			return logins.SeedVerdict{Verdict: checkRecovering, Reason: s.beingFetched(l), Hint: hintBurnt(s.name)}
		case !l.Internal:
			return logins.SeedVerdict{Verdict: CheckHeld, Reason: fmt.Sprintf("it is held by %s, whose turns tell whether it is alive", strings.Join(s.heldBy(), ", "))}
		}
	}
	if s.st.Rotated != nil {
		return logins.SeedVerdict{Verdict: checkRecovering, Reason: s.st.Rotated.notSaved(), Hint: hintBurnt(s.name)}
	}
	return logins.SeedVerdict{}
}

func (s *checksPart) ask(ctx workflow.Context, in protocol.VerifySeed) logins.SeedVerdict {
	ref, began := *s.st.Ref, workflow.Now(ctx)
	if h := s.st.Health; h.State == protocol.Dead && s.exclusive() && !in.Force { // its issuer's answer was final
		return logins.SeedVerdict{Verdict: "dead", Reason: h.Reason, Hint: h.Hint}
	}
	if s.exclusive() {
		epoch := s.holders.grant(Lease{Internal: true}).Epoch
		ref.Epoch = epoch
		defer func() { s.drop(epoch) }()
	}
	looked, err := kit.Do(kit.SetUp(ctx, "verify seed "+s.name), loginJobs.VerifySeed, logins.VerifySeedInput{Seed: ref})
	if err != nil {
		return notKnown(err)
	}
	s.belongsTo(ref, looked.Account)
	if !lease.Rotates(ref.Kind) {
		s.learn(ref, looked.SeedVerdict, began)
		return looked.SeedVerdict
	}
	if looked.Verdict == "fresh" && !s.wants(in, began) {
		return looked.SeedVerdict
	}
	refresh := logins.RefreshSeedInput{Seed: ref, Account: true}
	if !in.Force && (s.st.Spent || in.By == kit.Maintenance && s.st.Health.State == protocol.Suspect) {
		// Somebody else may use the login, and a refresh would make their copy useless, so
		// only a person may decide that. Look takes only an answer that an earlier refresh
		// left in the store.
		refresh.Look = true
	}
	if in.Force {
		refresh.Force = fmt.Sprintf("%s at %s", workflow.GetCurrentUpdateInfo(ctx).ID, began.Format(time.RFC3339Nano))
	}
	return s.renew(ctx, refresh, began)
}

func (s *checksPart) wants(in protocol.VerifySeed, now time.Time) bool {
	switch {
	case in.Force, s.st.Health.State == protocol.Suspect, s.st.Health.State == protocol.Dead:
		return true
	case in.By == kit.Maintenance:
		return false
	}
	return s.st.Health.State != protocol.Healthy || now.Sub(s.st.VerifiedAt) > doubtful
}

// renew refreshes a login and makes the result the newest generation. The activity is tried
// until its outcome is known. Nobody gets the seed before.
func (s *checksPart) renew(ctx workflow.Context, in logins.RefreshSeedInput, began time.Time) logins.SeedVerdict {
	ref := in.Seed
	s.st.Renews = &in
	out, err := kit.Do(kit.UntilDone(ctx, "refresh seed "+s.name), loginJobs.RefreshSeed, in)
	if s.rolling && temporal.IsCanceledError(err) {
		return logins.SeedVerdict{Verdict: "unknown", Reason: "its refresh goes on in a new run of its workflow", Hint: "try again in a moment"}
	}
	s.st.Renews = nil
	if err != nil {
		// An earlier attempt may have used the token.
		v := notKnown(err)
		v.Reason = "a refresh was begun and it is not known how it ended: " + v.Reason
		s.burnt(v.Reason, cmp.Or(v.Hint, fmt.Sprintf("mend that, then `ctl seed verify %s --force`", s.name)))
		return v
	}
	out.Hint = strings.ReplaceAll(out.Hint, "verify NAME", "verify "+s.name)
	if out.Saved != nil && s.st.Ref.Generation == ref.Generation {
		s.saving.advance(*out.Saved, out.Files)
		s.recordSaved("its issuer refreshed the login")
		ref = *s.st.Ref
	}
	s.belongsTo(ref, out.Account)
	s.learn(ref, out.SeedVerdict, began)
	return out.SeedVerdict
}

// renewAgain goes on with a refresh of the former run.
func (s *checksPart) renewAgain(ctx workflow.Context) {
	ctx = s.begin(ctx)
	defer s.over()
	began := workflow.Now(ctx)
	verdict := s.renew(ctx, *s.st.Renews, began)
	s.st.Check = &seedCheck{At: workflow.Now(ctx), SeedVerdict: verdict}
}

func (s *checksPart) learn(of protocol.SeedRef, v logins.SeedVerdict, began time.Time) {
	if s.st.Ref == nil || s.st.Ref.Generation != of.Generation {
		return
	}
	switch v.Verdict {
	case "alive":
		// The issuer's word outweighs earlier doubts.
		if s.st.Health.State == protocol.Dead {
			s.judge("", "", "")
		}
		s.alive(began, workflow.Now(s.ctx))
	case "dead":
		s.judge(protocol.Dead, v.Reason, v.Hint)
	case "lost":
		s.burnt(v.Reason, v.Hint)
	case "suspect":
		s.suspect(v.Reason, v.Hint)
	}
}

func (s *checksPart) checkRefresh(in inquiry.RefreshSeed) error {
	switch err := s.saving.fences(in.Holder, in.Epoch, false); {
	case err != nil:
		return err
	case !s.exclusive():
		return kit.Refuse(protocol.RefusedBadInput, "seed %s is of kind %s: it has nothing to refresh", s.name, s.st.Ref.Kind)
	case in.From > s.st.Ref.Generation:
		return kit.Refuse(protocol.RefusedBadInput, "seed %s is at generation %d, not at %d", s.name, s.st.Ref.Generation, in.From)
	}
	return nil
}

// refresh gives a holder a login that is newer than its own.
func (s *checksPart) refresh(ctx workflow.Context, in inquiry.RefreshSeed) (inquiry.SeedNow, error) {
	if err := s.turn(ctx, func() error { return s.checkRefresh(in) }); err != nil {
		return inquiry.SeedNow{}, err
	}
	ctx = s.begin(ctx)
	defer s.over()
	if in.From < s.st.Ref.Generation {
		return s.saving.now(), nil
	}
	if h := s.st.Health; h.State == protocol.Dead {
		return inquiry.SeedNow{}, kit.Refuse(protocol.RefusedDead, "refresh seed %s: %s (%s)", s.name, h.Reason, h.Hint)
	}
	ref := *s.st.Ref
	ref.Epoch = in.Epoch
	began := workflow.Now(ctx)
	verdict := s.renew(ctx, logins.RefreshSeedInput{Seed: ref}, began)
	s.st.Check = &seedCheck{At: workflow.Now(ctx), By: kit.Cut(in.Holder, kit.MaxWord), SeedVerdict: verdict}
	switch verdict.Verdict {
	case "alive":
		return s.saving.now(), nil
	case "dead":
		return inquiry.SeedNow{}, kit.Refuse(protocol.RefusedDead, "refresh seed %s: %s (%s)", s.name, verdict.Reason, verdict.Hint)
	}
	return inquiry.SeedNow{}, kit.Refuse("seed_"+verdict.Verdict, "refresh seed %s: %s (%s)", s.name, verdict.Reason, verdict.Hint)
}

func notKnown(err error) logins.SeedVerdict {
	f := kit.FailureOf("it could not be asked", err)
	return logins.SeedVerdict{Verdict: "unknown", Reason: f.Message, Hint: f.Hint}
}

func (c *seedCheck) view() *protocol.SeedCheck {
	if c == nil {
		return nil
	}
	return &protocol.SeedCheck{At: c.At, By: c.By, Verdict: c.Verdict, Reason: c.Reason, Hint: c.Hint}
}
