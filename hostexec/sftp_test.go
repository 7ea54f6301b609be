package hostexec_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
)

// bigFile returns content of size bytes and its sum. The content is large enough to be sent
// by SFTP.
func bigFile(size int) ([]byte, string) {
	b := make([]byte, size)
	rand.Read(b)
	sum := sha256.Sum256(b)
	return b, hex.EncodeToString(sum[:])
}

// onlyReader hides that a reader can seek.
type onlyReader struct{ io.Reader }

// loggedSFTP returns an sshd_config line for an SFTP server, and a function that returns
// the server's log. The log shows the files that the server opened and the number of bytes
// that it wrote.
func loggedSFTP(t *testing.T, options string) (config string, log func() string) {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec /usr/lib/openssh/sftp-server -e -l INFO %s 2>>'%s/log'\n", options, dir)
	if err := os.WriteFile(dir+"/server", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return "Subsystem sftp " + dir + "/server", func() string {
		b, err := os.ReadFile(dir + "/log")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(b)
	}
}

func mustHoldJust(t *testing.T, dir, name string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(dir + "/" + name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes that differ from the %d expected, %v", name, len(got), len(want), err)
	}
	mustHoldNothingBut(t, dir, name)
}

func mustHoldNothingBut(t *testing.T, dir string, names ...string) {
	t.Helper()
	var got []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if err != nil || strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("%s holds %q, not %q; %v", dir, got, names, err)
	}
}

func TestBigFilesGoBySFTPAndSmallOnesDoNot(t *testing.T) {
	t.Parallel()
	config, log := loggedSFTP(t, "")
	s := hosttest.StartSSHD(t, hosttest.Options{Config: []string{config}})
	h := newHost(t, s.Spec())
	dir := t.TempDir() + "/new"
	small, sum := bigFile(100_000)
	if err := hostexec.Upload(t.Context(), h, dir+"/file", bytes.NewReader(small), int64(len(small)), sum, 0o600, nil); err != nil {
		t.Fatal(err)
	}
	if log() != "" {
		t.Errorf("a small file went by SFTP: %s", log())
	}
	big, sum := bigFile(9<<20 + 5)
	for _, r := range []io.Reader{bytes.NewReader(big), onlyReader{bytes.NewReader(big)}} {
		if err := hostexec.Upload(t.Context(), h, dir+"/file", r, int64(len(big)), sum, 0o640, nil); err != nil {
			t.Fatal(err)
		}
		mustHoldJust(t, dir, "file", big)
	}
	if err := hostexec.WriteFile(t.Context(), h, dir+"/file", big[1:], 0o640, &hostexec.Fence{Dir: dir, Epoch: hostexec.Epoch{Pump: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{len(big), len(big), len(big) - 1} {
		until(t, "SFTP took it all", func() bool { return strings.Contains(log(), fmt.Sprintf("written %d", n)) })
	}
	// The file existed before SFTP wrote it, so that other users could not read it at any
	// moment.
	if strings.Contains(log(), "CREATE") {
		t.Errorf("SFTP made the file: %s", log())
	}
}

func TestTheShellTakesWhatSFTPDoesNot(t *testing.T) {
	t.Parallel()
	readOnly, _ := loggedSFTP(t, "-R")
	noWrites, log := loggedSFTP(t, "-P write")
	noFsync, _ := loggedSFTP(t, "-P fsync")
	for what, opts := range map[string]hosttest.Options{
		"no subsystem": {Config: []string{"Subsystem other /bin/false", "Subsystem sftp2 internal-sftp"}},
		"ends at once": {Config: []string{"Subsystem sftp /bin/false"}},
		"read only":    {Config: []string{readOnly}},
		"no writes":    {Config: []string{noWrites}},
		"no fsync":     {Config: []string{noFsync}},
		"rc files print": {Config: []string{"Subsystem sftp /usr/lib/openssh/sftp-server"}, NewUser: true,
			RC: map[string]string{".bashrc": "echo welcome; echo trouble >&2; printf 'no newline'\n"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := hosttest.StartSSHD(t, opts)
			h := newHost(t, s.Spec())
			dir := t.TempDir()
			for d := dir; d != "/tmp" && d != "/"; d = d[:strings.LastIndex(d, "/")] {
				os.Chmod(d, 0o777)
			}
			big, sum := bigFile(3 << 20)
			for range 2 {
				if err := hostexec.Upload(t.Context(), h, dir+"/file", bytes.NewReader(big), int64(len(big)), sum, 0o644, nil); err != nil {
					t.Fatal(err)
				}
				mustHoldJust(t, dir, "file", big)
			}
			// A reader that cannot seek is sent too, if SFTP fails before the first byte.
			err := hostexec.Upload(t.Context(), h, dir+"/file", onlyReader{bytes.NewReader(big)}, int64(len(big)), sum, 0o644, nil)
			switch {
			case what == "no writes":
				if err == nil || errors.Is(err, hostexec.ErrNoSpace) || errors.Is(err, hostexec.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "nothing was written") {
					t.Errorf("%v\n%s", err, log())
				}
			case err != nil:
				t.Error(err)
			}
			mustHoldJust(t, dir, "file", big)
		})
	}
}

func TestAFullDiskHasANameWhenSFTPMeetsIt(t *testing.T) {
	t.Parallel()
	disk := t.TempDir() + "/disk"
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatalf("mount a small tmpfs: %v: this test needs the right to mount (CAP_SYS_ADMIN)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	config, log := loggedSFTP(t, "")
	s := hosttest.StartSSHD(t, hosttest.Options{Config: []string{config}})
	h := newHost(t, s.Spec())
	big, sum := bigFile(5 << 20)
	for _, r := range []io.Reader{bytes.NewReader(big), onlyReader{bytes.NewReader(big)}} {
		err := hostexec.Upload(t.Context(), h, disk+"/file", r, int64(len(big)), sum, 0o600, nil)
		if !errors.Is(err, hostexec.ErrNoSpace) {
			t.Errorf("%T: %v", r, err)
		}
		mustHoldNothingBut(t, disk)
	}
	if !strings.Contains(log(), "/disk/.fl-") {
		t.Errorf("SFTP was not used: %s", log())
	}
}

func TestManyUploadsAtATime(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"MaxSessions 10", "MaxSessions 1"} {
		s := hosttest.StartSSHD(t, hosttest.Options{Config: []string{limit}})
		h := newHost(t, s.Spec())
		dir := t.TempDir()
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				big, sum := bigFile(2<<20 + i)
				sub := fmt.Sprint(dir, "/", i)
				if err := hostexec.Upload(t.Context(), h, sub+"/file", onlyReader{bytes.NewReader(big)}, int64(len(big)), sum, 0o600, nil); err != nil {
					t.Errorf("%s: %v", limit, err)
					return
				}
				mustHoldJust(t, sub, "file", big)
			})
		}
		wg.Wait()
	}
}

type stuckReader struct {
	io.Reader
	reached, goOn chan struct{}
	once          sync.Once
}

func newStuckReader(b []byte) *stuckReader {
	s := &stuckReader{reached: make(chan struct{}), goOn: make(chan struct{})}
	s.Reader = io.MultiReader(bytes.NewReader(b[:len(b)/2]), s.wait(), bytes.NewReader(b[len(b)/2:]))
	return s
}

func (s *stuckReader) wait() io.Reader {
	return readerFunc(func([]byte) (int, error) {
		s.once.Do(func() { close(s.reached) })
		<-s.goOn
		return 0, io.EOF
	})
}

// await waits until half of the content was read.
func (s *stuckReader) await(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case <-s.reached:
	case err := <-ended:
		t.Fatalf("it ended early: %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestAnUploadThatIsCutShortLeavesNothing(t *testing.T) {
	s := hosttest.StartSSHD(t, hosttest.Options{})
	big, sum := bigFile(8 << 20)
	for what, cut := range map[string]func(hostexec.Host, context.CancelFunc){
		"killed":   func(hostexec.Host, context.CancelFunc) { s.KillSessions() },
		"canceled": func(_ hostexec.Host, cancel context.CancelFunc) { cancel() },
		"closed":   func(h hostexec.Host, _ context.CancelFunc) { h.Close() },
	} {
		before := goleak.IgnoreCurrent()
		p := hostexec.NewPool(hostexec.PoolOptions{})
		h, err := p.Host(s.Spec())
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/file", []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := newStuckReader(big)
		ended := make(chan error, 1)
		go func() { ended <- hostexec.Upload(ctx, h, dir+"/file", r, int64(len(big)), sum, 0o600, nil) }()
		r.await(t, ended)
		cut(h, cancel)
		close(r.goOn)
		if err := <-ended; !errors.Is(err, hostexec.ErrOutcomeUnknown) && !errors.Is(err, hostexec.ErrUnreachable) {
			t.Errorf("%s: %v", what, err)
		}
		until(t, "the host drops what came", func() bool {
			entries, _ := os.ReadDir(dir)
			return len(entries) == 1
		})
		mustHoldJust(t, dir, "file", []byte("old"))
		cancel()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, before)
	}
}

func TestAnUploadWhoseSFTPServerDiesLeavesNothing(t *testing.T) {
	t.Parallel()
	config, _ := loggedSFTP(t, "")
	s := hosttest.StartSSHD(t, hosttest.Options{Config: []string{config}})
	h := newHost(t, s.Spec())
	big, sum := bigFile(8 << 20)
	dir := t.TempDir()
	r := newStuckReader(big)
	ended := make(chan error, 1)
	go func() {
		ended <- hostexec.Upload(t.Context(), h, dir+"/file", r, int64(len(big)), sum, 0o600, nil)
	}()
	r.await(t, ended)
	// The test kills only the server that has the file open.
	killed := 0
	until(t, "the server was killed", func() bool { killed += killHolders(dir); return killed > 0 })
	close(r.goOn)
	if err := <-ended; err == nil || errors.Is(err, hostexec.ErrNoSpace) {
		t.Errorf("half of the source is gone: %v", err)
	}
	mustHoldNothingBut(t, dir)
}

func killHolders(dir string) (n int) {
	fds, _ := os.ReadDir("/proc")
	for _, p := range fds {
		open, _ := os.ReadDir("/proc/" + p.Name() + "/fd")
		for _, fd := range open {
			to, err := os.Readlink("/proc/" + p.Name() + "/fd/" + fd.Name())
			var pid int
			if _, bad := fmt.Sscan(p.Name(), &pid); err == nil && bad == nil && strings.HasPrefix(to, dir+"/") && syscall.Kill(pid, syscall.SIGKILL) == nil {
				n++
				break
			}
		}
	}
	return n
}
