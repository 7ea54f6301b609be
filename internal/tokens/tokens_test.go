package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/store"
)

func openStore(t *testing.T) *store.Store {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{URL: "file://" + filepath.Join(t.TempDir(), "store"),
		Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// A clock is one that a test sets.
type clock struct {
	sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.Lock()
	defer c.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.Lock()
	defer c.Unlock()
	c.at = c.at.Add(d)
}

func bookOf(t *testing.T, blobs Blobs, c *clock) *Book {
	t.Helper()
	b := Open(blobs, slog.New(slog.DiscardHandler))
	b.now = c.now
	if err := b.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func ci(name string) access.Token {
	return access.Token{Name: name, Owner: "ann", Key: "SHA256:abc", Roles: []access.Role{access.Operator}, ExpiresAt: noon.Add(DefaultLifetime)}
}

func TestASecretHas256BitsAndAChecksumThatScannersRecognise(t *testing.T) {
	form := regexp.MustCompile(`^fl_[0-9A-Za-z]{49}$`)
	seen := map[string]bool{}
	for range 200 {
		s := NewSecret()
		if !form.MatchString(s) || Check(s) != nil || seen[s] {
			t.Fatalf("%q: %v", s, Check(s))
		}
		seen[s] = true
		for _, i := range []int{3, 20, 45, 51} {
			other := []byte(s)
			if other[i]++; !form.Match(other) {
				other[i] = '0' + (s[i]+1)%10
			}
			if string(other) != s && Check(string(other)) == nil {
				t.Errorf("%s with another character at %d counts", s, i)
			}
		}
	}
	for _, s := range []string{"", "fl_", "fl_abc", strings.Repeat("a", 52), NewSecret() + "0"} {
		if err := Check(s); err == nil || s != "" && s != "fl_" && strings.Contains(err.Error(), s) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestATokenIsShownOnceAndKeptHashed(t *testing.T) {
	st, c := openStore(t), &clock{at: noon}
	b := bookOf(t, st, c)
	secret, made, err := b.Create(t.Context(), ci("ci"))
	if err != nil || made.Owner != "ann" || !made.CreatedAt.Equal(noon) {
		t.Fatalf("%+v, %v", made, err)
	}
	got, err := b.Shown(secret)
	if err != nil || got.Name != "ci" || got.Principal() != "token:ci" {
		t.Errorf("%+v, %v", got, err)
	}
	data, err := st.Get(t.Context(), "api-tokens/ci/token")
	if err != nil || strings.Contains(string(data), secret[3:]) || !strings.Contains(string(data), Digest(secret)) {
		t.Errorf("the store has %s, %v", data, err)
	}
	all, err := b.List(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if shown, err := json.Marshal(all); err != nil || strings.Contains(string(shown), Digest(secret)) {
		t.Errorf("the list has the digest: %s, %v", shown, err)
	}
	if _, err := b.Shown(NewSecret()); !errors.Is(err, ErrNone) {
		t.Errorf("a secret of no token: %v", err)
	}
}

func TestANameStandsForOneTokenForEver(t *testing.T) {
	st, c := openStore(t), &clock{at: noon}
	b := bookOf(t, st, c)
	if _, _, err := b.Create(t.Context(), ci("ci")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Revoke(t.Context(), "ci", "ann"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := bookOf(t, st, c).Create(t.Context(), ci("ci")); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
}

func TestARevocationCountsOnEveryWorkerWithinAMinute(t *testing.T) {
	st, c := openStore(t), &clock{at: noon}
	here, there := bookOf(t, st, c), bookOf(t, st, c)
	secret, _, err := here.Create(t.Context(), ci("ci"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := there.Shown(secret); err != nil || !got.RevokedAt.IsZero() {
		t.Fatalf("a new token at another worker: %+v, %v", got, err)
	}
	revoked, err := here.Revoke(t.Context(), "ci", "bob")
	if err != nil || revoked.RevokedBy != "bob" || !revoked.RevokedAt.Equal(noon) {
		t.Fatalf("%+v, %v", revoked, err)
	}
	again, err := here.Revoke(t.Context(), "ci", "carol")
	if err != nil || again.RevokedBy != "bob" {
		t.Errorf("revoked again: %+v, %v", again, err)
	}
	if reread > stale/2 {
		t.Errorf("the records are read every %s, and count for %s", reread, stale)
	}
	if err := there.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := there.Shown(secret); err != nil || got.RevokedBy != "bob" {
		t.Errorf("at another worker: %+v, %v", got, err)
	}
	if _, err := here.Revoke(t.Context(), "none", "ann"); !errors.Is(err, ErrNone) {
		t.Errorf("a token that does not exist: %v", err)
	}
}

// broken is a store that can be made to fail.
type broken struct {
	Blobs
	sync.Mutex
	err   error
	lists int
}

func (b *broken) List(ctx context.Context, prefix string) ([]store.Info, error) {
	b.Lock()
	defer b.Unlock()
	b.lists++
	if b.err != nil {
		return nil, b.err
	}
	return b.Blobs.List(ctx, prefix)
}

func TestNoTokenCountsWhenTheRecordsCouldNotBeReadForAMinute(t *testing.T) {
	st, c := &broken{Blobs: openStore(t)}, &clock{at: noon}
	b := bookOf(t, st, c)
	secret, _, err := b.Create(t.Context(), ci("ci"))
	if err != nil {
		t.Fatal(err)
	}
	st.err = errors.New("the disk is gone")
	c.pass(stale - time.Second)
	if _, err := b.Shown(secret); err != nil {
		t.Errorf("within a minute: %v", err)
	}
	c.pass(2 * time.Second)
	if _, err := b.Shown(secret); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("after a minute: %v", err)
	}
	st.err = nil
	c.pass(2 * time.Second)
	if _, err := b.Shown(secret); err != nil {
		t.Errorf("when the store is back: %v", err)
	}
}

func TestManyWrongTokensMakeFewReadsOfTheStore(t *testing.T) {
	st, c := &broken{Blobs: openStore(t)}, &clock{at: noon}
	b := bookOf(t, st, c)
	before := st.lists
	for range 100 {
		if _, err := b.Shown(NewSecret()); !errors.Is(err, ErrNone) {
			t.Fatal(err)
		}
	}
	if n := st.lists - before; n != 1 {
		t.Errorf("%d reads", n)
	}
}

func TestTokensBeyondTheBoundsAreRefused(t *testing.T) {
	b := bookOf(t, openStore(t), &clock{at: noon})
	for what, change := range map[string]func(*access.Token){
		"a bad name":        func(t *access.Token) { t.Name = "../x" },
		"no role":           func(t *access.Token) { t.Roles = nil },
		"an unknown role":   func(t *access.Token) { t.Roles = []access.Role{"king"} },
		"an unknown verb":   func(t *access.Token) { t.Scope = []access.Verb{"all"} },
		"more than a year":  func(t *access.Token) { t.ExpiresAt = noon.Add(MaxLifetime + time.Hour) },
		"an end before now": func(t *access.Token) { t.ExpiresAt = noon },
		"no owner":          func(t *access.Token) { t.Owner = "" },
		"a verb of no role": func(t *access.Token) { t.Scope = []access.Verb{access.SeedExport} },
	} {
		token := ci("ci")
		change(&token)
		if secret, _, err := b.Create(t.Context(), token); !errors.Is(err, ErrBad) || secret != "" {
			t.Errorf("%s: %q, %v", what, secret, err)
		}
	}
}

func TestARevokedTokenNeverCountsOnAWorkerThatHasJustBegun(t *testing.T) {
	st, c := openStore(t), &clock{at: noon}
	here := bookOf(t, st, c)
	secret, _, err := here.Create(t.Context(), ci("ci"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := here.Revoke(t.Context(), "ci", "bob"); err != nil {
		t.Fatal(err)
	}
	if got, err := bookOf(t, st, c).Shown(secret); err != nil || got.RevokedBy != "bob" || !got.RevokedAt.Equal(noon) {
		t.Errorf("%+v, %v", got, err)
	}
}
