package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Whoever watches a store learns how each request to it ended, and that its place is gone.
func TestRequestsAreCountedByHowTheyEnded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	got := map[string]int{}
	opts := options("file://"+dir, identity(t))
	opts.Asked = func(outcome string) { got[outcome]++ }
	s := open(t, opts)
	clear(got) // of the opening
	if err := s.Create(t.Context(), "a/b", []byte("text")); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), "a/b", []byte("text")); !errors.Is(err, ErrExists) {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "a/c"); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	// A Create looks first whether the blob is there.
	if got[AskedOK] < 2 || got[AskedMissing] != 2 || got[AskedUnreachable]+got[AskedFailed]+got[AskedTaken] != 0 {
		t.Errorf("the requests ended as %v", got)
	}
	if err := os.Rename(dir, dir+" away"); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "a/b", []byte("text")); !errors.Is(err, ErrUnreachable) {
		t.Fatalf("without its folder: %v", err)
	}
	if _, err := s.Get(t.Context(), "a/b"); !errors.Is(err, ErrUnreachable) {
		t.Fatalf("without its folder: %v", err)
	}
	if got[AskedUnreachable] != 2 {
		t.Errorf("without its folder, the requests ended as %v", got)
	}
	if err := os.Rename(dir+" away", dir); err != nil {
		t.Fatal(err)
	}
	before := got[AskedOK]
	if err := s.Put(t.Context(), "a/b", []byte("text")); err != nil || got[AskedOK] != before+1 || got[AskedUnreachable] != 2 {
		t.Errorf("with its folder: %v, %v", err, got)
	}
}
