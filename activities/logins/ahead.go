package logins

import (
	"context"
	"fmt"
	"path"
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

// lookAhead returns what the store has of a seed beyond the generation ref. b is the content of that
// generation.
func lookAhead(ctx context.Context, s *site.Site, ref protocol.SeedRef, b *seeds.Bundle, settled time.Time) (seeds.Ahead, error) {
	ahead, err := seeds.LookAhead(ctx, s.Store, seeds.Ref{Name: ref.Name, Generation: ref.Generation, Blob: ref.Blob}, b, settled)
	if err != nil {
		return ahead, &kit.SeedError{Name: ref.Name, Err: err}
	}
	return ahead, nil
}

// CheckNewest refuses to plant a login if the store has a later one that was made from it:
// codex would use a refresh token that is used up. It does not refuse if the login on the host
// is the store's newest or a later one: that login stays, and nothing is planted over it.
func CheckNewest(ctx context.Context, s *site.Site, h hostexec.Host, codexHome string, ref *protocol.SeedRef, b *seeds.Bundle) error {
	if !folder.LoginRotates(ref) || b.Auth() == nil {
		return nil
	}
	ahead, err := lookAhead(ctx, s, *ref, b, time.Time{})
	if err != nil || ahead.Newest == nil {
		return err
	}
	there, _, err := kit.ReadAuth(ctx, h, path.Join(codexHome, "auth.json"), "")
	if err != nil {
		return fmt.Errorf("look at the login that is there: %w", err)
	}
	if there != nil {
		switch r, _ := seeds.CompareAuth(ahead.Bundle.Auth(), there); r {
		case seeds.RotationNone, seeds.RotationLater:
			return nil
		}
	}
	return &kit.TypedError{Kind: protocol.ErrTypeSeedBehind, Hint: hintRestored,
		Err: fmt.Errorf("seed %s is at generation %d, and the store has generation %d, which was made from it: the refresh token of generation %d is used up", ref.Name, ref.Generation, ahead.Newest.Generation, ref.Generation)}
}
