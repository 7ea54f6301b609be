package logins

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// hintRestored says what to do about a seed that the store has newer logins of.
const hintRestored = "if Temporal's database was restored to an earlier point, `ctl recover` shows what the store has, and `ctl recover --yes` adopts it"

// lookAhead returns the generations that the store has of a seed after the generation ref, whose content
// is b. Doubts from before settled do not count.
func lookAhead(ctx context.Context, s *site.Site, ref protocol.SeedRef, b *seeds.Bundle, settled time.Time) (seeds.Ahead, error) {
	ahead, err := seeds.LookAhead(ctx, s.Store, seeds.Ref{Name: ref.Name, Generation: ref.Generation, Blob: ref.Blob}, b, settled)
	if err != nil {
		return ahead, &kit.SeedError{Name: ref.Name, Err: err}
	}
	return ahead, nil
}

// lookForDoubt calls lookAhead. If there is a doubt, it asks the seed when a person last settled one, and
// leaves out the doubts from before that time.
func lookForDoubt(ctx context.Context, s *site.Site, ref protocol.SeedRef, b *seeds.Bundle) (seeds.Ahead, error) {
	ahead, err := lookAhead(ctx, s, ref, b, time.Time{})
	if err != nil || ahead.Doubt == "" || s.Ask == nil {
		return ahead, err
	}
	switch now, ok, err := s.Ask(ctx, ref.Name); {
	case err != nil:
		return ahead, err
	case ok && !now.Settled.IsZero():
		return lookAhead(ctx, s, ref, b, now.Settled)
	}
	return ahead, nil
}

// CheckNewest refuses to plant a login if the store has a later one that was made from it:
// codex would use a refresh token that is used up. It also refuses if the store has a later generation
// that cannot be read or compared. It does not refuse if the login on the host is the store's newest or
// a later one: that login stays, and nothing is planted over it.
func CheckNewest(ctx context.Context, s *site.Site, h hostexec.Host, codexHome string, ref *protocol.SeedRef, b *seeds.Bundle) error {
	if !folder.LoginRotates(ref) || b.Auth() == nil {
		return nil
	}
	ahead, err := lookForDoubt(ctx, s, *ref, b)
	if err != nil || ahead.Newest == nil && ahead.Doubt == "" {
		return err
	}
	newest, stays := b, []seeds.Rotation{seeds.RotationLater}
	if ahead.Newest != nil {
		newest, stays = ahead.Bundle, append(stays, seeds.RotationNone)
	}
	there, _, err := kit.ReadAuth(ctx, h, path.Join(codexHome, "auth.json"), "")
	if err != nil {
		return fmt.Errorf("look at the login that is there: %w", err)
	}
	if there != nil {
		if r, _ := seeds.CompareAuth(newest.Auth(), there); slices.Contains(stays, r) {
			return nil
		}
	}
	return &kit.TypedError{Kind: protocol.ErrTypeSeedBehind, Hint: hintRestored,
		Err: fmt.Errorf("seed %s is at generation %d, and %s", ref.Name, ref.Generation, behind(ahead, ref.Generation))}
}

// behind describes what the store has after a generation, for an error.
func behind(ahead seeds.Ahead, generation int64) string {
	if ahead.Doubt != "" {
		return "a later login may exist: " + ahead.Doubt
	}
	return fmt.Sprintf("the store has generation %d, which was made from it: the refresh token of generation %d is used up", ahead.Newest.Generation, generation)
}
