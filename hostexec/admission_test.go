package hostexec_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
)

// deadHosts are many addresses that accept connections. At first each shows a key that is
// not pinned, so that a dial fails at once. After silent is set they send nothing, so that
// a dial lasts until its deadline.
type deadHosts struct {
	t      *testing.T
	pool   *hostexec.Pool
	hosts  []hostexec.Host
	silent atomic.Bool
	held   atomic.Int64 // connections that get no answer
	ended  atomic.Int64 // commands that failed since silent was set

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	runs  sync.WaitGroup
}

func newDeadHosts(t *testing.T, pool *hostexec.Pool, like protocol.HostSpec, n int) *deadHosts {
	d := &deadHosts{t: t, pool: pool}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	other := &ssh.ServerConfig{NoClientAuth: true}
	other.AddHostKey(signer)
	var serving sync.WaitGroup
	t.Cleanup(func() { d.hangUp(); d.runs.Wait(); serving.Wait() })
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		serving.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				d.mu.Lock()
				d.conns = append(d.conns, c)
				d.mu.Unlock()
				if d.silent.Load() {
					d.held.Add(1)
					continue
				}
				_, _, _, _ = ssh.NewServerConn(c, other)
				_ = c.Close()
			}
		})
		t.Cleanup(func() { _ = l.Close() })
		spec := like
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		spec.Name, spec.Address = fmt.Sprintf("dead-%d", i), "127.0.0.1"
		if spec.Port, err = strconv.Atoi(port); err != nil {
			t.Fatal(err)
		}
		h, err := pool.Host(spec)
		if err != nil {
			t.Fatal(err)
		}
		d.hosts = append(d.hosts, h)
	}
	return d
}

// hangUp closes every connection. Later connections are answered again.
func (d *deadHosts) hangUp() {
	d.silent.Store(false)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		_ = c.Close()
	}
}

// failOnce makes one dial to each host, which fails.
func (d *deadHosts) failOnce() {
	d.t.Helper()
	for _, h := range d.hosts {
		if _, err := h.Run(d.t.Context(), hostexec.Command{Script: ":"}); err == nil {
			d.t.Fatalf("%s works", h.Name())
		}
	}
}

// hang runs a command on each host, and waits until atLeast dials are held.
func (d *deadHosts) hang(atLeast int64) {
	d.t.Helper()
	d.silent.Store(true)
	for _, h := range d.hosts {
		d.runs.Go(func() {
			_, _ = h.Run(d.t.Context(), hostexec.Command{Script: ":"})
			d.ended.Add(1)
		})
	}
	eventually(d.t, "they take up dials", func() bool { return d.held.Load() >= atLeast })
}

// mustNotHoldUp checks that a command on a host that answers ends while the dials to the
// dead hosts still wait.
func (d *deadHosts) mustNotHoldUp(spec protocol.HostSpec) {
	d.t.Helper()
	h, err := d.pool.Host(spec)
	if err == nil {
		_, err = h.Run(d.t.Context(), hostexec.Command{Script: ":"})
	}
	if err != nil {
		d.t.Fatal(err)
	}
	if n := d.ended.Load(); n != 0 {
		d.t.Errorf("the host that answers was reached after %d that do not had been given up", n)
	}
}

func TestHostsThatFailedDoNotHoldUpOneThatAnswers(t *testing.T) {
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	pool := newPool(t, hostexec.PoolOptions{})
	pool.SliceDials(time.Hour)
	d := newDeadHosts(t, pool, sshd.Spec(), 40)
	d.failOnce()
	d.hang(32)
	d.mustNotHoldUp(sshd.Spec())
}

func TestHostsThatTakeLongDoNotHoldUpOneThatAnswers(t *testing.T) {
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	pool := newPool(t, hostexec.PoolOptions{})
	pool.SliceDials(20 * time.Millisecond)
	d := newDeadHosts(t, pool, sshd.Spec(), 70)
	d.hang(32)
	d.mustNotHoldUp(sshd.Spec())
}

func TestAHostThatAnswersAgainIsReachedAmongThoseThatDoNot(t *testing.T) {
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	pool := newPool(t, hostexec.PoolOptions{})
	pool.SliceDials(20 * time.Millisecond)
	spec := sshd.Spec()
	d := newDeadHosts(t, pool, spec, 40)
	d.failOnce()
	if err := sshd.Stop(); err != nil {
		t.Fatal(err)
	}
	h, err := pool.Host(spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), hostexec.Command{Script: ":"}); err == nil {
		t.Fatal("it works although it is stopped")
	}
	if err := sshd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.hang(32)
	d.mustNotHoldUp(spec)
}

func TestWhatNobodyUsesIsForgotten(t *testing.T) {
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	pool.ShortenTimings(50*time.Millisecond, time.Minute)
	pool.ForgetAfter(0)
	held, err := pool.Host(sshd.Spec())
	if err != nil {
		t.Fatal(err)
	}
	works := func(want bool) {
		t.Helper()
		if _, err := held.Run(t.Context(), hostexec.Command{Script: ":"}); (err == nil) != want {
			t.Fatalf("it works: %v; want %v", err, want)
		}
	}
	works(true)
	another := sshd.Spec()
	for i := range 500 {
		another.Name, another.Address = fmt.Sprintf("never-%d", i), fmt.Sprintf("192.0.2.%d", i%250)
		if _, err := pool.Host(another); err != nil {
			t.Fatal(err)
		}
	}
	// When the pool gets a new host, it drops the earlier hosts that have no open
	// connections.
	if hosts, addresses := pool.Kept(); hosts > 2 || addresses != 0 {
		t.Errorf("%d hosts and %d addresses are kept; want 2 hosts at most", hosts, addresses)
	}
	eventually(t, "its connection is closed", func() bool { n, _ := hostexec.Connections(held); return n == 0 })
	another.Name = "one more"
	if _, err := pool.Host(another); err != nil {
		t.Fatal(err)
	}
	if hosts, _ := pool.Kept(); hosts != 1 {
		t.Fatalf("%d hosts are kept; want the newest alone", hosts)
	}
	// A caller that still has the host can use it, although another caller got a new Host
	// for the same spec.
	fresh, err := pool.Host(sshd.Spec())
	if err != nil {
		t.Fatal(err)
	}
	if fresh == held {
		t.Fatal("it was not forgotten")
	}
	works(true)
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	works(false) // the pool has closed it
}
