package hostexec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
)

func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("never came true: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func TestAMutePeerIsGivenUp(t *testing.T) {
	t.Parallel()
	key := authorized(newKey(t, "ed25519", "").PublicKey())
	id := t.TempDir() + "/id"
	newKey(t, "ed25519", id)
	for what, says := range map[string]string{"nothing": "", "its name only": "SSH-2.0-Mute\r\n", "chatter": strings.Repeat("hello\r\n", 100)} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				io.WriteString(c, says)
				defer c.Close()
			}
		}()
		spec := protocol.HostSpec{Name: "mute", Address: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, HostKeys: []string{key}, Identity: id}
		h := newHost(t, spec)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := h.Run(ctx, hostexec.Command{Script: ":"}); !errors.Is(err, hostexec.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("says %s: %v", what, err)
		}
		if _, err := h.Start(ctx, hostexec.Command{Script: ":"}); !errors.Is(err, hostexec.ErrUnreachable) {
			t.Errorf("says %s: %v", what, err)
		}
		spec.HostKeys = nil
		if _, err := hostexec.ScanHostKeys(ctx, spec); !errors.Is(err, hostexec.ErrUnreachable) {
			t.Errorf("says %s: scan: %v", what, err)
		}
	}
}

func TestAMutePeerIsGivenUpWithoutAnyDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // this process never accepts, but the kernel does
	id := t.TempDir() + "/id"
	key := newKey(t, "ed25519", id).PublicKey()
	err = runOnce(t, protocol.HostSpec{Name: "mute", Address: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, HostKeys: []string{authorized(key)}, Identity: id})
	if !errors.Is(err, hostexec.ErrUnreachable) || !strings.Contains(err.Error(), "handshake") {
		t.Error(err)
	}
}

func TestAnUnreachableHostSaysSo(t *testing.T) {
	t.Parallel()
	s := hosttest.StartSSHD(t, hosttest.Options{})
	spec := s.Spec()
	s.Stop()
	if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrUnreachable) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
	spec.Address = "no-such-host.invalid"
	if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrUnreachable) {
		t.Errorf("no such name: %v", err)
	}
}

func TestALoginThatRunsNothingSaysSo(t *testing.T) {
	t.Parallel()
	s := hosttest.StartSSHD(t, hosttest.Options{NewUser: true, Shell: "/usr/sbin/nologin"})
	h := newHost(t, s.Spec())
	_, err := h.Run(t.Context(), hostexec.Command{Script: ":"})
	if !errors.Is(err, hostexec.ErrUnreachable) || !strings.Contains(err.Error(), "not available") {
		t.Errorf("Run: %v", err)
	}
	st, err := h.Start(t.Context(), hostexec.Command{Script: ":"})
	if err == nil {
		err = st.Wait()
	}
	if !errors.Is(err, hostexec.ErrUnreachable) {
		t.Errorf("Start: %v", err)
	}
}

// testLoss loses the connections of a host while commands run.
func testLoss(t *testing.T, s *hosttest.SSHD, h hostexec.Host, lose func()) {
	t.Helper()
	dir := t.TempDir()
	os.Chmod(dir, 0o777)
	var wg sync.WaitGroup
	for i, c := range []hostexec.Command{{}, {Bulk: true}} {
		c.Script = `: >"$1/run.$2"; while [ ! -e "$1/go" ]; do sleep 0.05; done; : >"$1/done.$2"`
		c.Args = []string{dir, fmt.Sprint(i)}
		wg.Go(func() {
			if _, err := h.Run(t.Context(), c); !errors.Is(err, hostexec.ErrOutcomeUnknown) || errors.Is(err, hostexec.ErrUnreachable) {
				t.Errorf("Run: %v", err)
			}
		})
		until(t, "the command runs", func() bool { return exists(fmt.Sprintf("%s/run.%d", dir, i)) })
	}
	st, err := h.Start(t.Context(), hostexec.Command{Script: "echo ready; cat"})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := io.ReadFull(st, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	lose()
	wg.Wait()
	if n, err := st.Read(make([]byte, 1)); !errors.Is(err, hostexec.ErrOutcomeUnknown) {
		t.Errorf("Read: %d, %v", n, err)
	}
	if err := st.Wait(); !errors.Is(err, hostexec.ErrOutcomeUnknown) {
		t.Errorf("Wait: %v", err)
	}
	// The command that ran goes on, and the next command gets a new connection.
	if _, err := h.Run(t.Context(), hostexec.Command{Script: `: >"$1/go"`, Args: []string{dir}}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		until(t, "the lost command ended", func() bool { return exists(fmt.Sprintf("%s/done.%d", dir, i)) })
	}
}

func TestACommandWhoseSSHDDiedHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := hosttest.StartSSHD(t, hosttest.Options{})
	testLoss(t, s, newHost(t, s.Spec()), func() {
		if s.KillSessions() == 0 {
			t.Error("nothing was killed")
		}
	})
}

func TestACommandWhosePeerWentSilentHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := hosttest.StartSSHD(t, hosttest.Options{})
	p := newPool(t, hostexec.PoolOptions{})
	p.ShortenTimings(time.Hour, 2*time.Second)
	h, err := p.Host(s.Spec())
	if err != nil {
		t.Fatal(err)
	}
	testLoss(t, s, h, func() {
		if s.FreezeSessions() == 0 {
			t.Error("nothing was frozen")
		}
	})
}

func TestAWaitEndsAtOnceEvenWhenThePeerIsSilent(t *testing.T) {
	t.Parallel()
	s := hosttest.StartSSHD(t, hosttest.Options{})
	h := newHost(t, s.Spec())
	st, err := h.Start(t.Context(), hostexec.Command{Script: "echo ready; cat"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(st, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), hostexec.Command{Script: ":"}); err != nil {
		t.Fatal(err)
	}
	s.FreezeSessions()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := h.Run(ctx, hostexec.Command{Script: ":"}); !errors.Is(err, hostexec.ErrOutcomeUnknown) {
		t.Errorf("Run: %v", err)
	}
	read := make(chan error)
	go func() {
		_, err := st.Read(make([]byte, 1))
		read <- err
	}()
	st.Close()
	if err := <-read; err == nil || err == io.EOF {
		t.Errorf("Read: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

func TestAHostThatRestartsIsReachedAgain(t *testing.T) {
	t.Parallel()
	s := hosttest.StartSSHD(t, hosttest.Options{})
	h := newHost(t, s.Spec())
	for range 3 {
		if _, err := h.Run(t.Context(), hostexec.Command{Script: ":"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		until(t, "the loss was noticed", func() bool { n, _ := hostexec.Connections(h); return n == 0 })
		if _, err := h.Run(t.Context(), hostexec.Command{Script: ":"}); !errors.Is(err, hostexec.ErrUnreachable) {
			t.Fatalf("while it was away: %v", err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoginsThatAreTurnedAwayForWantOfRoomAreTriedAgain(t *testing.T) {
	t.Parallel()
	s := hosttest.StartSSHD(t, hosttest.Options{Config: []string{"MaxStartups 2:90:3"}})
	var wg sync.WaitGroup
	for range 16 {
		h := newHost(t, s.Spec()) // each in a pool of its own, so that they do not delay each other
		wg.Go(func() {
			if _, err := h.Run(t.Context(), hostexec.Command{Script: ":"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if !strings.Contains(s.Log(), "MaxStartups") {
		t.Errorf("nobody was turned away:\n%s", s.Log())
	}
}

func TestConnectionsAreSharedAndGivenBack(t *testing.T) {
	t.Parallel()
	s := hosttest.StartSSHD(t, hosttest.Options{})
	p := newPool(t, hostexec.PoolOptions{})
	p.ShortenTimings(200*time.Millisecond, time.Hour)
	h, err := p.Host(s.Spec())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.Host(s.Spec()); err != nil || again != h {
		t.Errorf("equal specs gave two hosts: %v", err)
	}
	var streams []hostexec.Stream
	for range 20 {
		st, err := h.Start(t.Context(), hostexec.Command{Script: "cat"})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, st)
	}
	for range 10 {
		if _, err := h.Run(t.Context(), hostexec.Command{Script: ":"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Run(t.Context(), hostexec.Command{Script: ":", Bulk: true}); err != nil {
		t.Fatal(err)
	}
	if controls, bulks := hostexec.Connections(h); controls != 3 || bulks != 1 {
		t.Errorf("21 channels take %d connections, one bulk command %d", controls, bulks)
	}
	for _, st := range streams {
		st.Close()
	}
	until(t, "idle connections are closed", func() bool {
		controls, bulks := hostexec.Connections(h)
		return controls == 0 && bulks == 0
	})
	if _, err := h.Run(t.Context(), hostexec.Command{Script: ":"}); err != nil {
		t.Error(err)
	}
}

func TestJumpHosts(t *testing.T) {
	t.Parallel()
	outer := hosttest.StartSSHD(t, hosttest.Options{})
	middle := hosttest.StartSSHD(t, hosttest.Options{})
	target := hosttest.StartSSHD(t, hosttest.Options{})
	first, second, spec := outer.Spec(), middle.Spec(), target.Spec()
	second.Jump = &first
	spec.Jump = &second
	p := newPool(t, hostexec.PoolOptions{})
	h, err := p.Host(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, bulk := range []bool{false, true} {
		in := []byte(strings.Repeat("0123456789", 100_000))
		if res, err := h.Run(t.Context(), hostexec.Command{Script: "cat", Stdin: in, Bulk: bulk}); err != nil || string(res.Stdout) != string(in) {
			t.Errorf("%d bytes, %v", len(res.Stdout), err)
		}
	}
	for _, hop := range []protocol.HostSpec{first, second} {
		j, err := p.Host(hop)
		if err != nil {
			t.Fatal(err)
		}
		if controls, bulks := hostexec.Connections(j); controls != 1 || bulks != 1 {
			t.Errorf("hop %s has %d and %d connections", hop.Name, controls, bulks)
		}
	}
	if keys, err := hostexec.ScanHostKeys(t.Context(), spec); err != nil || len(keys) != 1 || keys[0].Key != target.HostKey() {
		t.Errorf("scan: %v, %v", keys, err)
	}
	// If a jump host dies, the connections through it die too. Later connections work
	// again.
	testLoss(t, target, h, func() { outer.KillSessions() })

	// Every hop must show its pinned key.
	bad := first
	bad.HostKeys = []string{target.HostKey()}
	second.Jump = &bad
	if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrHostKeyChanged) || !strings.Contains(err.Error(), "jump host") {
		t.Errorf("a hop with another key: %v", err)
	}
	bad.HostKeys = nil
	if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrHostKeyUnknown) {
		t.Errorf("a hop without a pin: %v", err)
	}
	second.Jump = &first
	target.Stop()
	if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrUnreachable) || !strings.Contains(err.Error(), "cannot reach") {
		t.Errorf("a target that is down: %v", err)
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	s := hosttest.StartSSHD(t, hosttest.Options{})
	before := goleak.IgnoreCurrent()
	behind := s.Spec()
	jump := s.Spec()
	behind.Jump = &jump
	p := hostexec.NewPool(hostexec.PoolOptions{})
	for _, spec := range []protocol.HostSpec{{Name: protocol.LocalHost}, s.Spec(), behind} {
		h, err := p.Host(spec)
		if err != nil {
			t.Fatal(err)
		}
		st, err := h.Start(t.Context(), hostexec.Command{Script: "echo ready; cat"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(st, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Run(t.Context(), hostexec.Command{Script: ":"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		h.Run(ctx, hostexec.Command{Script: "sleep 5 >/dev/null 2>&1 & wait"})
		cancel()
		h.Run(t.Context(), hostexec.Command{Script: "cat /dev/zero"})
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
}

func TestCloseIsNotHeldUpByOutputThatNobodyReads(t *testing.T) {
	t.Parallel()
	s := hosttest.StartSSHD(t, hosttest.Options{})
	h := newHost(t, s.Spec())
	st, err := h.Start(t.Context(), hostexec.Command{Script: "echo ready; exec head -c 10000000 /dev/zero"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(st, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := st.Wait(); !errors.Is(err, hostexec.ErrOutcomeUnknown) {
		t.Error(err)
	}
}
