package seeds

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

// Temporal's database may be restored to an earlier point. Then the store has logins that were
// made after the generation that Temporal knows, whose refresh token is used up.

// An Ahead is what the store has of a seed beyond one generation of it.
type Ahead struct {
	// Highest is the highest number of a generation in the store.
	Highest int64
	// Newest is the latest login that was made from that generation, and Bundle its content;
	// nil if there is none.
	Newest *Ref
	Bundle *Bundle
	// Former are the digests of the auth.json between the two.
	Former []string
	// Doubt, if not empty, says why the store may have a later login than Newest.
	Doubt string
	// Imported is the time of the newest import since then that may be a later login. It is
	// zero if there is none.
	Imported time.Time

	settled time.Time
}

// known reports whether a person who said at settled that a login is the newest knew what the store got
// at that time.
func known(at, settled time.Time) bool { return at.Before(settled.Add(-clocks)) }

// maxAhead bounds the generations that LookAhead reads, the newest first.
const maxAhead = 64

// LookAhead finds out what the store has beyond a generation, whose content is cur. Imports
// have keys without a generation, so that only their time tells which are newer. A blob that the store
// got before the generation's own was not made from it: it is of a deleted seed of the same name, or of
// a login that a person gave up.
//
// At settled, if it is not zero, a person said that the seed's login is the newest. What the store
// had then puts nothing in doubt.
func LookAhead(ctx context.Context, st *store.Store, of Ref, cur *Bundle, settled time.Time) (Ahead, error) {
	out := Ahead{settled: settled}
	found, err := generations(ctx, st, of.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return out, err
	}
	var newer, imports []store.Info
	since := timeOf(found, of.Blob)
	for _, i := range found {
		switch n := numberOf(i.Key); {
		case n > of.Generation:
			if !i.ModTime.Before(since.Add(-clocks)) {
				newer = append(newer, i)
			}
			out.Highest = max(out.Highest, n)
		case n > 0:
			out.Highest = max(out.Highest, n)
		case i.Key != of.Blob:
			imports = append(imports, i)
		}
	}
	if cur.Kind() != KindChatGPT {
		return out, out.lookAtImports(ctx, st, cur, since, imports)
	}
	slices.SortFunc(newer, func(a, b store.Info) int { return strings.Compare(b.Key, a.Key) })
	for _, i := range newer[:min(len(newer), maxAhead)] {
		if err := out.compare(ctx, st, of, cur, i); err != nil {
			return out, err
		}
	}
	if out.Newest != nil {
		return out, out.lookAtImports(ctx, st, out.Bundle, timeOf(found, out.Newest.Blob), imports)
	}
	return out, out.lookAtImports(ctx, st, cur, since, imports)
}

func timeOf(found []store.Info, key string) (at time.Time) {
	for _, i := range found {
		if i.Key == key {
			at = i.ModTime
		}
	}
	return at
}

// maxImports bounds the imports that are read.
const maxImports = 8

// lookAtImports finds imports that are newer than the content b, which was stored at since. The
// store does not show whether the seed accepted an import, so a refused one counts too.
func (a *Ahead) lookAtImports(ctx context.Context, st *store.Store, b *Bundle, since time.Time, imports []store.Info) error {
	imports = slices.DeleteFunc(imports, func(i store.Info) bool {
		return since.IsZero() || !i.ModTime.After(since) || known(i.ModTime, a.settled)
	})
	slices.SortFunc(imports, func(a, b store.Info) int { return b.ModTime.Compare(a.ModTime) })
	for _, i := range imports[:min(len(imports), maxImports)] {
		other, err := Load(ctx, st, i.Key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case errors.Is(err, store.ErrUnreachable), ctx.Err() != nil:
			return err
		case err == nil && other.Manifest().Digest() == b.Manifest().Digest():
			continue
		case err == nil && b.Kind() == KindChatGPT:
			if r, _ := CompareAuth(b.Auth(), other.Auth()); r == RotationNone || r == RotationEarlier {
				continue
			}
		}
		a.Imported = i.ModTime
		return nil
	}
	return nil
}

// compare takes the blob of a higher generation into account. It is called for the highest
// generations first.
func (a *Ahead) compare(ctx context.Context, st *store.Store, of Ref, cur *Bundle, blob store.Info) error {
	key, n := blob.Key, numberOf(blob.Key)
	doubt := func(format string, args ...any) {
		if a.Doubt == "" && !known(blob.ModTime, a.settled) && (a.Newest == nil || n >= a.Newest.Generation) {
			a.Doubt = fmt.Sprintf("generation %d, which the store has: ", n) + fmt.Sprintf(format, args...)
		}
	}
	b, err := Load(ctx, st, key)
	switch {
	case errors.Is(err, store.ErrNotFound): // deleted meanwhile
		return nil
	case errors.Is(err, store.ErrUnreachable), ctx.Err() != nil:
		return err
	case err != nil:
		doubt("it cannot be read: %v", err)
		return nil
	}
	switch r, err := CompareAuth(cur.Auth(), b.Auth()); r {
	case RotationNone, RotationEarlier, RotationLoggedOut:
		return nil
	case RotationForeign:
		doubt("it is a login of another account, or of another kind")
		return nil
	case RotationLater:
	default:
		doubt("%v", err)
		return nil
	}
	ref := Ref{Name: of.Name, Generation: n, Blob: key, Digest: b.Manifest().Digest(), Kind: b.Kind()}
	if a.Newest == nil {
		a.Newest, a.Bundle = &ref, b
		return nil
	}
	was := a.Bundle
	switch r, err := CompareAuth(was.Auth(), b.Auth()); r {
	case RotationNone:
		return nil
	case RotationEarlier:
		a.Former = append(a.Former, AuthDigest(b.Auth()))
	case RotationLater:
		a.Former = append(a.Former, AuthDigest(was.Auth()))
		a.Newest, a.Bundle = &ref, b
	default:
		a.Former = append(a.Former, AuthDigest(b.Auth()))
		doubt("%v", err)
	}
	return nil
}

// RefreshUnanswered reports whether a refresh of the login b was begun of which the store has no
// answer, so that its refresh token may be used up. settled is as for [LookAhead].
func RefreshUnanswered(ctx context.Context, st *store.Store, name string, b *Bundle, settled time.Time) (bool, error) {
	spent := AuthDigest(b.Auth())
	begun, err := st.List(ctx, intentPrefix(name)+spent)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, fmt.Errorf("look for refreshes of seed %s: %w", name, err)
	}
	begun = slices.DeleteFunc(begun, func(i store.Info) bool { return known(i.ModTime, settled) })
	if len(begun) == 0 {
		return false, nil
	}
	found, err := generations(ctx, st, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	return !slices.ContainsFunc(found, func(i store.Info) bool {
		_, suffix, _ := strings.Cut(path.Base(i.Key), "-")
		return strings.HasPrefix(suffix, "r"+spent[:24])
	}), nil
}

// Answers reports whether ref is the stored answer to a refresh of b, as LoadRefreshed finds
// it.
func Answers(ref Ref, generation int64, b *Bundle) bool {
	own, err := refreshedRef(ref.Name, generation, AuthDigest(b.Auth()), nil)
	return err == nil && (ref.Blob == own.Blob || strings.HasPrefix(ref.Blob, own.Blob+besideMark))
}

// numberOf returns the generation in a blob's key, 0 if it has none.
func numberOf(key string) int64 {
	number, _, _ := strings.Cut(path.Base(key), "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Names returns the names of the seeds of which the store has a blob, sorted.
func Names(ctx context.Context, st *store.Store) ([]string, error) {
	found, err := st.List(ctx, "seeds/")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("list the seeds in the store: %w", err)
	}
	var names []string
	for _, i := range found {
		name, _, ok := strings.Cut(strings.TrimPrefix(i.Key, "seeds/"), "/")
		if ok && ValidName(name) == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
