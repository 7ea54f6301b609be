package hosttest

import (
	"path/filepath"
	"testing"
)

// StartSSHD is NewSSHD for a test: it ends with the test, and its log is shown
// if the test failed. Tests that use it may run in parallel.
func StartSSHD(t testing.TB, opts Options) *SSHD {
	t.Helper()
	s, err := NewSSHD(t.Context(), filepath.Join(t.TempDir(), "sshd"), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of sshd at %s:\n%s", s.Address(), s.Log())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
