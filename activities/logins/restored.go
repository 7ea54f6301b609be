package logins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/internal/teamtool"
	"fairlead.dev/fairlead/seeds"
)

// shownSeeds bounds the seeds in a result, which Temporal keeps.
const shownSeeds = 1000

// RecoverSeeds reconciles every seed with the store, after Temporal's database was restored to
// an earlier point. A later login in the store becomes the newest generation, and the leases
// that Temporal has forgotten are fenced off. If it cannot be known that a seed's login is the
// newest, the seed becomes suspect. No token is used. It may be killed and repeated.
func (s *Activities) RecoverSeeds(ctx context.Context, in protocol.RecoverInput) (protocol.RecoverResult, error) {
	out, err := RecoverSeeds(ctx, s.Site, in)
	return out, kit.Failing{}.Failure(ctx, "reconcile seeds with the store", err)
}

// RecoverSeeds does the work of the activity of that name.
func RecoverSeeds(ctx context.Context, s *site.Site, in protocol.RecoverInput) (protocol.RecoverResult, error) {
	out := protocol.RecoverResult{DryRun: in.DryRun, Seeds: []protocol.RecoveredSeed{}}
	if s.Restored == nil {
		return out, errors.New("this worker has no connection to Temporal")
	}
	known, err := s.Restored.Seeds(ctx)
	if err != nil {
		return out, err
	}
	stored, err := seeds.Names(ctx, s.Store)
	if err != nil {
		return out, err
	}
	if out.Sessions, err = s.Restored.Sessions(ctx); err != nil {
		return out, err
	}
	names := append(known, stored...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		row, err := recoverOne(ctx, s, name, in.DryRun)
		switch {
		case err != nil && (ctx.Err() != nil || errors.Is(err, store.ErrUnreachable)):
			return out, err
		case err != nil:
			row.Problem = err.Error()
			out.Failed++
		}
		addSeed(&out, row)
	}
	return out, nil
}

func addSeed(out *protocol.RecoverResult, row protocol.RecoveredSeed) {
	due := row.Action == protocol.RecoverAdopt || row.Action == protocol.RecoverSuspect
	if due {
		out.Due++
	}
	if row.Suspect {
		out.Doubtful++
	}
	if len(out.Seeds) >= shownSeeds && !due && row.Problem == "" || len(out.Seeds) >= 2*shownSeeds {
		out.Omitted++
		return
	}
	out.Seeds = append(out.Seeds, row)
}

func recoverOne(ctx context.Context, s *site.Site, name string, look bool) (protocol.RecoveredSeed, error) {
	row := protocol.RecoveredSeed{Name: name, Action: protocol.RecoverNothing}
	now, ok, err := s.Ask(ctx, name)
	switch {
	case err != nil:
		return row, err
	case ok && now.Deleted:
		row.Action, row.Reason, row.Hint = protocol.RecoverAbsent, "it was deleted, and the store still has it", fmt.Sprintf("`ctl seed import %s DIR`, if it is needed again", name)
		return row, nil
	case !ok || now.Ref == nil:
		row.Action, row.Reason, row.Hint = protocol.RecoverAbsent, "the store has it, and Temporal does not know it", fmt.Sprintf("`ctl seed import %s DIR`, if it is still needed", name)
		return row, nil
	}
	row.Kind, row.Generation = now.Ref.Kind, now.Generation
	for holder := range now.Holders {
		row.HeldBy = append(row.HeldBy, holder)
	}
	slices.Sort(row.HeldBy)
	adopt := inquiry.AdoptSeed{Generation: now.Generation, Auth: now.Auth}
	if err := compareWithStore(ctx, s, now, &row, &adopt); err != nil || look {
		return row, err
	}
	if _, err := s.Restored.Adopt(ctx, name, adopt); err != nil {
		return row, fmt.Errorf("reconcile it: %w", err)
	}
	row.Done = true
	return row, nil
}

// compareWithStore compares the seed's generation with the store. It fills row, which ctl shows, and
// adopt, which is sent to the seed's workflow.
func compareWithStore(ctx context.Context, s *site.Site, now inquiry.SeedNow, row *protocol.RecoveredSeed, adopt *inquiry.AdoptSeed) error {
	doubt := func(reason, hint string) {
		row.Suspect, row.Reason, row.Hint = true, reason, hint
		adopt.Doubt, adopt.Hint = reason, hint
		if row.Action == protocol.RecoverNothing {
			row.Action = protocol.RecoverSuspect
		}
	}
	ref := *now.Ref
	ref.Generation = now.Generation
	anew := fmt.Sprintf("log in anew and import it with `ctl seed import %s DIR`; or `ctl seed revive %s` if nothing newer exists", ref.Name, ref.Name)
	cur, err := s.Bundle(ctx, &ref)
	switch {
	case errors.Is(err, store.ErrUnreachable):
		return err
	case err != nil:
		doubt("its login cannot be read: "+err.Error(), fmt.Sprintf("restore the store, too, or `ctl seed import %s DIR`", ref.Name))
		return nil
	}
	ahead, err := lookAhead(ctx, s, ref, cur, now.Settled)
	if err != nil {
		return err
	}
	row.Stored = ahead.Highest
	newest := cur
	if ahead.Newest != nil {
		newest = ahead.Bundle
		row.Action, row.Adopts, row.Becomes = protocol.RecoverAdopt, ahead.Newest.Generation, max(now.Generation+1, ahead.Highest)
		if err := takeAhead(adopt, ahead); err != nil {
			return err
		}
	}
	if cur.Kind() != seeds.KindChatGPT {
		if !ahead.Imported.IsZero() {
			row.Reason = "somebody may have imported it again at " + ahead.Imported.UTC().Format(time.RFC3339)
			row.Hint = fmt.Sprintf("if so, `ctl seed import %s DIR` once more", ref.Name)
		}
		return nil
	}
	lost, err := seeds.RefreshUnanswered(ctx, s.Store, ref.Name, newest, now.Settled)
	switch {
	case err != nil:
		return err
	case lost:
		doubt("a refresh of its login was begun, and the store has no answer: its refresh token may be used up", anew)
	case ahead.Doubt != "":
		doubt(ahead.Doubt, anew)
	case !ahead.Imported.IsZero():
		doubt("somebody imported a login at "+ahead.Imported.UTC().Format(time.RFC3339)+", and Temporal has forgotten that", anew)
	}
	return nil
}

// takeAhead makes adopt name the newest login in the store, with what its bundle gives to
// sessions.
func takeAhead(adopt *inquiry.AdoptSeed, ahead seeds.Ahead) error {
	ref, b := ahead.Newest, ahead.Bundle
	file, err := b.Tools()
	if err != nil {
		return err
	}
	tools, err := teamtool.OfSeed(file)
	if err != nil {
		return err
	}
	rules, err := b.FollowUps()
	if err != nil {
		return err
	}
	adopt.Ref = &protocol.SeedRef{Name: ref.Name, Generation: ref.Generation, Blob: ref.Blob, Digest: ref.Digest, Kind: string(ref.Kind)}
	adopt.Files, adopt.Highest, adopt.Former = filesOf(b), ahead.Highest, ahead.Former
	adopt.Tools, adopt.FollowUps = teamtool.Shown(tools), protocol.ShowFollowUps(rules)
	return nil
}
