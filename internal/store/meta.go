package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// meta is the plain JSON object that makes a place a store. The key is for the names of
// PutContent.
type meta struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	Key    string `json:"key"` // age, armored
	// Readers is readersOf the key's recipients.
	Readers string `json:"readers,omitempty"`
}

const metaFormat = 1

// loadMeta returns ErrNotFound without a store.
func loadMeta(ctx context.Context, p place) (meta, error) {
	r, err := p.read(ctx, metaKey)
	if err != nil {
		return meta{}, err
	}
	defer r.Close()
	return readMeta(r)
}

func readMeta(r io.Reader) (meta, error) {
	data, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err != nil {
		return meta{}, unreachable(err)
	}
	var m meta
	if err := json.Unmarshal(data, &m); err != nil {
		return meta{}, fmt.Errorf("%s: %w: %w", metaKey, ErrTorn, err)
	}
	if m.Format > metaFormat {
		return meta{}, fmt.Errorf("%s: format %d is newer than this program knows (upgrade it)", metaKey, m.Format)
	}
	if m.Format < 1 || len(m.ID) != 32 || m.Key == "" {
		return meta{}, fmt.Errorf("%s: %w", metaKey, ErrTorn)
	}
	return m, nil
}

// createMeta makes a store, or returns the meta of a process that was first.
func createMeta(ctx context.Context, p place, recipients []age.Recipient) (meta, error) {
	var id [16]byte
	var key [32]byte
	_, _ = rand.Read(id[:]) // never fails
	_, _ = rand.Read(key[:])
	m := meta{Format: metaFormat, ID: hex.EncodeToString(id[:])}
	data, err := m.seal(key[:], recipients)
	if err != nil {
		return meta{}, err
	}
	if err := p.make(ctx); err != nil {
		return meta{}, err
	}
	o, err := p.write(ctx, metaKey, true)
	if err != nil {
		return meta{}, err
	}
	if _, err := o.Write(data); err != nil {
		o.abort()
		return meta{}, err
	}
	switch err := o.commit(); {
	case err == nil:
		return m, nil
	case errors.Is(err, ErrExists):
		return loadMeta(ctx, p)
	default:
		return meta{}, err
	}
}

// seal encrypts key into m, and returns m as JSON.
func (m *meta) seal(key []byte, recipients []age.Recipient) ([]byte, error) {
	var sealed bytes.Buffer
	a := armor.NewWriter(&sealed)
	w, err := age.Encrypt(a, recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if _, err := w.Write(key); err != nil {
		return nil, err
	}
	if err := errors.Join(w.Close(), a.Close()); err != nil {
		return nil, err
	}
	readers := readersOf(recipients)
	m.Key, m.Readers = sealed.String(), hex.EncodeToString(readers[:])
	data, err := json.MarshalIndent(m, "", "  ")
	return append(data, '\n'), err
}

func (m meta) openKey(identities []age.Identity) ([]byte, error) {
	r, err := age.Decrypt(armor.NewReader(bytes.NewReader([]byte(m.Key))), identities...)
	if err != nil {
		if noMatch := (*age.NoIdentityMatchError)(nil); errors.As(err, &noMatch) {
			return nil, ErrWrongKey
		}
		return nil, fmt.Errorf("%s: %w: %w", metaKey, ErrTorn, err)
	}
	key, err := io.ReadAll(io.LimitReader(r, 64))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("%s: %w", metaKey, ErrTorn)
	}
	return key, nil
}
