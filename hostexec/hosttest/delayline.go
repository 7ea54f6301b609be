package hosttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A DelayLine is a network of two: here, and a network namespace that can be
// reached from here over it alone. Every packet takes its time; packets can be
// made to vanish, and connections be ended by RST. Real TCP runs on both ends;
// the line itself is ours, since many kernels have no netem.
//
// SSHDs run at its far end with Options.Behind, other programs with Command.
// Nothing of it outlives this process.
type DelayLine struct {
	near, far string
	tuns      [2]*os.File // what is here, what is there
	guard     *exec.Cmd   // its network namespace is the far end
	alive     io.Closer   // the guard's standard input
	joined    sync.WaitGroup

	mu    sync.Mutex
	delay time.Duration // guarded by mu, like all below
	drop  bool
	flows flows
}

// NewDelayLine makes a line on which a packet takes that long each way. It
// needs root and /dev/net/tun.
func NewDelayLine(ctx context.Context, delay time.Duration) (*DelayLine, error) {
	// A /30 of the block that is reserved for such tests (RFC 2544).
	n := rand.IntN(1 << 15)
	net := fmt.Sprintf("198.%d.%d.", 18+n>>14, n>>6&255)
	l := &DelayLine{delay: delay, near: net + strconv.Itoa(n&63*4+1), far: net + strconv.Itoa(n&63*4+2)}
	if err := l.make(ctx, n); err != nil {
		return nil, errors.Join(fmt.Errorf("make a delay line (needs root and /dev/net/tun): %w", err), l.Close())
	}
	for i := range l.tuns {
		packets := make(chan packet, 1<<14)
		l.joined.Go(func() { l.take(i, packets) })
		l.joined.Go(func() { l.give(1-i, packets) })
	}
	return l, nil
}

func (l *DelayLine) make(ctx context.Context, n int) error {
	// A namespace without a name goes with the last process in it.
	l.guard = exec.Command("unshare", "-n", "sh", "-c", `echo ready; read -r x`)
	alive, err := l.guard.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := l.guard.StdoutPipe()
	if err != nil {
		return err
	}
	if err := l.guard.Start(); err != nil {
		l.guard = nil
		return err
	}
	l.alive = alive
	if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	names := [2]string{fmt.Sprintf("fl%dn", n), fmt.Sprintf("fl%df", n)}
	for i, name := range names {
		if l.tuns[i], err = openTUN(name); err != nil {
			return err
		}
	}
	ns := strconv.Itoa(l.guard.Process.Pid)
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(ctx, "ip", "link", "set", names[1], "netns", ns),
		exec.CommandContext(ctx, "ip", "addr", "add", l.near, "peer", l.far, "dev", names[0]),
		exec.CommandContext(ctx, "ip", "link", "set", names[0], "up"),
		l.Command(ctx, "ip", "addr", "add", l.far, "peer", l.near, "dev", names[1]),
		l.Command(ctx, "ip", "link", "set", names[1], "up"),
		l.Command(ctx, "ip", "link", "set", "lo", "up"),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
		}
	}
	return nil
}

// openTUN makes a network interface whose packets are ours to carry. It goes
// with the file.
func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make interface %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Far is the address of the far end.
func (l *DelayLine) Far() string { return l.far }

// Near is the address of this end: what listens on it can be reached from there.
func (l *DelayLine) Near() string { return l.near }

// Command returns a program that runs at the far end.
func (l *DelayLine) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	words := l.there(append([]string{name}, args...)...)
	return exec.CommandContext(ctx, words[0], words[1:]...)
}

func (l *DelayLine) there(words ...string) []string {
	return append([]string{"nsenter", "--net=/proc/" + strconv.Itoa(l.guard.Process.Pid) + "/ns/net"}, words...)
}

// SetDelay changes how long a packet takes each way.
func (l *DelayLine) SetDelay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// Drop makes every packet vanish from now on, also those under way; nobody is told.
func (l *DelayLine) Drop() { l.setDrop(true) }

// Restore ends Drop.
func (l *DelayLine) Restore() { l.setDrop(false) }

func (l *DelayLine) setDrop(drop bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop = drop
}

// Reset ends every connection over the line by RST, at both ends, and returns
// how many there were.
func (l *DelayLine) Reset() int {
	l.mu.Lock()
	n, resets := l.flows.cut()
	l.mu.Unlock()
	for _, r := range resets {
		// What it does not reach is answered when it next says something.
		l.tuns[r.end].Write(r.bytes)
	}
	return n
}

// Close takes the line away; connections over it are left without a word.
func (l *DelayLine) Close() error {
	for _, t := range l.tuns {
		if t != nil {
			t.Close()
		}
	}
	l.joined.Wait()
	if l.alive != nil {
		l.alive.Close()
		l.guard.Wait() // its status is that of a read that ended
		l.alive = nil
	}
	return nil
}

// A packet is on its way to an end.
type packet struct {
	bytes []byte
	due   time.Time
}

// take reads what an end sends.
func (l *DelayLine) take(end int, out chan<- packet) {
	defer close(out)
	buf := make([]byte, 64<<10)
	for {
		n, err := l.tuns[end].Read(buf)
		if err != nil {
			return
		}
		p := append([]byte(nil), buf[:n]...)
		l.mu.Lock()
		answer, dead := l.flows.see(end, p)
		drop, due := l.drop, time.Now().Add(l.delay)
		l.mu.Unlock()
		switch {
		case drop:
		case dead:
			if answer != nil {
				l.tuns[end].Write(answer)
			}
		default:
			select {
			case out <- packet{p, due}:
			default: // a full queue drops, as a router's does
			}
		}
	}
}

// give brings packets to an end when they are due.
func (l *DelayLine) give(end int, in <-chan packet) {
	for p := range in {
		time.Sleep(time.Until(p.due))
		l.mu.Lock()
		vanishes := l.drop || l.flows.isCut(p.bytes)
		l.mu.Unlock()
		if !vanishes {
			l.tuns[end].Write(p.bytes)
		}
	}
}
