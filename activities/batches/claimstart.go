package batches

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots"
)

const (
	// claims are the keys of used starts: starts/2026-12-01/<digest>, by the day on which
	// they were signed.
	claims = "starts/"
	// standing are the keys of the commands that schedules start: standing/<digest of the
	// schedule and when it was made>. They stay.
	standing = "standing/"
	// claimsKept is longer than a signed start is valid.
	claimsKept = 4 * 24 * time.Hour
	// madeWithin is how far apart the creation of a Schedule and its signature may be.
	madeWithin = 10 * time.Minute
)

// ClaimStart says whether a signed start counts. The first run that claims it may use it, in
// every attempt of the activity. What a Schedule starts counts as long as the Schedule for
// which it was signed exists. A start whose principal may not read what it begins with does
// not count, and is not claimed.
func (b *Activities) ClaimStart(ctx context.Context, in protocol.ClaimStart) (out protocol.StartClaimed, _ error) {
	if in.Workflow == "" || in.Run == "" {
		return out, temporal.NewNonRetryableApplicationError("look whether a start counts: the input names no workflow or no run", protocol.RefusedBadInput, nil)
	}
	defer func() { out.Run, out.Nonce = in.Run, in.Nonce }()
	failing := func(err error) error {
		return kit.Failing{}.Failure(ctx, "look whether the start of "+in.Workflow+" counts", err)
	}
	if in.Reads != nil {
		out, err := mayRead(ctx, b.site, *in.Reads)
		if err != nil || out.Refused != "" {
			return out, failing(err)
		}
	}
	claim := claimStart
	if in.Nonce == "" { // what started it was judged
		claim = func(context.Context, *site.Site, protocol.ClaimStart) (out protocol.StartClaimed, _ error) {
			return out, nil
		}
	}
	if in.Schedule != "" {
		claim = claimFiring
	}
	var err error
	out, err = claim(ctx, b.site, in)
	if err == nil && out.Refused == "" && in.Judge != nil {
		out.Refused, err = judgeStart(ctx, b.site, *in.Judge)
	}
	if err == nil && out.Refused == "" && in.Owns != nil {
		out.Refused, err = records.Own(ctx, b.site.Store, *in.Owns)
	}
	if err == nil && out.Refused == "" {
		out.Audited, err = site.WriteAudit(ctx, b.site, in.Audit)
	}
	return out, failing(err)
}

// mayRead refuses what a start may not begin with. Who uploaded a tree may begin with it.
// Other snapshots need the right to read their session. If that has the id of the session
// that begins, nobody can say any more whose it was.
func mayRead(ctx context.Context, s *site.Site, in protocol.StartReads) (out protocol.StartClaimed, err error) {
	if s.MayRead == nil {
		return out, errors.New("this worker has no access file, and the start was judged by one: give all workers the same authority")
	}
	owners := in.Owners
	if in.Snapshot != "" {
		session, err := snapshots.SessionOf(in.Snapshot)
		if err != nil {
			return out, kit.BadInput("%w", err)
		}
		m, err := snapshots.Read(ctx, s.Store, in.Snapshot)
		if err != nil {
			return out, err
		}
		if m.By != in.Principal {
			owners = append(owners, owned.Owner{Kind: owned.Session, ID: session}.String())
		}
	}
	for _, name := range owners {
		kind, id, _ := strings.Cut(name, ".")
		o := owned.Owner{Kind: kind, ID: id}
		why, err := s.MayRead(ctx, in.Principal, in.Groups, o, id == in.Session)
		if err != nil {
			return out, fmt.Errorf("find out whether %s may read %s %s: %w", in.Principal, o.Kind, o.ID, err)
		}
		if why != "" {
			out.Refused = fmt.Sprintf("it begins with what %s %s has, and %s may not read that: %s", o.Kind, o.ID, in.Principal, why)
			return out, nil
		}
	}
	return out, nil
}

func claimStart(ctx context.Context, s *site.Site, in protocol.ClaimStart) (out protocol.StartClaimed, err error) {
	sum := sha256.Sum256([]byte(s.Namespace + "\x00" + in.Workflow + "\x00" + in.Nonce))
	key := claims + in.At.UTC().Format(time.DateOnly) + "/" + hex.EncodeToString(sum[:])
	err = s.Store.Create(ctx, key, []byte(in.Run))
	if !errors.Is(err, store.ErrExists) {
		return out, err
	}
	by, err := s.Store.Get(ctx, key)
	if err == nil && string(by) != in.Run {
		out.Refused = fmt.Sprintf("it was started before, as run %.100s, and a signed start counts once: start it anew", by)
	}
	return out, err
}

func claimFiring(ctx context.Context, s *site.Site, in protocol.ClaimStart) (out protocol.StartClaimed, err error) {
	ctx, cancel := context.WithTimeout(ctx, inquiry.AskTimeout)
	defer cancel()
	d, err := s.Temporal.ScheduleClient().GetHandle(ctx, in.Schedule).Describe(ctx)
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		out.Refused = fmt.Sprintf("%.100s, for which it was signed, does not exist any more", in.Schedule)
		return out, nil
	case err != nil:
		return out, err
	}
	if made := d.Info.CreatedAt; made.Sub(in.At).Abs() > madeWithin {
		out.Refused = fmt.Sprintf("%.100s was made at %s, and what it starts was signed at %s: somebody made it anew without a signature; delete it, and create it with ctl",
			in.Schedule, made.UTC().Format(time.RFC3339), in.At.UTC().Format(time.RFC3339))
		return out, nil
	}
	return claimSchedule(ctx, s, in, d.Info.CreatedAt)
}

// claimSchedule says whether a signed command is the one that the first firing of a schedule
// had. The time in a signature is what its signer wrote: who has the key of a certificate
// that has expired could sign what else the schedule starts.
func claimSchedule(ctx context.Context, s *site.Site, in protocol.ClaimStart, made time.Time) (out protocol.StartClaimed, err error) {
	sum := sha256.Sum256([]byte(s.Namespace + "\x00" + in.Schedule + "\x00" + made.UTC().Format(time.RFC3339Nano)))
	key := standing + hex.EncodeToString(sum[:])
	err = s.Store.Create(ctx, key, []byte(in.Nonce))
	if !errors.Is(err, store.ErrExists) {
		return out, err
	}
	first, err := s.Store.Get(ctx, key)
	if err == nil && string(first) != in.Nonce {
		out.Refused = fmt.Sprintf("what %.100s starts is not what it started first, and was not signed then: delete it, and create it with ctl", in.Schedule)
	}
	return out, err
}

// tidyClaims deletes the claims of starts that are too old to be used again.
func tidyClaims(ctx context.Context, s *store.Store, now time.Time) error {
	all, err := s.List(ctx, claims)
	if err != nil {
		return err
	}
	for _, blob := range all {
		day, _, _ := strings.Cut(strings.TrimPrefix(blob.Key, claims), "/")
		at, err := time.Parse(time.DateOnly, day)
		if err != nil || now.Sub(at) < claimsKept {
			continue
		}
		if err := s.Delete(ctx, blob.Key); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}
