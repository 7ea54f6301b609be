package seeds

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/store"
)

// The result of a refresh has a key that depends on the login whose token was used. The
// attempt after a killed refresh finds it, and does not refresh again.

// SaveRefreshed saves the result of refreshing the login with digest spent. It may be
// repeated.
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
	// The key has another bundle or an unreadable blob: save beside it.
	var suffix [8]byte
	_, _ = rand.Read(suffix[:]) // never fails
	ref.Blob += besideMark + hex.EncodeToString(suffix[:])
	if err := st.Create(ctx, ref.Blob, b.Bytes()); err != nil {
		return Ref{}, fmt.Errorf("save seed %s: %w", name, err)
	}
	return ref, verify(ctx, st, ref)
}

// LoadRefreshed returns what SaveRefreshed saved; nil if nothing.
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

const besideMark = "-beside-"

func besideTorn(ctx context.Context, st *store.Store, torn Ref, cause error) (Ref, *Bundle, error) {
	all, err := st.List(ctx, torn.Blob+besideMark)
	if err != nil {
		return Ref{}, nil, fmt.Errorf("look for another copy of seed %s, whose blob is damaged: %w", torn.Name, err)
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

// An Intent says that a refresh token is about to be used. It is stored before the request,
// so that after a kill the next attempt knows that the token may be used up.
type Intent struct{ keys []string }

// Intend writes the intent to use the refresh token of the login with digest auth. It
// returns nil and no error if that login has an intent: then the token must not be used. A
// person can override this with word, new each time. With store.ErrNotExclusive the store
// cannot exclude a second intent, and the token must not be used at all.
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
	// Callers without a word find the first key even if the store's listing is behind.
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

// intended returns the intent after a write with result err, nil if the intent is another
// call's. A write that failed may have succeeded after all, so the content decides.
func intended(ctx context.Context, st *store.Store, name, key, mine string, err error) (*Intent, error) {
	if err == nil {
		return &Intent{[]string{key}}, nil
	}
	held := context.WithoutCancel(ctx)
	there, seen := st.Get(held, key)
	switch ours := seen == nil && string(there) == mine; {
	case ours && ctx.Err() != nil:
		_ = st.Delete(held, key) // it would mark an unused token as possibly used up
	case ours:
		return &Intent{[]string{key}}, nil
	case errors.Is(err, store.ErrExists) && !errors.Is(seen, store.ErrNotFound):
		return nil, nil // another call's intent, or one that cannot be read and may be
	}
	// Another blob is not ours, and stays.
	return nil, fmt.Errorf("record in the store that seed %s is about to be refreshed: %w", name, err)
}

// Withdraw deletes the intent of a token that was not used up.
func (i *Intent) Withdraw(ctx context.Context, st *store.Store) error {
	for _, key := range i.keys {
		if err := st.Delete(ctx, key); err != nil {
			return fmt.Errorf("delete the record that a refresh was about to begin: %w", err)
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
