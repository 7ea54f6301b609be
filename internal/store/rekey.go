package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
)

// OwnKey names the store's own key for Rekey and Current.
const OwnKey = metaKey

// Rekeyed is the result of Rekey.
type Rekeyed string

const (
	Kept    Rekeyed = "kept" // was already encrypted for exactly the store's recipients
	Renewed Rekeyed = "renewed"
	Gone    Rekeyed = "gone" // deleted meanwhile
)

const rekeyTries = 10

// Rekey encrypts a blob for the store's recipients, unless it is already. The key always
// holds the old blob or the new one, whole. A concurrent write or delete wins. Rekey can be
// repeated. It returns ErrWrongKey if no identity decrypts the blob. S3 servers must honour
// If-Match.
func (s *Store) Rekey(ctx context.Context, key string) (_ Rekeyed, err error) {
	defer wrap(&err, "encrypt "+clip(key)+" for the recipients")
	if key != OwnKey {
		if err := checkKey(key); err != nil {
			return "", err
		}
	}
	keys := s.keys()
	if len(keys.identities) == 0 {
		return "", ErrNoIdentity
	}
	for range rekeyTries {
		done, err := s.rekey(ctx, key, keys)
		switch {
		case errors.Is(err, errMoved):
			continue
		case errors.Is(err, ErrNotFound):
			return Gone, nil
		}
		return done, err
	}
	return "", fmt.Errorf("%w, %d times in a row (try again)", errMoved, rekeyTries)
}

func (s *Store) rekey(ctx context.Context, key string, keys *keyring) (Rekeyed, error) {
	r, was, err := s.place.readVersion(ctx, key)
	if err != nil {
		return "", s.surely(ctx, err)
	}
	// The old blob stays open, because the inode of an open file is not reused.
	o := &opener{src: &source{r: r}}
	defer o.Close()
	if key == OwnKey {
		return s.rekeyOwn(ctx, o.src, was, keys)
	}
	if err := o.open(key, keys.identities); err != nil {
		return "", err
	}
	if keys.isFor(o.readers) {
		return Kept, nil
	}
	p, err := s.place.replace(ctx, key, was)
	if err != nil {
		return "", err
	}
	if err := keys.reseal(p, o); err != nil {
		p.abort()
		return "", err
	}
	return Renewed, p.commit()
}

// reseal does not recompress.
func (k *keyring) reseal(w io.Writer, o *opener) error {
	a, err := age.Encrypt(w, k.recipients...)
	if err != nil {
		return fmt.Errorf("encrypt: %w", err)
	}
	b := o.beginning
	b.readers = k.readers
	if _, err := a.Write(b.bytes()); err != nil {
		return err
	}
	// A torn blob yields an error, never an early end.
	if _, err := io.Copy(a, reading{o}); err != nil {
		return err
	}
	return a.Close()
}

// reading marks read errors, which io.Copy mixes with write errors.
type reading struct{ o *opener }

func (r reading) Read(p []byte) (int, error) {
	n, err := r.o.packed.Read(p)
	if err != nil && err != io.EOF {
		err = r.o.mean(err)
	}
	return n, err
}

func (s *Store) rekeyOwn(ctx context.Context, r io.Reader, was version, keys *keyring) (Rekeyed, error) {
	m, err := readMeta(r)
	if err != nil {
		return "", err
	}
	if keys.isForText(m.Readers) {
		return Kept, nil
	}
	key, err := m.openKey(keys.identities)
	if err != nil {
		return "", err
	}
	data, err := m.seal(key, keys.recipients)
	if err != nil {
		return "", err
	}
	p, err := s.place.replace(ctx, metaKey, was)
	if err != nil {
		return "", err
	}
	if _, err := p.Write(data); err != nil {
		p.abort()
		return "", err
	}
	return Renewed, p.commit()
}

// Current reports whether a blob is encrypted for exactly the store's recipients and their
// identities alone decrypt it. It returns ErrNotFound for a deleted blob, ErrWrongKey if no
// identity decrypts it.
func (s *Store) Current(ctx context.Context, key string) (_ bool, err error) {
	defer wrap(&err, "look at the recipients of "+clip(key))
	keys := s.keys()
	if len(keys.identities) == 0 {
		return false, ErrNoIdentity
	}
	current, err := s.current(ctx, key, keys, keys.own)
	if errors.Is(err, ErrWrongKey) {
		_, err = s.current(ctx, key, keys, keys.identities)
		return false, err
	}
	return current, err
}

func (s *Store) current(ctx context.Context, key string, keys *keyring, identities []age.Identity) (bool, error) {
	r, err := s.place.read(ctx, key)
	if err != nil {
		return false, s.surely(ctx, err)
	}
	o := &opener{src: &source{r: r}}
	defer o.Close()
	if key == OwnKey {
		m, err := readMeta(o.src)
		if err != nil {
			return false, err
		}
		_, err = m.openKey(identities)
		return keys.isForText(m.Readers), err
	}
	err = o.open(key, identities)
	return keys.isFor(o.readers), err
}

// Recipients are those of every blob, as in the config.
func (s *Store) Recipients() []string {
	var out []string
	for _, r := range s.keys().recipients {
		out = append(out, fmt.Sprint(r))
	}
	return out
}

// Former are the recipients of our identities that are not the store's recipients. These
// identities are unneeded once every blob is Current.
func (s *Store) Former() []string {
	var out []string
	for _, id := range s.keys().identities {
		theirs, err := RecipientsOf([]age.Identity{id})
		if err == nil && !slices.Contains(s.Recipients(), fmt.Sprint(theirs[0])) {
			out = append(out, fmt.Sprint(theirs[0]))
		}
	}
	return out
}

func ownOf(identities []age.Identity, recipients []age.Recipient) (own []age.Identity) {
	for _, id := range identities {
		theirs, err := RecipientsOf([]age.Identity{id})
		if err != nil || slices.ContainsFunc(recipients, func(r age.Recipient) bool { return fmt.Sprint(r) == fmt.Sprint(theirs[0]) }) {
			own = append(own, id) // also if its recipient is unknown
		}
	}
	return own
}

// readersOf marks a set of recipients, by their public keys, so the mark reveals nothing.
// It is zero if one is unknown.
func readersOf(recipients []age.Recipient) (mark [8]byte) {
	var names []string
	for _, r := range recipients {
		named, ok := r.(fmt.Stringer)
		if !ok {
			return mark
		}
		names = append(names, named.String())
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(names), "\n")))
	copy(mark[:], sum[:])
	return mark
}

func (k *keyring) isFor(readers [8]byte) bool {
	return readers != [8]byte{} && bytes.Equal(readers[:], k.readers[:])
}

func (k *keyring) isForText(readers string) bool {
	raw, err := hex.DecodeString(readers)
	return err == nil && len(raw) == len(k.readers) && k.isFor([8]byte(raw))
}
