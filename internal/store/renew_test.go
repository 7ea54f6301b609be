package store

import (
	"errors"
	"slices"
	"testing"

	"filippo.io/age"
)

// A store takes another key while it is open: old blobs are read, new ones are for the new key.
// One that does not open the store is refused.
func TestAnOpenStoreTakesOtherKeys(t *testing.T) {
	url := "file://" + t.TempDir()
	old, fresh, stranger := identity(t), identity(t), identity(t)
	s := open(t, options(url, old))
	if err := s.Put(t.Context(), "old", []byte("old")); err != nil {
		t.Fatal(err)
	}
	to := func(ids ...*age.X25519Identity) (recipients []age.Recipient, identities []age.Identity) {
		for _, id := range ids {
			recipients, identities = append(recipients, id.Recipient()), append(identities, id)
		}
		return recipients, identities
	}
	recipients, identities := to(stranger)
	if err := s.Renew(t.Context(), recipients, identities); !errors.Is(err, ErrWrongKey) {
		t.Errorf("a stranger's key: %v", err)
	}
	if err := s.Renew(t.Context(), recipients, nil); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("no identity: %v", err)
	}
	if err := s.Renew(t.Context(), recipients, []age.Identity{old}); err == nil {
		t.Error("a recipient whose blobs this process cannot read was taken")
	}
	if got := s.Recipients(); !slices.Equal(got, []string{old.Recipient().String()}) {
		t.Errorf("after what was refused, recipients are %v", got)
	}

	recipients, identities = to(fresh, old)
	if err := s.Renew(t.Context(), recipients[:1], identities); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "new", []byte("new")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"old", "new"} {
		if got, err := s.Get(t.Context(), key); err != nil || string(got) != key {
			t.Errorf("%s is %q, %v", key, got, err)
		}
	}
	if got, err := open(t, options(url, old)).Get(t.Context(), "new"); !errors.Is(err, ErrWrongKey) {
		t.Errorf("the old key reads what is new: %q, %v", got, err)
	}
	if former := s.Former(); !slices.Equal(former, []string{old.Recipient().String()}) {
		t.Errorf("the former recipients are %v", former)
	}
	for _, key := range []string{OwnKey, "old"} {
		if did, err := s.Rekey(t.Context(), key); err != nil || did != Renewed {
			t.Errorf("rekey %s: %s, %v", key, did, err)
		}
	}
	// The old identity is taken away. It still decrypts here, until the store is closed.
	if err := s.Renew(t.Context(), recipients[:1], identities[:1]); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, options(url, fresh)).Get(t.Context(), "old"); err != nil || string(got) != "old" {
		t.Errorf("with the new key alone: %q, %v", got, err)
	}
}
