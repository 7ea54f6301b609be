package activities

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// A vault is a store, opened with some identities for some recipients.
type vault struct {
	t   *testing.T
	dir string
}

func (v vault) open(to *age.X25519Identity, ids ...age.Identity) *store.Store {
	v.t.Helper()
	s, err := store.Open(v.t.Context(), store.Options{URL: "file://" + v.dir, Recipients: []age.Recipient{to.Recipient()}, Identities: ids})
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { s.Close() })
	return s
}

func rotate(t *testing.T, s *store.Store, check bool) (protocol.RotateKeysResult, error) {
	t.Helper()
	return New(site.Deps{Store: s}).Login.RotateKeys(t.Context(), protocol.RotateKeysInput{Check: check})
}

func newIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestKeysAreRotatedWhileOthersWriteAndDelete(t *testing.T) {
	if testing.Short() {
		t.Skip("encrypts a whole store again and again: slow with the race detector")
	}
	v := vault{t, filepath.Join(t.TempDir(), "store")}
	old, fresh := newIdentity(t), newIdentity(t)
	before := v.open(old, old)
	for i := range 60 {
		for _, prefix := range []string{"seeds/team", "transcripts/s1"} {
			if err := before.Put(t.Context(), fmt.Sprintf("%s/%04d", prefix, i), []byte("content")); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := v.open(fresh, old, fresh)
	if out, err := rotate(t, now, true); err != nil || out.Left != 121 || out.Renewed != 0 || out.Unneeded || len(out.LeftKeys) != logins.RotateNames {
		t.Errorf("looked: %+v, %v", out, err)
	}
	if _, err := before.Get(t.Context(), "seeds/team/0000"); err != nil {
		t.Errorf("looking changed something: %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // meanwhile sessions go on, on a worker that was restarted with the new config
		for i := range 60 {
			if err := now.Put(t.Context(), fmt.Sprintf("transcripts/s2/%04d", i), []byte("content")); err != nil {
				t.Error(err)
			}
			if err := now.Delete(t.Context(), fmt.Sprintf("seeds/team/%04d", i)); err != nil {
				t.Error(err)
			}
		}
	})
	out, err := rotate(t, now, false)
	wg.Wait()
	if err != nil || out.Left != 0 || out.Failed != 0 || !out.Unneeded || !slices.Equal(out.Former, []string{old.Recipient().String()}) {
		t.Errorf("rotated: %+v, %v", out, err)
	}
	if left, err := now.List(t.Context(), "seeds/"); err != nil || len(left) != 0 {
		t.Errorf("%d purged seeds are there again, %v", len(left), err)
	}
	alone := v.open(fresh, fresh)
	all, err := alone.List(t.Context(), "")
	if err != nil || len(all) != 120 {
		t.Errorf("%d blobs, %v; want 120", len(all), err)
	}
	for _, info := range all {
		if got, err := alone.Get(t.Context(), info.Key); err != nil || string(got) != "content" {
			t.Errorf("%s: %q, %v", info.Key, got, err)
		}
	}
	if out, err := rotate(t, now, false); err != nil || out.Renewed != 0 || out.Kept != 121 {
		t.Errorf("again: %+v, %v", out, err)
	}
}

func TestAMissingOldIdentityRefusesTheRotationAndChangesNothing(t *testing.T) {
	v := vault{t, filepath.Join(t.TempDir(), "store")}
	lost, old, fresh := newIdentity(t), newIdentity(t), newIdentity(t)
	before := v.open(old, old)
	if err := before.Put(t.Context(), "a", []byte("content")); err != nil {
		t.Fatal(err)
	}
	// This seed is encrypted for a recipient whose identity the worker does not have.
	s, err := store.Open(t.Context(), store.Options{URL: "file://" + v.dir, Recipients: []age.Recipient{lost.Recipient()}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Put(t.Context(), "seeds/team/1", []byte("content")); err != nil {
		t.Fatal(err)
	}
	now := v.open(fresh, old, fresh)
	_, err = rotate(t, now, false)
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != protocol.ErrTypeOldIdentity || !app.NonRetryable() || !strings.Contains(err.Error(), "seeds/team/1") {
		t.Errorf("rotated: %v", err)
	}
	if _, err := before.Get(t.Context(), "a"); err != nil {
		t.Errorf("something was changed: %v", err)
	}
	out, err := rotate(t, now, true)
	if err != nil || out.Left != 3 || out.Failed != 1 || out.Unneeded || out.Failures[0].Key != "seeds/team/1" {
		t.Errorf("looked: %+v, %v", out, err)
	}
	// With the identity back, the rotation goes on.
	out, err = rotate(t, v.open(fresh, old, fresh, lost), false)
	if err != nil || out.Renewed != 3 || !out.Unneeded || len(out.Former) != 2 {
		t.Errorf("with it: %+v, %v", out, err)
	}
}

// Seeds in an S3 bucket are stored, rotated and purged as in a folder.
func TestSeedsInABucketAreRotated(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	backend := s3mem.New()
	if err := backend.CreateBucket("ours"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	old, fresh := newIdentity(t), newIdentity(t)
	open := func(to *age.X25519Identity, ids ...age.Identity) *store.Store {
		t.Helper()
		s, err := store.Open(t.Context(), store.Options{
			URL:        "s3://ours?region=us-east-1&use_path_style=true&disable_https=true&prefix=team-a/&endpoint=" + server.URL,
			Recipients: []age.Recipient{to.Recipient()}, Identities: ids,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "auth.json"), []byte(`{"OPENAI_API_KEY":"sk-test-0123456789"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	bundle, err := seeds.Pack(dir)
	if err != nil {
		t.Fatal(err)
	}
	before := open(old, old)
	var refs []seeds.Ref
	for i := range 3 {
		ref, err := seeds.SaveAgain(t.Context(), before, "team", int64(i+1), bundle)
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	if err := seeds.Delete(t.Context(), before, refs[0].Blob); err != nil {
		t.Fatal(err)
	}
	now := open(fresh, old, fresh)
	out, err := rotate(t, now, false)
	if err != nil || out.Renewed != 3 || out.Seeds != 2 || !out.Unneeded {
		t.Fatalf("rotated: %+v, %v", out, err)
	}
	alone := open(fresh, fresh)
	for i, ref := range refs {
		got, err := seeds.Load(t.Context(), alone, ref.Blob)
		if i == 0 {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the purged generation: %v", err)
			}
		} else if err != nil || got.Manifest().Digest() != bundle.Manifest().Digest() {
			t.Errorf("generation %d: %v, %v", ref.Generation, got, err)
		}
	}
	if _, err := seeds.Load(t.Context(), before, refs[1].Blob); !errors.Is(err, store.ErrWrongKey) {
		t.Errorf("the old identity reads it: %v", err)
	}
}

func TestATornBlobIsNamedAndTheOthersAreRotated(t *testing.T) {
	v := vault{t, filepath.Join(t.TempDir(), "store")}
	old, fresh := newIdentity(t), newIdentity(t)
	before := v.open(old, old)
	for _, key := range []string{"a/1", "a/2", "a/3"} {
		if err := before.Put(t.Context(), key, []byte("content")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(v.dir, "a", "2"), 40); err != nil {
		t.Fatal(err)
	}
	out, err := rotate(t, v.open(fresh, old, fresh), false)
	if err != nil || out.Renewed != 3 || out.Failed != 1 || out.Failures[0].Key != "a/2" || out.Left != 1 || out.Unneeded {
		t.Errorf("rotated: %+v, %v", out, err)
	}
}
