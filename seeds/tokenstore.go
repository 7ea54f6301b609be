package seeds

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/store"
)

// What a refresh makes of a login has one place in the store, named by the
// login that was spent for it: whoever comes after a killed refresh finds it
// there, and no second one is made beside it.

// SaveRefreshed keeps what came of a login. The same bundle again is success.
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
	// Something else is there, or what is there cannot be read: beside it.
	var suffix [8]byte
	_, _ = rand.Read(suffix[:]) // never fails
	ref.Blob += besideMark + hex.EncodeToString(suffix[:])
	if err := st.Create(ctx, ref.Blob, b.Bytes()); err != nil {
		return Ref{}, fmt.Errorf("save seed %s: %w", name, err)
	}
	return ref, verify(ctx, st, ref)
}

// LoadRefreshed finds what came of a login, nil if nothing is there.
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

// besideMark begins what is put beside a blob that cannot be read.
const besideMark = "-beside-"

// besideTorn finds what SaveRefreshed has put beside a blob that cannot be read.
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

// An Intent says that a refresh token is about to be used. It is in the store
// before the request is made, so that whoever comes after a kill knows that the
// token may be spent.
type Intent struct{ key string }

// Intend writes the intent to use a login's refresh token. Unless a person said
// so, with a word that is new for each time, a login of which there is an intent
// already is not to be used: then there is no error and no intent.
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
	key := intentPrefix(name) + auth
	if word != "" {
		key += "-" + digest([]byte(word))[:16]
	}
	var mine [16]byte
	_, _ = rand.Read(mine[:]) // never fails
	word = hex.EncodeToString(mine[:])
	return intended(ctx, st, name, key, word, st.Create(ctx, key, []byte(word)))
}

// intended says whose intent is in the store after it was written, with what came
// of that. Whoever was told that it failed may have written it, and whoever finds
// one may have done so in a try before: what is there tells.
func intended(ctx context.Context, st *store.Store, name, key, mine string, err error) (*Intent, error) {
	if err == nil {
		return &Intent{key}, nil
	}
	held := context.WithoutCancel(ctx)
	there, seen := st.Get(held, key)
	switch ours := seen == nil && string(there) == mine; {
	case ours && ctx.Err() != nil:
		_ = st.Delete(held, key) // else it says of a token that was not used that it may be spent
	case ours:
		return &Intent{key}, nil
	case errors.Is(err, store.ErrExists) && !errors.Is(seen, store.ErrNotFound):
		return nil, nil // somebody else's, and one that cannot be read may be
	}
	// What else is there is not ours to delete.
	return nil, fmt.Errorf("write down that seed %s is to be refreshed: %w", name, err)
}

// Withdraw says that the token was not spent.
func (i *Intent) Withdraw(ctx context.Context, st *store.Store) error {
	if err := st.Delete(ctx, i.key); err != nil {
		return fmt.Errorf("write down that a seed was not refreshed: %w", err)
	}
	return nil
}

func intentPrefix(name string) string { return "refreshes/" + name + "/" }

// DeleteIntents forgets a seed's refreshes.
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
