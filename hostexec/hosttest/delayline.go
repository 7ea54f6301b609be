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

// A DelayLine is a link between this network namespace and another one. The other namespace
// can be reached only over the line. The line delays every packet. It can limit the rate,
// drop packets and reset connections. Real TCP runs on both ends. The line does not use
// netem, because many kernels do not have it.
//
// SSHDs run at its far end with Options.Behind, other programs with Command. The line ends
// with this process at the latest.
type DelayLine struct {
	near, far string
	tuns      [2]*os.File // near and far end
	guard     *exec.Cmd   // its network namespace is that of the far end
	alive     io.Closer   // the guard's standard input
	joined    sync.WaitGroup

	mu    sync.Mutex
	delay time.Duration // guarded by mu, like all below
	rates [2]bucket     // for the packets that each end sends
	drop  bool
	flows flows
}

// lineBurst is the number of bytes that a line with a rate lets through at once after a
// pause. lineQueue is the number of bytes that may wait. Further packets are dropped.
const lineBurst, lineQueue = 100 << 10, 100 << 10

// A bucket is the token bucket of one direction.
type bucket struct {
	rate  int       // bytes per second; 0 for no limit
	until time.Time // when all packets that were admitted so far have passed at that rate
}

// admit returns how long a packet waits for the bucket, or false if the queue
// is full.
func (b *bucket) admit(size int, now time.Time) (time.Duration, bool) {
	if b.rate == 0 {
		return 0, true
	}
	takes := func(bytes int) time.Duration { return time.Duration(bytes) * time.Second / time.Duration(b.rate) }
	if earliest := now.Add(-takes(lineBurst)); b.until.Before(earliest) {
		b.until = earliest
	}
	if b.until.Sub(now) > takes(lineQueue) {
		return 0, false
	}
	b.until = b.until.Add(takes(size))
	return max(0, b.until.Sub(now)), true
}

// NewDelayLine makes a line with the given delay in each direction. It needs root and
// /dev/net/tun.
func NewDelayLine(ctx context.Context, delay time.Duration) (*DelayLine, error) {
	// The addresses are a /30 of the block that RFC 2544 reserves for such tests.
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
	// A namespace without a name disappears with its last process.
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

// openTUN makes a network interface whose packets this process carries. The interface
// disappears when the file is closed.
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

// Far returns the address of the far end.
func (l *DelayLine) Far() string { return l.far }

// Near returns the address of this end. Programs at the far end reach listeners of this end
// there.
func (l *DelayLine) Near() string { return l.near }

// Command returns a program that runs at the far end.
func (l *DelayLine) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	words := l.there(append([]string{name}, args...)...)
	return exec.CommandContext(ctx, words[0], words[1:]...)
}

func (l *DelayLine) there(words ...string) []string {
	return append([]string{"nsenter", "--net=/proc/" + strconv.Itoa(l.guard.Process.Pid) + "/ns/net"}, words...)
}

// SetDelay changes the delay in each direction.
func (l *DelayLine) SetDelay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// SetRate limits the bytes per second in each direction; 0 means no limit.
// After a pause 100 KiB pass at once.
func (l *DelayLine) SetRate(bytesPerSecond int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.rates {
		l.rates[i] = bucket{rate: bytesPerSecond}
	}
}

// Drop silently drops all packets from now on, including those under way.
func (l *DelayLine) Drop() { l.setDrop(true) }

// Restore ends Drop.
func (l *DelayLine) Restore() { l.setDrop(false) }

func (l *DelayLine) setDrop(drop bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop = drop
}

// Reset resets every connection over the line at both ends, and returns the number of
// connections.
func (l *DelayLine) Reset() int {
	l.mu.Lock()
	n, resets := l.flows.cut()
	l.mu.Unlock()
	for _, r := range resets {
		// An end that misses the reset gets another one in answer to its next packet.
		l.tuns[r.end].Write(r.bytes)
	}
	return n
}

// Close removes the line. It does not close connections over the line.
func (l *DelayLine) Close() error {
	for _, t := range l.tuns {
		if t != nil {
			t.Close()
		}
	}
	l.joined.Wait()
	if l.alive != nil {
		l.alive.Close()
		l.guard.Wait() // the status is that of the guard's read command and means nothing
		l.alive = nil
	}
	return nil
}

// A packet is a packet on its way to an end of the line.
type packet struct {
	bytes []byte
	due   time.Time
}

// take reads the packets that an end sends.
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
		drop, now := l.drop, time.Now()
		wait, room := l.rates[end].admit(n, now)
		due := now.Add(l.delay + wait)
		l.mu.Unlock()
		switch {
		case drop, !room:
		case dead:
			if answer != nil {
				l.tuns[end].Write(answer)
			}
		default:
			select {
			case out <- packet{p, due}:
			default: // the queue is full: drop, as a router does
			}
		}
	}
}

// give delivers packets to an end when they are due.
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
