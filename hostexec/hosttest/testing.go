package hosttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/realparts"
)

// StartSSHD is NewSSHD for a test. It closes the host when the test ends, and shows the log
// of sshd if the test failed. Tests that use it may run in parallel.
func StartSSHD(t testing.TB, opts Options) *SSHD {
	t.Helper()
	realparts.NotShort(t)
	s, err := NewSSHD(t.Context(), filepath.Join(folder(t), "sshd"), opts)
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

// folder returns a temporary folder. The folder is removed when the test ends. The removal
// tolerates that shells of a killed host may still create files in their home for a moment.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sshd-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := os.RemoveAll(dir)
		for range 100 {
			if err == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
			err = os.RemoveAll(dir)
		}
		t.Error(err)
	})
	return dir
}
