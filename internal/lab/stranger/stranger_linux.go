package stranger

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// UID is the other user: nobody.
const UID = 65534

// Do calls f on a thread of UID.
func Do(t testing.TB, f func()) { t.Helper(); As(t, UID, f) }

// As calls f on a thread of a user. It fails the test if that is not possible.
func As(t testing.TB, uid uintptr, f func()) {
	t.Helper()
	root(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked, so the thread ends with the goroutine
		for _, call := range []uintptr{syscall.SYS_SETRESGID, syscall.SYS_SETRESUID} {
			// Raw calls change this thread alone.
			if _, _, err := syscall.RawSyscall(call, uid, uid, uid); err != 0 {
				done <- err
				return
			}
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatalf("become user %d: %v", uid, err)
	}
}

func root(t testing.TB) {
	t.Helper()
	if os.Getuid() == 0 {
		return
	}
	if testing.Short() {
		t.Skip("-short as a user other than root")
	}
	t.Fatal("this test acts as another user and must be run as root")
}

// Folder makes a folder that every user may enter, below the temporary folder, and removes it
// with the test.
func Folder(t testing.TB) string {
	t.Helper()
	root(t)
	dir, err := os.MkdirTemp("", "fl-stranger-") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Listen has the other user listen on a socket that anybody may connect to. The socket's
// folder is ours again afterwards.
func Listen(t testing.TB, path string) net.Listener {
	t.Helper()
	dir := filepath.Dir(path)
	if err := os.Chown(dir, UID, UID); err != nil {
		t.Fatal(err)
	}
	var ln net.Listener
	var err error
	Do(t, func() { ln, err = net.Listen("unix", path) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	for _, err := range []error{os.Chown(dir, 0, 0), os.Chmod(path, 0o777)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return ln
}
