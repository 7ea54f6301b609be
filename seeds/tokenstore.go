package seeds

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/store"
)

// The result of a refresh has a fixed key in the store, which depends on the login
// whose token was used. So the next attempt after a killed refresh finds the result
// there, and does not refresh a second time.

// SaveRefreshed saves the result of a refresh. Saving the same bundle again
// succeeds.
func SaveRefreshed(ctx context.Context, st *store.Store, name string, generation int64, spent string, b *Bundle) (Ref, error) {
	ref, err := refreshedRef(name, generation, spent, b)
	if err != nil {
		return Ref{}, err
	}
	if err := st.Create(ctx, ref.Blob, b.Bytes()); err != nil && !errors.Is(err, store.ErrExists) {
		return Ref{}, fmt.Errorf("save seed %s: %w", name, err)
	}
	if err := verify(ctx, st, ref); err == nil || !errors.Is(err, store.ErrTorn) && !errors.Is(err, store.ErrWrongKey) {
		return ref, err
	}
	// There is another bundle under the key, or the blob is unreadable, so the bundle
	// is saved beside it.
	var suffix [8]byte
	_, _ = rand.Read(suffix[:]) // never fails
	ref.Blob += besideMark + hex.EncodeToString(suffix[:])
	if err := st.Create(ctx, ref.Blob, b.Bytes()); err != nil {
		return Ref{}, fmt.Errorf("save seed %s: %w", name, err)
	}
	return ref, verify(ctx, st, ref)
}

// LoadRefreshed returns the result of refreshing a login; nil if there is none.
func LoadRefreshed(ctx context.Context, st *store.Store, name string, generation int64, spent string) (Ref, *Bundle, error) {
	ref, err := refreshedRef(name, generation, spent, nil)
	if err != nil {
		return Ref{}, nil, err
	}
	b, err := Load(ctx, st, ref.Blob)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Ref{}, nil, nil
	case errors.Is(err, store.ErrTorn):
		return besideTorn(ctx, st, ref, err)
	case err != nil:
		return Ref{}, nil, err
	}
	ref.Digest, ref.Kind = b.Manifest().Digest(), b.Kind()
	return ref, b, nil
}

// besideMark is the beginning of the suffix of a blob that is saved beside another one.
const besideMark = "-beside-"

// besideTorn returns the bundle that SaveRefreshed saved beside an unreadable blob.
func besideTorn(ctx context.Context, st *store.Store, torn Ref, cause error) (Ref, *Bundle, error) {
	all, err := st.List(ctx, torn.Blob+besideMark)
	if err != nil {
		return Ref{}, nil, fmt.Errorf("look for seed %s beside what is torn: %w", torn.Name, err)
	}
	for _, info := range all {
		if b, err := Load(ctx, st, info.Key); err == nil {
			torn.Blob, torn.Digest, torn.Kind = info.Key, b.Manifest().Digest(), b.Kind()
			return torn, b, nil
		}
	}
	return Ref{}, nil, cause
}

func refreshedRef(name string, generation int64, spent string, b *Bundle) (Ref, error) {
	if err := ValidName(name); err != nil {
		return Ref{}, err
	}
	if len(spent) != 64 {
		return Ref{}, fmt.Errorf("save seed %s: %q is not the digest of an auth.json", name, spent)
	}
	ref := Ref{Name: name, Generation: generation, Blob: blobPrefix(name) + fmt.Sprintf("%010d-r%s", generation, spent[:24])}
	if b != nil {
		ref.Digest, ref.Kind = b.Manifest().Digest(), b.Kind()
	}
	return ref, nil
}

// An Intent says that a refresh token is about to be used. It is in the store before
// the request is made, so that after a kill the next attempt knows that the token may
// be used up.
type Intent struct{ keys []string }

// Intend writes the intent to use a login's refresh token. If there is already an
// intent for that login, Intend returns no intent and no error, and the token must not
// be used. A person can override this with word, which must be new each time. If the
// store cannot guarantee that only one of two intents is written, the error is
// store.ErrNotExclusive, and the token must not be used at all.
func Intend(ctx context.Context, st *store.Store, name, auth, word string) (*Intent, error) {
	if err := ValidName(name); err != nil {
		return nil, err
	}
	if word == "" {
		there, err := st.List(ctx, intentPrefix(name)+auth)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("look for refreshes of seed %s: %w", name, err)
		}
		if len(there) > 0 {
			return nil, nil
		}
	}
	var mine [16]byte
	_, _ = rand.Read(mine[:]) // never fails
	text := hex.EncodeToString(mine[:])
	key := intentPrefix(name) + auth
	intent, err := intended(ctx, st, name, key, text, st.CreateOnce(ctx, key, []byte(text)))
	if word == "" || err != nil {
		return intent, err
	}
	// Callers without a word find the first key even if the store's listing is behind;
	// the second key is only for this word.
	key += "-" + digest([]byte(word))[:16]
	forced, err := intended(ctx, st, name, key, text, st.CreateOnce(ctx, key, []byte(text)))
	if forced == nil {
		if intent != nil {
			err = errors.Join(err, intent.Withdraw(context.WithoutCancel(ctx), st))
		}
		return nil, err
	}
	if intent != nil {
		forced.keys = append(forced.keys, intent.keys...)
	}
	return forced, nil
}

// intended returns the intent after a write with result err, if the intent in the store
// is that of this call. A write that reported an error may still have succeeded, and an
// existing intent may come from an earlier try of this call, so the content decides.
func intended(ctx context.Context, st *store.Store, name, key, mine string, err error) (*Intent, error) {
	if err == nil {
		return &Intent{[]string{key}}, nil
	}
	held := context.WithoutCancel(ctx)
	there, seen := st.Get(held, key)
	switch ours := seen == nil && string(there) == mine; {
	case ours && ctx.Err() != nil:
		_ = st.Delete(held, key) // otherwise it would mark an unused token as possibly used up
	case ours:
		return &Intent{[]string{key}}, nil
	case errors.Is(err, store.ErrExists) && !errors.Is(seen, store.ErrNotFound):
		return nil, nil // the intent is another call's; one that cannot be read may be, too
	}
	// Any other blob under the key is not ours, so it is not deleted.
	return nil, fmt.Errorf("write down that seed %s is to be refreshed: %w", name, err)
}

// Withdraw deletes the intent, because the token was not used up.
func (i *Intent) Withdraw(ctx context.Context, st *store.Store) error {
	for _, key := range i.keys {
		if err := st.Delete(ctx, key); err != nil {
			return fmt.Errorf("write down that a seed was not refreshed: %w", err)
		}
	}
	return nil
}

func intentPrefix(name string) string { return "refreshes/" + name + "/" }

// DeleteIntents deletes all intents of a seed.
func DeleteIntents(ctx context.Context, st *store.Store, name string) error {
	there, err := st.List(ctx, intentPrefix(name))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	var keys []string
	for _, info := range there {
		keys = append(keys, info.Key)
	}
	return Delete(ctx, st, keys...)
}
