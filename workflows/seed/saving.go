package seed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/gateways"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/internal/ruling"
)

// seedRotated is a login that is not saved yet.
type seedRotated struct {
	inquiry.RotatedSeed
	Since time.Time `json:"since"`
}

const authFile = "auth.json"

func authOf(files []protocol.SeedFile) string {
	for _, f := range files {
		if f.Path == authFile {
			return f.Digest
		}
	}
	return ""
}

type savingPart struct {
	*seedCore
	holders *holdersPart
	members *membersPart

	removed time.Time
}

func (s *savingPart) advance(ref protocol.SeedRef, files []protocol.SeedFile) {
	ref.Name, ref.Generation, ref.Epoch = s.name, 1, 0
	if s.st.Ref != nil {
		ref.Generation = s.st.Ref.Generation + 1
	}
	if was := authOf(s.st.Files); was != "" && was != authOf(files) {
		s.st.Former = append(s.st.Former, was)
		s.st.Former = s.st.Former[max(len(s.st.Former)-maxFormer, 0):]
	}
	s.st.Ref, s.st.Files, s.st.PutAt = &ref, files, workflow.Now(s.ctx)
	s.st.Spent = false
	s.keepBlob(ref.Blob)
}

// maxFormer bounds the former logins that are recognized at an import.
const maxFormer = 100

func (s *savingPart) keepBlob(key string) {
	if !slices.Contains(s.st.Blobs, key) {
		s.st.Blobs = append(s.st.Blobs, key)
	}
}

// checkBlob refuses a blob that is not one of the seed's own. It is for the validator alone:
// older histories replay.
func (s *savingPart) checkBlob(in protocol.PutSeed) error {
	if !in.Moved && in.Ref.Blob != "" && !strings.HasPrefix(in.Ref.Blob, "seeds/"+s.name+"/") {
		return kit.Refuse(protocol.RefusedBadInput, "seed %s: the bundle's key %q is not one of seeds/%s/: import the login with ctl, which stores it there", s.name, kit.Cut(in.Ref.Blob, kit.MaxWord), s.name)
	}
	return nil
}

func (s *savingPart) checkPut(in protocol.PutSeed) error {
	switch {
	case !protocol.NamePattern.MatchString(in.Name) || in.Name != s.name:
		return kit.Refuse(protocol.RefusedBadInput, "seed name %q: use a-z, 0-9, dot, dash, underscore; at most 63, the first a letter or a digit", in.Name)
	case s.st.Deleted:
		return kit.Refuse(protocol.RefusedState, "seed %s is being deleted: try again in a moment", in.Name)
	case in.Moved && (s.st.Ref == nil || s.st.Ref.Blob != in.Ref.Blob):
		return kit.Refuse(protocol.RefusedState, "seed %s has another login by now", in.Name)
	case in.Moved:
		return nil
	case !in.Ask && (in.Ref.Blob == "" || in.Ref.Digest == ""):
		return kit.Refuse(protocol.RefusedBadInput, "seed %s: the bundle is not in the store", in.Name)
	case in.Expect != 0 && (s.st.Ref == nil || s.st.Ref.Generation != in.Expect):
		return kit.Refuse(protocol.RefusedState, "seed %s is not at generation %d any more", in.Name, in.Expect)
	case s.asking && s.exclusive():
		return s.busyVerifying()
	case s.exclusive() && len(s.heldBy()) > 0:
		return kit.Refuse(protocol.RefusedState, "seed %s is a login that rotates and is held by %s", in.Name, strings.Join(s.heldBy(), ", "))
	}
	if lease.Rotates(in.Ref.Kind) && !in.Force && slices.Contains(s.st.Former, authOf(in.Files)) {
		return kit.Refuse(protocol.RefusedState, "seed %s: this auth.json is older than the stored login (generation %d) that replaced it: log in again and import the new login, or use --force", in.Name, s.st.Ref.Generation)
	}
	//workflowcheck:ignore // a pure function
	if err := protocol.CheckSeedTools(in.Tools); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "seed %s: tools: %v", s.name, err)
	}
	//workflowcheck:ignore // a pure function
	if err := protocol.CheckSeedFollowUps(in.FollowUps); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "seed %s: follow_ups: %v", s.name, err)
	}
	return s.checkGiven(in.Ref.Kind, in.Share, in.Pools)
}

// put takes a login that a person brings. It ends all doubts about the former login, and
// stops fetching it.
func (s *savingPart) put(in protocol.PutSeed) protocol.SeedView {
	switch {
	case in.Ask:
		return s.view()
	case in.Moved:
		if s.st.Health.Elsewhere != "" {
			s.st.Health, s.st.Spent = Health{Since: workflow.Now(s.ctx)}, false
		}
		return s.view()
	}
	s.settle()
	s.advance(in.Ref, in.Files)
	s.putAccount(in.Account)
	s.st.Tools, s.st.FollowUps = in.Tools, in.FollowUps
	s.holders.giveUpFetching()
	s.st.Rotated, s.st.Health = nil, Health{Since: workflow.Now(s.ctx)}
	if where := kit.Cut(in.Elsewhere, kit.MaxReason); where != "" && s.exclusive() {
		s.burnt(fmt.Sprintf("its login is still in %s: whoever uses it there burns it here", where),
			fmt.Sprintf("`ctl seed capture %s … --move` takes it away there; or `ctl seed revive %s` when nobody uses it there any more", s.name, s.name))
		s.st.Health.Elsewhere = where
	}
	if s.st.Credentials != "" && checkDefaultOf(s.st.Ref.Kind, s.st.Credentials) != nil {
		s.st.Credentials = "" // the former seed was of another kind
	}
	return s.set(protocol.SetSeed{Share: in.Share, Pools: in.Pools})
}

func (s *savingPart) checkGiven(kind string, share *int, pools *[]string) error {
	switch {
	case share != nil && *share < 0:
		return kit.Refuse(protocol.RefusedBadInput, "seed %s: it cannot be shared by %d sessions", s.name, *share)
	case share != nil && lease.Rotates(kind) && *share > 1:
		return kit.Refuse(protocol.RefusedBadInput, "seed %s is a login that rotates: two holders would burn it, so it is never shared", s.name)
	case pools != nil:
		return checkPools(*pools)
	}
	return nil
}

func (s *savingPart) checkSet(in protocol.SetSeed) error {
	if s.st.Ref == nil || s.st.Deleted {
		return kit.Refuse(protocol.RefusedNotFound, "there is no seed %q", s.name)
	}
	if in.Policy != nil {
		if err := ruling.CheckPolicy(*in.Policy); err != nil {
			return kit.Refuse(protocol.RefusedBadInput, "seed %s: %v", s.name, err)
		}
	}
	if in.Bounds != nil {
		if err := in.Bounds.Check(); err != nil {
			return kit.Refuse(protocol.RefusedBadInput, "bounds of seed %s: %v", s.name, err)
		}
		if in.Bounds.NoExec {
			return kit.Refuse(protocol.RefusedBadInput, "bounds of seed %s: a seed cannot forbid commands on hosts", s.name)
		}
	}
	if in.Credentials != nil {
		if err := checkDefaultOf(s.st.Ref.Kind, *in.Credentials); err != nil {
			return kit.Refuse(protocol.RefusedBadInput, "seed %s: %v", s.name, err)
		}
	}
	return s.checkGiven(s.st.Ref.Kind, in.Share, in.Pools)
}

// checkDefaultOf refuses a default that the seed cannot have.
func checkDefaultOf(kind, way string) error {
	switch way {
	case protocol.NoDefault, protocol.CredentialsPlanted:
		return nil
	case protocol.CredentialsGateway:
		return gateways.CheckKind(kind)
	}
	return fmt.Errorf("unknown default of credentials %.40q: use planted, gateway or none", way)
}

func (s *savingPart) set(in protocol.SetSeed) protocol.SeedView {
	if in.Policy != nil {
		s.st.Policy = *in.Policy
	}
	if in.Amend != nil {
		s.st.Amend = *in.Amend
	}
	if in.Bounds != nil {
		if s.st.Bounds = in.Bounds; in.Bounds.None() {
			s.st.Bounds = nil
		}
	}
	if in.Credentials != nil {
		if s.st.Credentials = *in.Credentials; s.st.Credentials == protocol.NoDefault {
			s.st.Credentials = ""
		}
	}
	if in.Share != nil {
		s.st.Share = *in.Share
	}
	if in.Pools != nil {
		s.members.setPools(*in.Pools)
	}
	return s.view()
}

func (s *savingPart) checkRemove(protocol.DeleteSeed) error {
	switch {
	case s.st.Ref == nil || s.st.Deleted:
		return kit.Refuse(protocol.RefusedNotFound, "there is no seed %q", s.name)
	case len(s.heldBy()) > 0:
		return kit.Refuse(protocol.RefusedState, "seed %s is held by %s", s.name, strings.Join(s.heldBy(), ", "))
	case s.asking:
		return s.busyVerifying()
	case len(s.st.Leases) > 0:
		return kit.Refuse(protocol.RefusedState, "seed %s is %s; `ctl seed revive %s` gives that up", s.name, s.beingFetched(&s.st.Leases[0]), s.name)
	case s.st.Rotated != nil:
		return kit.Refuse(protocol.RefusedState, "seed %s was rotated and is not saved; `ctl seed revive %s` gives that up", s.name, s.name)
	}
	return nil
}

func (s *savingPart) remove(in protocol.DeleteSeed) protocol.SeedView {
	s.st.Deleted, s.st.Purge, s.removed = true, in.Purge, workflow.Now(s.ctx)
	return s.view()
}

// now returns the newest generation and its holders. A holder that ended counts until its
// login is fetched.
func (s *savingPart) now() inquiry.SeedNow {
	out := inquiry.SeedNow{Auth: authOf(s.st.Files), Ref: s.st.Ref, Holders: map[string]int64{}, First: s.st.First}
	if s.st.Ref != nil {
		out.Generation = s.st.Ref.Generation
	}
	for _, l := range s.st.Leases {
		out.Holders[l.Holder] = l.Epoch
	}
	if s.st.Rotated != nil {
		r := s.st.Rotated.RotatedSeed
		out.Rotated = &r
	}
	return out
}

// forgot reports whether this workflow does not know the lease that a holder had under an epoch. Either an earlier
// workflow, ended by force, granted it, or Temporal forgot it by a restore of its database. The
// second case is known only after `ctl recover --yes`.
func (s *savingPart) forgot(holder string, epoch int64) bool {
	return epoch > 0 && (epoch <= s.st.First || inquiry.InAny(s.st.Lost, holder, epoch))
}

// takesFrom reports whether the seed takes the login that the holder of a forgotten lease
// left on its host: nobody holds the seed, and no other login is to be saved.
func (s *savingPart) takesFrom(holder string, epoch int64) bool {
	return s.forgot(holder, epoch) && s.exclusive() && len(s.st.Leases) == 0 && !s.asking && (s.st.Rotated == nil || s.st.Rotated.Holder == holder)
}

// fences refuses a holder that does not hold the seed any more. left says that codex has
// ended on its host and the login is about to be wiped: then fences accepts a forgotten
// lease, too, if takesFrom does.
func (s *savingPart) fences(holder string, epoch int64, left bool) error {
	switch {
	case s.st.Ref == nil || s.st.Deleted:
		return kit.Refuse(protocol.RefusedNotFound, "there is no seed %q", s.name)
	case left && s.takesFrom(holder, epoch):
		return nil
	case s.holds(holder, epoch) == nil:
		return kit.Refuse(protocol.RefusedFenced, "session %s does not hold seed %s under epoch %d any more (the newest epoch is %d)", kit.Cut(holder, kit.MaxWord), s.name, epoch, s.st.Epoch)
	}
	return nil
}

// checkSave takes a login only from the holder, and only as the successor of the generation
// that codex had. A repeat is accepted.
func (s *savingPart) checkSave(in inquiry.SaveSeed) error {
	if err := s.fences(in.Holder, in.Epoch, in.Left); err != nil {
		return err
	}
	switch now := s.st.Ref; {
	case in.Auth == "" || authOf(in.Files) != in.Auth || in.Ref.Blob == "" || in.Ref.Digest == "":
		return kit.Refuse(protocol.RefusedBadInput, "save seed %s: it names no auth.json in the store", s.name)
	case !lease.Rotates(now.Kind) || in.Ref.Kind != now.Kind:
		return kit.Refuse(protocol.RefusedBadInput, "save seed %s: the seed is of kind %s and the login on the host of kind %s: only a rotating login of the same kind can be saved",
			s.name, now.Kind, in.Ref.Kind)
	case in.Auth == authOf(s.st.Files):
		return nil
	case in.From != now.Generation:
		return kit.Refuse(protocol.RefusedFenced, "seed %s is at generation %d: a login made from generation %d is not saved", s.name, now.Generation, in.From)
	}
	return nil
}

func (s *savingPart) save(in inquiry.SaveSeed) inquiry.SeedNow {
	if in.Auth != authOf(s.st.Files) {
		s.advance(in.Ref, in.Files)
		s.recordSaved(fmt.Sprintf("codex of session %s rotated the login", in.Holder))
		now := workflow.Now(s.ctx)
		if s.st.Health.State == "" { // its issuer made it just now
			s.alive(now, now)
		}
	}
	if r := s.st.Rotated; r != nil && r.Auth == in.Auth {
		s.st.Rotated = nil
	}
	return s.now()
}

func (s *savingPart) checkRotated(in inquiry.RotatedSeed) error {
	if err := s.fences(in.Holder, in.Epoch, in.Left); err != nil {
		return err
	}
	switch {
	case in.Auth == "":
		return kit.Refuse(protocol.RefusedBadInput, "seed %s: the digest of what was seen is missing", s.name)
	case !s.exclusive():
		return kit.Refuse(protocol.RefusedBadInput, "seed %s is of kind %s, which does not rotate", s.name, s.st.Ref.Kind)
	}
	return nil
}

// rotated records a login that is not saved yet, until it is.
func (s *savingPart) rotated(in inquiry.RotatedSeed) inquiry.SeedNow {
	in.Reason = kit.Cut(in.Reason, kit.MaxReason)
	if in.Auth == authOf(s.st.Files) {
		return s.now()
	}
	r := seedRotated{RotatedSeed: in, Since: workflow.Now(s.ctx)}
	if old := s.st.Rotated; old != nil {
		r.Since = old.Since
	}
	s.st.Rotated = &r
	return s.now()
}

func (r *seedRotated) notSaved() string {
	text := fmt.Sprintf("codex of session %s rotated the login, and it is not saved", r.Holder)
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}
