package hosttest

import (
	"path/filepath"
	"strings"
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
			lines := strings.Split(s.Log(), "\n")
			t.Logf("end of the log of sshd at %s:\n%s", s.Address(), strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
