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

// OwnKey stands for the store's own key among the blobs that are rekeyed: with
// it content is named (see PutContent).
const OwnKey = metaKey

// Rekeyed says what became of a blob that was to be encrypted anew.
type Rekeyed string

const (
	Kept    Rekeyed = "kept"    // it was encrypted for exactly the store's recipients
	Renewed Rekeyed = "renewed" // it is now
	Gone    Rekeyed = "gone"    // it was deleted meanwhile, and stays so
)

// rekeyTries is how often a blob that others replace meanwhile is tried again.
const rekeyTries = 10

// Rekey encrypts a blob for the store's recipients where it is not so already.
// At every moment the key holds the old blob or the new one, whole; what others
// write or delete meanwhile wins. It is repeatable, and needs an identity that
// opens the blob (ErrWrongKey). On S3 the server must honour If-Match.
func (s *Store) Rekey(ctx context.Context, key string) (_ Rekeyed, err error) {
	defer wrap(&err, "encrypt "+clip(key)+" for the recipients")
	if key != OwnKey {
		if err := checkKey(key); err != nil {
			return "", err
		}
	}
	if len(s.identities) == 0 {
		return "", ErrNoIdentity
	}
	for range rekeyTries {
		done, err := s.rekey(ctx, key)
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

func (s *Store) rekey(ctx context.Context, key string) (Rekeyed, error) {
	r, was, err := s.place.readVersion(ctx, key)
	if err != nil {
		return "", s.surely(ctx, err)
	}
	// Open until the end: an inode that is held open is not given to another file.
	o := &opener{src: &source{r: r}}
	defer o.Close()
	if key == OwnKey {
		return s.rekeyOwn(ctx, o.src, was)
	}
	if err := o.open(key, s.identities); err != nil {
		return "", err
	}
	if s.isFor(o.readers) {
		return Kept, nil
	}
	p, err := s.place.replace(ctx, key, was)
	if err != nil {
		return "", err
	}
	if err := s.reseal(p, o); err != nil {
		p.abort()
		return "", err
	}
	return Renewed, p.commit()
}

// reseal encrypts what o holds, packed as it is, into w.
func (s *Store) reseal(w io.Writer, o *opener) error {
	a, err := age.Encrypt(w, s.recipients...)
	if err != nil {
		return fmt.Errorf("encrypt: %w", err)
	}
	b := o.beginning
	b.readers = s.readers
	if _, err := a.Write(b.bytes()); err != nil {
		return err
	}
	// A blob that is torn ends with an error, never early.
	if _, err := io.Copy(a, reading{o}); err != nil {
		return err
	}
	return a.Close()
}

// reading gives the errors of an object that is read their meaning, so that
// io.Copy's tell whether reading or writing failed.
type reading struct{ o *opener }

func (r reading) Read(p []byte) (int, error) {
	n, err := r.o.packed.Read(p)
	if err != nil && err != io.EOF {
		err = r.o.mean(err)
	}
	return n, err
}

func (s *Store) rekeyOwn(ctx context.Context, r io.Reader, was version) (Rekeyed, error) {
	m, err := readMeta(r)
	if err != nil {
		return "", err
	}
	if s.isForText(m.Readers) {
		return Kept, nil
	}
	key, err := m.openKey(s.identities)
	if err != nil {
		return "", err
	}
	data, err := m.seal(key, s.recipients)
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

// Current looks, and changes nothing: whether a blob is encrypted for exactly
// the store's recipients and can be opened by their identities alone.
// ErrNotFound where it was deleted meanwhile, ErrWrongKey where no identity at
// all opens it.
func (s *Store) Current(ctx context.Context, key string) (_ bool, err error) {
	defer wrap(&err, "look at the recipients of "+clip(key))
	if len(s.identities) == 0 {
		return false, ErrNoIdentity
	}
	current, err := s.current(ctx, key, s.own)
	if errors.Is(err, ErrWrongKey) {
		_, err = s.current(ctx, key, s.identities)
		return false, err
	}
	return current, err
}

func (s *Store) current(ctx context.Context, key string, identities []age.Identity) (bool, error) {
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
		return s.isForText(m.Readers), err
	}
	err = o.open(key, identities)
	return s.isFor(o.readers), err
}

// Recipients are those that every blob is encrypted for, as the config has them.
func (s *Store) Recipients() []string {
	var out []string
	for _, r := range s.recipients {
		out = append(out, fmt.Sprint(r))
	}
	return out
}

// Former are the recipients of those of our identities that nothing is
// encrypted for any more. Once every blob is Current they are not needed.
func (s *Store) Former() []string {
	var out []string
	for _, id := range s.identities {
		theirs, err := RecipientsOf([]age.Identity{id})
		if err == nil && !slices.Contains(s.Recipients(), fmt.Sprint(theirs[0])) {
			out = append(out, fmt.Sprint(theirs[0]))
		}
	}
	return out
}

// ownOf are the identities that belong to recipients.
func ownOf(identities []age.Identity, recipients []age.Recipient) (own []age.Identity) {
	for _, id := range identities {
		theirs, err := RecipientsOf([]age.Identity{id})
		if err != nil || slices.ContainsFunc(recipients, func(r age.Recipient) bool { return fmt.Sprint(r) == fmt.Sprint(theirs[0]) }) {
			own = append(own, id) // one that does not tell is tried
		}
	}
	return own
}

// readersOf marks a set of recipients: public keys, so that it tells nothing.
// It is zero for recipients that do not tell who they are.
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

func (s *Store) isFor(readers [8]byte) bool {
	return readers != [8]byte{} && bytes.Equal(readers[:], s.readers[:])
}

func (s *Store) isForText(readers string) bool {
	raw, err := hex.DecodeString(readers)
	return err == nil && len(raw) == len(s.readers) && s.isFor([8]byte(raw))
}
