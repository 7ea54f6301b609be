package hostexec_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
)

// slowRate is the rate of a slow bastion, in bytes per second.
const slowRate = 60 << 10

// hostWithKeepalive returns a host of a new pool. At the interval keepalive, the pool asks
// for a sign of life, and it waits for one as long.
func hostWithKeepalive(t *testing.T, spec protocol.HostSpec, keepalive time.Duration) hostexec.Host {
	t.Helper()
	p := newPool(t, hostexec.PoolOptions{})
	p.ShortenTimings(time.Hour, keepalive)
	h, err := p.Host(spec)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A slow peer is not given up because its answer waits behind queued data.
func TestTransfersOverASlowLineAreNotTakenForADeadPeer(t *testing.T) {
	t.Parallel()
	line := newLine(t)
	sshd := hosttest.StartSSHD(t, hosttest.Options{Behind: line})
	h := hostWithKeepalive(t, sshd.Spec(), 3*time.Second)
	dir := t.TempDir()
	data := pattern(5, 600<<10)
	if err := os.WriteFile(dir+"/there", data, 0o600); err != nil {
		t.Fatal(err)
	}
	line.SetRate(slowRate)
	digest := sha256.Sum256(data)
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() {
		err := hostexec.Upload(t.Context(), h, dir+"/up", bytes.NewReader(data), int64(len(data)), hex.EncodeToString(digest[:]), 0o600, nil)
		if err != nil {
			t.Errorf("up: %v", err)
		} else if there, err := os.ReadFile(dir + "/up"); err != nil || !bytes.Equal(there, data) {
			t.Errorf("up: %d bytes of %d, %v", len(there), len(data), err)
		}
	})
	both.Go(func() {
		s, err := h.Start(t.Context(), hostexec.Command{Script: `exec cat -- "$1"`, Args: []string{dir + "/there"}, Bulk: true})
		if err != nil {
			t.Errorf("down: %v", err)
			return
		}
		defer s.Close()
		down, err := io.ReadAll(s)
		if err = errors.Join(err, s.Wait()); err != nil || !bytes.Equal(down, data) {
			t.Errorf("down: %d bytes of %d, %v", len(down), len(data), err)
		}
	})
}

// A connection that waits behind data of another connection through the same jump host is
// not given up.
func TestAQuietConnectionBehindABusyJumpHostIsKept(t *testing.T) {
	t.Parallel()
	line := newLine(t)
	jump := hosttest.StartSSHD(t, hosttest.Options{Behind: line}).Spec()
	p := newPool(t, hostexec.PoolOptions{})
	p.ShortenTimings(time.Hour, 3*time.Second)
	var hosts [2]hostexec.Host
	for i := range hosts {
		spec := hosttest.StartSSHD(t, hosttest.Options{Behind: line}).Spec()
		spec.Jump = &jump
		var err error
		if hosts[i], err = p.Host(spec); err != nil {
			t.Fatal(err)
		}
	}
	quiet, err := hosts[0].Start(t.Context(), hostexec.Command{Script: "exec cat", Bulk: true})
	if err != nil {
		t.Fatal(err)
	}
	defer quiet.Close()
	line.SetRate(slowRate)
	s, err := hosts[1].Start(t.Context(), hostexec.Command{Script: `exec head -c "$1" /dev/zero`, Args: []string{"1000000"}, Bulk: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n, err := io.Copy(io.Discard, s)
	if err = errors.Join(err, s.Wait()); err != nil || n != 1_000_000 {
		t.Errorf("busy: %d bytes, %v", n, err)
	}
	if _, err := io.WriteString(quiet, "still there"); err != nil {
		t.Error(err)
	}
	quiet.CloseWrite()
	if said, err := io.ReadAll(quiet); err != nil || string(said) != "still there" {
		t.Errorf("quiet: %q, %v", said, err)
	}
}

// A host's kernel acknowledges bytes for a process that has stopped.
func TestAFrozenPeerIsGivenUpThoughItsKernelStillTakesBytes(t *testing.T) {
	t.Parallel()
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	h := hostWithKeepalive(t, sshd.Spec(), time.Second)
	s, err := h.Start(t.Context(), hostexec.Command{Script: "exec cat >/dev/null"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if sshd.FreezeSessions() == 0 {
		t.Fatal("nothing was frozen")
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	patience := time.After(time.Minute)
	for {
		select {
		case err := <-ended:
			if !errors.Is(err, hostexec.ErrOutcomeUnknown) {
				t.Error(err)
			}
			return
		case <-tick.C:
			io.WriteString(s, "x\n")
		case <-patience:
			t.Fatal("the connection was kept")
		}
	}
}
