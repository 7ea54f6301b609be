package hostexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/realparts"
)

// A forwarding is a host with the folder of a session on it.
type forwarding struct {
	*testing.T
	sshd *hosttest.SSHD
	dir  string
}

func newForwarding(t *testing.T, config ...string) *forwarding {
	t.Parallel()
	sshd := hosttest.StartSSHD(t, hosttest.Options{Config: config})
	return &forwarding{t, sshd, filepath.Join(sshd.Home, "sessions", "s1")}
}

func (f *forwarding) spec(attempt int64) hostexec.ForwardSpec {
	return hostexec.ForwardSpec{Name: "model", Fence: hostexec.Fence{Dir: f.dir, Epoch: hostexec.Epoch{Generation: 1, Attempt: attempt}}}
}

// worker returns a pool of its own, as another worker has.
func (f *forwarding) worker() (*hostexec.Pool, hostexec.Host) {
	pool := newPool(f.T, hostexec.PoolOptions{})
	h, err := pool.Host(f.sshd.Spec())
	if err != nil {
		f.Fatal(err)
	}
	return pool, h
}

func (f *forwarding) open(pool *hostexec.Pool, h hostexec.Host, spec hostexec.ForwardSpec) *hostexec.Forward {
	f.Helper()
	fw, err := pool.OpenForward(f.Context(), h, spec)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { fw.Close() })
	return fw
}

// answer answers each connection: it sends a word and what the peer sent until it was done.
func answer(fw *hostexec.Forward, word string) {
	for {
		c, err := fw.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			in, err := io.ReadAll(c)
			if err == nil {
				_, err = fmt.Fprintf(c, "%s %s", word, in)
			}
			if err == nil {
				_ = c.(interface{ CloseWrite() error }).CloseWrite() // the peer sees whether it worked
			}
		}()
	}
}

// ask connects as a program on the host does, sends text, closes its side, and returns what
// comes back.
func ask(network, address, text string) (string, error) {
	c, err := net.DialTimeout(network, address, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return exchange(c, text)
}

func exchange(c net.Conn, text string) (string, error) {
	_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // if it fails, the test hangs and says where
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		return "", err
	}
	out, err := io.ReadAll(c)
	return string(out), err
}

func (f *forwarding) wantAnswer(address, want string) {
	f.Helper()
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	if got, err := ask(network, address, "hello"); got != want || err != nil {
		f.Fatalf("%s answered %q (%v), want %q", address, got, err, want)
	}
}

func (f *forwarding) wantNobody(network, address string) {
	f.Helper()
	if c, err := net.Dial(network, address); err == nil {
		c.Close()
		f.Fatalf("somebody listens at %s", address)
	}
}

func TestAForwardCarriesTheConnectionsOfTheHost(t *testing.T) {
	f := newForwarding(t)
	fw := f.forward(f.spec(1))
	go answer(fw, "worker")
	for range 3 {
		f.wantAnswer(fw.Addr().String(), "worker hello")
	}
	big := strings.Repeat("0123456789abcdef", 1<<18)
	if got, err := ask("tcp", fw.Addr().String(), big); got != "worker "+big || err != nil {
		t.Fatalf("4 MiB came back as %d bytes: %v", len(got), err)
	}
}

func (f *forwarding) forward(spec hostexec.ForwardSpec) *hostexec.Forward {
	f.Helper()
	pool, h := f.worker()
	return f.open(pool, h, spec)
}

func TestAForwardComesBackOnItsPortAfterEachLoss(t *testing.T) {
	f := newForwarding(t)
	fw := f.forward(f.spec(1))
	go answer(fw, "worker")
	address := fw.Addr().String()
	for n, strike := range []func(){
		func() { f.sshd.KillSessions() },
		func() { f.sshd.FreezeSessions() }, // sshd keeps the port until its process is ended
		func() {
			if err := f.sshd.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		strike()
		until(t, "the forward is up again", func() bool { s := fw.State(); return s.Up && s.Times == n+2 })
		if fw.Addr().String() != address {
			t.Fatalf("it is at %s now, it was at %s", fw.Addr(), address)
		}
		f.wantAnswer(address, "worker hello")
	}
}

func TestAForwardWaitsForAPortThatWasTakenMeanwhile(t *testing.T) {
	f := newForwarding(t)
	fw := f.forward(f.spec(1))
	go answer(fw, "worker")
	address := fw.Addr().String()
	if err := f.sshd.Stop(); err != nil {
		t.Fatal(err)
	}
	var thief net.Listener
	until(t, "the port is free", func() (ok bool) {
		var err error
		thief, err = net.Listen("tcp", address)
		return err == nil
	})
	if err := f.sshd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the forward says that its port is taken", func() bool { return errors.Is(fw.State().Err, hostexec.ErrPortTaken) })
	if s := fw.State(); s.Up || s.Over {
		t.Fatalf("state %+v", s)
	}
	if _, err := f.second().OpenForward(t.Context(), f.host(), hostexec.ForwardSpec{Name: "other", Port: fw.Port(), Fence: f.spec(1).Fence}); !errors.Is(err, hostexec.ErrPortTaken) {
		t.Errorf("another forward for the taken port: %v", err)
	}
	thief.Close()
	until(t, "the forward is up again", func() bool { return fw.State().Up })
	f.wantAnswer(address, "worker hello")
}

func (f *forwarding) second() *hostexec.Pool { p, _ := f.worker(); return p }
func (f *forwarding) host() hostexec.Host    { _, h := f.worker(); return h }

func TestASupersededWorkersForwardIsGone(t *testing.T) {
	f := newForwarding(t)
	for n, frozen := range []bool{false, true} {
		old := f.forward(f.spec(int64(2*n + 1)))
		go answer(old, "old")
		address := old.Addr().String()
		f.wantAnswer(address, "old hello")
		if frozen {
			f.sshd.FreezeSessions() // the worker and its connection hang; sshd still listens
		}
		spec := f.spec(int64(2*n + 2))
		spec.Port = old.Port()
		next := f.forward(spec)
		go answer(next, "new")
		if next.Addr().String() != address {
			t.Fatalf("frozen %t: the next worker got %s, want %s", frozen, next.Addr(), address)
		}
		f.wantAnswer(address, "new hello")
		if _, err := old.Accept(); !errors.Is(err, hostexec.ErrFenced) {
			t.Errorf("frozen %t: the old forward ended with %v", frozen, err)
		}
		pool, h := f.worker()
		if _, err := pool.OpenForward(t.Context(), h, f.spec(int64(2*n+1))); !errors.Is(err, hostexec.ErrFenced) {
			t.Errorf("frozen %t: a superseded worker opened a forward: %v", frozen, err)
		}
		if err := hostexec.EndForward(t.Context(), h, f.spec(int64(2*n+1)).Fence, "model", ""); !errors.Is(err, hostexec.ErrFenced) {
			t.Errorf("frozen %t: a superseded worker ended a forward: %v", frozen, err)
		}
		f.wantAnswer(address, "new hello")
		if err := next.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.wantNobody("tcp", address)
	}
}

func TestAForwardIsHeldUnderAHigherEpochWithoutALoss(t *testing.T) {
	f := newForwarding(t)
	pool, h := f.worker()
	fw := f.open(pool, h, f.spec(1))
	go answer(fw, "mine")
	before, err := net.Dial("tcp", fw.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if err := fw.Raise(t.Context(), f.spec(3).Fence); err != nil {
		t.Fatal(err)
	}
	if got, err := exchange(before, "hello"); got != "mine hello" || err != nil {
		t.Errorf("a connection of before answers %q (%v)", got, err)
	}
	f.wantAnswer(fw.Addr().String(), "mine hello")
	if err := fw.Raise(t.Context(), f.spec(2).Fence); !errors.Is(err, hostexec.ErrFenced) {
		t.Errorf("a lower epoch: %v", err)
	}
	if _, err := pool.OpenForward(t.Context(), h, f.spec(2)); !errors.Is(err, hostexec.ErrFenced) {
		t.Errorf("a holder with a lower epoch: %v", err)
	}
	f.sshd.KillSessions() // it comes back under the epoch that it has now
	for fw.State().Times < 2 {
		if fw.State().Over {
			t.Fatalf("the forward ended: %v", fw.State().Err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	f.wantAnswer(fw.Addr().String(), "mine hello")
	fw.Close()
	if err := fw.Raise(t.Context(), f.spec(4).Fence); err == nil {
		t.Error("a forward that has ended is held under another epoch")
	}
}

func TestNothingListensOnTheHostAfterRelease(t *testing.T) {
	f := newForwarding(t)
	for what, strike := range map[string]func(){"whole": func() {}, "frozen": func() { f.sshd.FreezeSessions() }} {
		fw := f.forward(f.spec(1))
		go answer(fw, "worker")
		address := fw.Addr().String()
		f.wantAnswer(address, "worker hello")
		strike()
		// A worker that hangs on a dead connection is released by the next one.
		if err := hostexec.EndForward(t.Context(), f.host(), f.spec(2).Fence, "model", ""); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		f.wantNobody("tcp", address)
		if err := os.RemoveAll(f.dir); err != nil {
			t.Fatal(err)
		}
		fw.Close()
		if _, err := fw.Accept(); err == nil {
			t.Errorf("%s: a closed forward accepts", what)
		}
	}
	fw := f.forward(f.spec(3))
	if err := fw.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.wantNobody("tcp", fw.Addr().String())
	if left, _ := filepath.Glob(f.dir + "/forward-*"); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
}

func TestAForwardEndsWithItsPool(t *testing.T) {
	f := newForwarding(t)
	pool, h := f.worker()
	fw := f.open(pool, h, f.spec(1))
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := fw.Accept(); err == nil {
		t.Error("it accepts")
	}
	until(t, "the port is free", func() bool {
		c, err := net.Dial("tcp", fw.Addr().String())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

func TestTheConnectionsOfAForwardAreBounded(t *testing.T) {
	f := newForwarding(t)
	spec := f.spec(1)
	spec.MaxConns = 2
	fw := f.forward(spec)
	var kept []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", fw.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ours, err := fw.Accept()
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, ours)
	}
	if got, err := ask("tcp", fw.Addr().String(), "hello"); got != "" {
		t.Fatalf("a third connection was answered %q (%v)", got, err)
	}
	for _, c := range kept {
		c.Close()
	}
	go answer(fw, "worker")
	until(t, "there is a place again", func() bool {
		got, err := ask("tcp", fw.Addr().String(), "hello")
		return got == "worker hello" && err == nil
	})
}

func TestASlowReaderDelaysNobodyElse(t *testing.T) {
	f := newForwarding(t)
	pool, h := f.worker()
	fw := f.open(pool, h, f.spec(1))
	stalled, err := net.Dial("tcp", fw.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Close()
	ours, err := fw.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	// Both directions are full: neither the host nor this program reads.
	_ = ours.SetWriteDeadline(time.Now().Add(time.Second)) // to know when it is full
	filled := make(chan error, 1)
	go func() {
		_ = stalled.SetWriteDeadline(time.Now().Add(time.Second)) // likewise
		_, err := io.Copy(stalled, bytes.NewReader(make([]byte, 64<<20)))
		filled <- err
	}()
	if n, err := ours.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes were written to a peer that does not read: %v", n, err)
	}
	if err := <-filled; !errors.Is(err, os.ErrDeadlineExceeded) && err == nil {
		t.Fatal("64 MiB went to a program that does not read")
	}
	go answer(fw, "worker")
	f.wantAnswer(fw.Addr().String(), "worker hello")
	if _, err := h.Run(t.Context(), hostexec.Command{Script: ":"}); err != nil {
		t.Fatal(err)
	}
}

func TestAnHTTPServerServesAForward(t *testing.T) {
	f := newForwarding(t)
	fw := f.forward(f.spec(1))
	srv := &http.Server{ReadHeaderTimeout: 300 * time.Millisecond, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s of %s", r.URL.Path, r.RemoteAddr[:strings.LastIndex(r.RemoteAddr, ":")])
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(fw) }()
	client := &http.Client{Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	for n := range 3 {
		res, err := client.Get(fmt.Sprintf("http://%s/%d", fw.Addr(), n))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if want := fmt.Sprintf("/%d of 127.0.0.1", n); string(body) != want || err != nil {
			t.Fatalf("%q (%v), want %q", body, err, want)
		}
	}
	// Deadlines hold: who sends no request is closed.
	mute, err := net.Dial("tcp", fw.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	if _, err := io.ReadAll(mute); err != nil {
		t.Errorf("a mute client: %v", err)
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

func TestASocketForwardIsForItsUserAlone(t *testing.T) {
	f := newForwarding(t)
	spec := f.spec(1)
	spec.Socket = filepath.Join(f.sshd.Home, "model.sock")
	fw := f.forward(spec)
	go answer(fw, "worker")
	f.wantAnswer(spec.Socket, "worker hello")
	info, err := os.Stat(spec.Socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	f.sshd.KillSessions() // the file stays
	until(t, "the forward is up again", func() bool { return fw.State().Times == 2 })
	f.wantAnswer(spec.Socket, "worker hello")
	if err := fw.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exists(spec.Socket) {
		t.Error("the socket is left behind")
	}
}

func TestSshdThatForbidsForwardsSaysHowToAllowThem(t *testing.T) {
	for _, c := range []struct {
		config                string
		remote, socket, local string // parts of the errors
	}{
		{"LogLevel VERBOSE", "", "", ""},
		{"AllowTcpForwarding no", "AllowTcpForwarding", "AllowTcpForwarding", "AllowTcpForwarding"},
		{"AllowTcpForwarding local", "AllowTcpForwarding", "AllowTcpForwarding", ""},
		{"AllowTcpForwarding remote", "", "", "AllowTcpForwarding"},
		{"AllowStreamLocalForwarding no", "", "AllowStreamLocalForwarding", ""},
		{"PermitListen 127.0.0.1:9", "PermitListen", "", ""},
		{"PermitOpen none", "", "", "PermitOpen"},
		{"DisableForwarding yes", "DisableForwarding", "DisableForwarding", "DisableForwarding"},
		{"GatewayPorts yes", "GatewayPorts", "", ""},
	} {
		t.Run(c.config, func(t *testing.T) {
			f := newForwarding(t, c.config)
			pool, h := f.worker()
			got, err := hostexec.ProbeForwarding(t.Context(), h, f.sshd.Home)
			if err != nil {
				t.Fatal(err)
			}
			check := func(what string, err error, want string) {
				t.Helper()
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q in it", what, err, want)
				}
			}
			check("remote", got.Remote, c.remote)
			check("socket", got.Socket, c.socket)
			check("local", got.Local, c.local)
			if left, _ := os.ReadDir(f.sshd.Home); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			fw, err := pool.OpenForward(t.Context(), h, f.spec(1))
			check("open", err, c.remote)
			if err == nil {
				fw.Close()
			}
		})
	}
}

func TestDialReachesAPortOfTheHost(t *testing.T) {
	f := newForwarding(t)
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
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // the peer sees whether it worked
				_ = c.(*net.TCPConn).CloseWrite()
			}()
		}
	}()
	for name, h := range map[string]hostexec.Host{"sshd": f.host(), "local": localHost(t)} {
		c, err := hostexec.Dial(t.Context(), h, "tcp", l.Addr().String())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := exchange(c, "hello"); got != "hello" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		c.Close()
		if _, err := hostexec.Dial(t.Context(), h, "tcp", "127.0.0.1:1"); !errors.Is(err, hostexec.ErrNotAnswered) {
			t.Errorf("%s: nobody listens: %v", name, err)
		}
		if _, err := hostexec.Dial(t.Context(), h, "unix", f.sshd.Home+"/none"); err == nil {
			t.Errorf("%s: a socket that does not exist was reached", name)
		}
	}
}

func TestForwardsThatCannotBeAreRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	realparts.NotShort(t)
	good := hostexec.ForwardSpec{Name: "model", Fence: hostexec.Fence{Dir: "/tmp/s1", Epoch: hostexec.Epoch{Generation: 1}}}
	h := localHost(t)
	pool := newPool(t, hostexec.PoolOptions{})
	if _, err := pool.OpenForward(context.Background(), h, good); !errors.Is(err, hostexec.ErrUnsupported) {
		t.Errorf("this machine: %v", err)
	}
	for want, spoil := range map[string]func(*hostexec.ForwardSpec){
		"name":          func(s *hostexec.ForwardSpec) { s.Name = "../x" },
		"port 70000":    func(s *hostexec.ForwardSpec) { s.Port = 70000 },
		"one of them":   func(s *hostexec.ForwardSpec) { s.Port, s.Socket = 1, "/tmp/x" },
		"not a clean":   func(s *hostexec.ForwardSpec) { s.Socket = "/tmp/../x" },
		"108 bytes":     func(s *hostexec.ForwardSpec) { s.Socket = "/" + strings.Repeat("x", 107) },
		"9999":          func(s *hostexec.ForwardSpec) { s.MaxConns = 9999 },
		"absolute path": func(s *hostexec.ForwardSpec) { s.Fence.Dir = "x" },
	} {
		s := good
		spoil(&s)
		if _, err := pool.OpenForward(context.Background(), h, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}
