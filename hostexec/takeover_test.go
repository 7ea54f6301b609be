package hostexec_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
)

// A formerHolder is a holder whose worker stood still while another holder took over. Its
// bytes are on their way and arrive later.
type formerHolder struct {
	sshd *hosttest.SSHD
	host hostexec.Host
	// freeze holds back the bytes of the former holder, and thaw lets them arrive.
	freeze, thaw func()
}

// formerHolders runs f for each way in which a former holder can be late.
func formerHolders(t *testing.T, f func(t *testing.T, old formerHolder, newer hostexec.Host)) {
	t.Run("its bytes are held up on the way", func(t *testing.T) {
		sshd := hosttest.StartSSHD(t, hosttest.Options{})
		stall, err := hosttest.NewStall(sshd.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stall.Close() })
		spec := sshd.Spec()
		spec.Port = stall.Port()
		f(t, formerHolder{sshd, newHost(t, spec), stall.Hold, stall.Release}, newHost(t, sshd.Spec()))
	})
	t.Run("the sshd that serves it stands still", func(t *testing.T) {
		sshd := hosttest.StartSSHD(t, hosttest.Options{})
		f(t, formerHolder{sshd, newHost(t, sshd.Spec()),
			func() { sshd.FreezeSessions() }, func() { sshd.ThawSessions() }}, newHost(t, sshd.Spec()))
	})
}

func TestLateWritesOfAFormerHolderNeverArrive(t *testing.T) {
	formerHolders(t, func(t *testing.T, old formerHolder, newer hostexec.Host) {
		s := newScene(t, old.host)
		s.program("echo")
		older := s.attach(process.AttachOptions{})
		if _, err := io.WriteString(older, "one\n"); err != nil {
			t.Fatal(err)
		}
		readUntil(t, older, "one\n")
		former := s.fence
		old.freeze()
		for range 3 {
			// The write succeeds, because the bytes are on their way.
			if _, err := io.WriteString(older, "stale\n"); err != nil {
				t.Fatal(err)
			}
		}
		ran := make(chan error, 1)
		go func() {
			_, err := old.host.Run(s.ctx, hostexec.Command{Script: `: >"$1/stale"`, Args: []string{s.dir}, Fence: &former})
			ran <- err
		}()

		s.host = newer
		s.fence.Epoch.Attempt++
		a := s.attach(process.AttachOptions{})
		if _, err := io.WriteString(a, "two\n"); err != nil {
			t.Fatal(err)
		}
		readUntil(t, a, "two\n")
		old.thaw()
		_, err := io.Copy(io.Discard, older)
		var fenced *hostexec.FencedError
		if !errors.As(err, &fenced) || fenced.Host != s.fence.Epoch || fenced.Ours != former.Epoch {
			t.Errorf("what the former holder is told: %v", err)
		}
		if err := <-ran; !errors.Is(err, hostexec.ErrFenced) {
			t.Errorf("its late script: %v", err)
		}
		if _, err := os.Lstat(s.dir + "/stale"); err == nil {
			t.Error("its late script ran")
		}
		if _, err := io.WriteString(a, "three\n"); err != nil {
			t.Fatal(err)
		}
		readUntil(t, a, "three\n")
		if journal, err := os.ReadFile(s.proc() + "/out.log"); err != nil || string(journal) != "\none\n\ntwo\nthree\n" {
			t.Errorf("journal %q, %v", journal, err)
		}
	})
}

// A big file is sent by SFTP, and half of it has arrived when another holder takes over.
func TestLateUploadOfAFormerHolderDoesNotLand(t *testing.T) {
	data := pattern(8, 24<<20)
	digest := sha256.Sum256(data)
	for _, way := range []string{"sftp", "shell"} {
		t.Run(way, func(t *testing.T) {
			formerHolders(t, func(t *testing.T, old formerHolder, newer hostexec.Host) {
				if way == "shell" {
					old.sshd.SetConfig("Subsystem sftp /bin/false")
					if err := old.sshd.Restart(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				s := newScene(t, newer)
				target := s.dir + "/home/auth.json"
				mustRun := func(h hostexec.Host, c hostexec.Command) {
					t.Helper()
					if _, err := h.Run(t.Context(), c); err != nil {
						t.Fatal(err)
					}
				}
				mustRun(old.host, hostexec.Command{Script: `mkdir -p "$1/home" && echo mine >"$1/home/auth.json"`, Args: []string{s.dir}, Fence: &s.fence})
				former := s.fence
				source := &pausing{Reader: bytes.NewReader(data), after: len(data) / 2, reached: make(chan struct{}), goOn: make(chan struct{})}
				uploaded := make(chan error, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() {
					uploaded <- hostexec.Upload(ctx, old.host, target, source, int64(len(data)), hex.EncodeToString(digest[:]), 0o600, &former)
				}()
				<-source.reached
				old.freeze()
				close(source.goOn)
				s.fence.Epoch.Attempt++
				mustRun(newer, hostexec.Command{Script: `echo newer >"$1"`, Args: []string{target}, Fence: &s.fence})
				old.thaw()
				if err := <-uploaded; !errors.Is(err, hostexec.ErrFenced) {
					t.Errorf("the upload: %v", err)
				}
				if b, err := os.ReadFile(target); string(b) != "newer\n" {
					t.Errorf("%d bytes, %v", len(b), err)
				}
				eventually(t, "no half file is left", func() bool {
					all, err := filepath.Glob(globEscape(s.dir) + "/home/.fl-*")
					return err == nil && len(all) == 0
				})
			})
		})
	}
}

// pausing is a reader that stops once in the middle.
type pausing struct {
	io.Reader
	after         int
	reached, goOn chan struct{}
}

func (p *pausing) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if before := p.after; before > 0 {
		if p.after -= n; p.after <= 0 {
			close(p.reached)
			<-p.goOn
		}
	}
	return n, err
}

func TestAScriptThatTakesLongIsAdmittedAndHoldsNoLock(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		long, err := s.host.Start(s.ctx, hostexec.Command{Script: `echo in; exec cat`, Fence: &s.fence, FenceAtStart: true})
		if err != nil {
			t.Fatal(err)
		}
		defer long.Close()
		if _, err := io.ReadFull(long, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		former := s.fence
		s.fence.Epoch.Pump++
		if _, err := s.host.Run(s.ctx, hostexec.Command{Script: ":", Fence: &s.fence}); err != nil {
			t.Errorf("while it runs: %v", err)
		}
		late, err := s.host.Start(s.ctx, hostexec.Command{Script: `: >"$1/stale"`, Args: []string{s.dir}, Fence: &former, FenceAtStart: true})
		if err != nil {
			t.Fatal(err)
		}
		defer late.Close()
		if err := late.Wait(); !errors.Is(err, hostexec.ErrFenced) || !strings.Contains(err.Error(), "newer holder") {
			t.Errorf("a former holder's: %v", err)
		}
		if _, err := os.Lstat(s.dir + "/stale"); err == nil {
			t.Error("a former holder's ran")
		}
	})
}
