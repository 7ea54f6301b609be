package hostexec_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
)

// The faults that tests cause must really happen, and must be over when they are undone.
func TestTroubleIsMadeAndTakenBack(t *testing.T) {
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	h := newHost(t, sshd.Spec())
	works := func() {
		t.Helper()
		eventually(t, "the host works", func() bool {
			_, err := h.Run(t.Context(), hostexec.Command{Script: ":"})
			return err == nil
		})
	}
	cat := func() hostexec.Stream {
		t.Helper()
		works()
		s, err := h.Start(t.Context(), hostexec.Command{Script: "cat"})
		if err == nil {
			_, err = io.WriteString(s, "x")
		}
		if err == nil {
			_, err = io.ReadFull(s, make([]byte, 1))
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	silentlyGone := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := h.Run(ctx, hostexec.Command{Script: ":"})
		return err
	}

	t.Run("Drop", func(t *testing.T) {
		s := cat()
		restore, err := sshd.Drop(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer restore()
		if err := silentlyGone(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while packets are dropped: %v", err)
		}
		io.WriteString(s, "y")
		if err := restore(); err != nil {
			t.Fatal(err)
		}
		// The peers noticed nothing.
		if b := make([]byte, 1); true {
			if _, err := io.ReadFull(s, b); err != nil || b[0] != 'y' {
				t.Errorf("%q, %v", b, err)
			}
		}
		s.Close()
		if err := restore(); err != nil {
			t.Errorf("a second time: %v", err)
		}
	})
	t.Run("DropEndsWithUs", func(t *testing.T) {
		port := strconv.Itoa(sshd.Spec().Port)
		us := exec.Command(selfPath(t))
		us.Env = append(os.Environ(), programEnv+"=drop "+port)
		us.Stderr = os.Stderr
		if _, err := us.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		out, err := us.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := us.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err == nil {
			err = silentlyGone()
		}
		us.Process.Kill()
		us.Wait()
		if line != "dropping\n" || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%q, %v", line, err)
		}
		eventually(t, "no rule is left", func() bool {
			rules, err := exec.Command("iptables", "-w", "-S", "INPUT").Output()
			if err != nil {
				t.Fatal(err)
			}
			return !strings.Contains(string(rules), "port "+port+" ")
		})
		works()
	})
	t.Run("SmallDisk", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/before", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		unmount, err := hosttest.SmallDisk(t.Context(), dir, 256<<10)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/big", make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a file that is too big for it: %v", err)
		}
		if err := unmount(); err != nil {
			t.Error(err)
		}
		if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) != 1 || left[0] != dir+"/before" {
			t.Errorf("afterwards there is %q, %v", left, err)
		}
		if _, err := hosttest.SmallDisk(t.Context(), dir+"/none", 256<<10); err == nil || !strings.Contains(err.Error(), "none") {
			t.Errorf("on no folder: %v", err)
		}
	})
	t.Run("ReadOnly", func(t *testing.T) {
		dir := t.TempDir()
		file := dir + "/before"
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		restore, err := hosttest.ReadOnly(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/new", nil, 0o600); !errors.Is(err, syscall.EROFS) {
			t.Errorf("a new file: %v", err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "x" {
			t.Errorf("what was there reads %q, %v", text, err)
		}
		if err := errors.Join(restore(), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
	t.Run("Reset", func(t *testing.T) {
		s := cat()
		had, err := sshd.Connections()
		if n, rerr := sshd.Reset(t.Context()); err != nil || rerr != nil || n != had || n == 0 {
			t.Fatalf("%d of %d connections, %v, %v", n, had, err, rerr)
		}
		if err := s.Wait(); !errors.Is(err, hostexec.ErrOutcomeUnknown) {
			t.Errorf("a stream: %v", err)
		}
		works()
	})
	t.Run("RestartListener", func(t *testing.T) {
		s := cat()
		if err := sshd.RestartListener(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(s, "z"); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
			t.Errorf("a connection did not outlive the listener: %v", err)
		}
		works()
		if n := sshd.KillSessions(); n == 0 {
			t.Error("the connections of the former listener are not found")
		}
		if err := s.Wait(); !errors.Is(err, hostexec.ErrOutcomeUnknown) {
			t.Errorf("a stream: %v", err)
		}
		works()
	})
}
