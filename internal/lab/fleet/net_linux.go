package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A netns is a network namespace. It ends with its guard process, and so with
// this one.
type netns struct {
	guard  *exec.Cmd
	alive  io.Closer // the guard's standard input
	relays []*relay
}

func newNetns() (*netns, error) {
	n := &netns{guard: exec.Command("unshare", "-n", "sh", "-c", `ip link set lo up && echo ready && read -r x`)}
	alive, err := n.guard.StdinPipe()
	if err != nil {
		return nil, err
	}
	n.alive = alive
	out, err := n.guard.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.guard.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		return nil, errors.Join(fmt.Errorf("make a network namespace (needs root): %q: %w", line, err), n.Close())
	}
	return n, nil
}

func (n *netns) pid() string { return strconv.Itoa(n.guard.Process.Pid) }

// enter returns the command line that runs words in the namespace.
func (n *netns) enter(words ...string) []string {
	return append([]string{"nsenter", "--net=/proc/" + n.pid() + "/ns/net", "--"}, words...)
}

func (n *netns) run(words ...string) (string, error) {
	words = n.enter(words...)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, out)
	}
	return string(out), nil
}

func (n *netns) runAll(lines string) error {
	for line := range strings.Lines(lines) {
		if words := strings.Fields(line); len(words) > 0 {
			if _, err := n.run(words...); err != nil {
				return err
			}
		}
	}
	return nil
}

// inside calls do on a thread in the namespace. Sockets that do creates stay in
// the namespace.
func (n *netns) inside(do func() error) error {
	done := make(chan error, 1)
	go func() {
		// The thread exits with this goroutine unless its namespace is
		// restored.
		runtime.LockOSThread()
		done <- func() error {
			here, err := os.Open("/proc/thread-self/ns/net")
			if err != nil {
				return err
			}
			defer here.Close()
			there, err := os.Open("/proc/" + n.pid() + "/ns/net")
			if err != nil {
				return err
			}
			defer there.Close()
			if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter a network namespace: %w", err)
			}
			err = do()
			if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back != nil {
				return errors.Join(err, back)
			}
			runtime.UnlockOSThread()
			return err
		}()
	}()
	return <-done
}

// A relay gives a namespace access to one port of this process, and nothing
// else, on the namespace's own loopback.
type relay struct {
	l  net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu; nil once closed
}

func (n *netns) relay(address string) error {
	r := &relay{conns: map[net.Conn]bool{}}
	err := n.inside(func() (err error) {
		r.l, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		return fmt.Errorf("relay %s: %w", address, err)
	}
	n.relays = append(n.relays, r)
	r.wg.Go(func() {
		for {
			c, err := r.l.Accept()
			if err != nil {
				return // closed
			}
			r.wg.Go(func() { r.serve(c, address) })
		}
	})
	return nil
}

func (r *relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		c.Close()
		return false
	}
	r.conns[c] = true
	return true
}

func (r *relay) drop(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	c.Close()
}

func (r *relay) serve(near net.Conn, address string) {
	if !r.keep(near) {
		return
	}
	defer r.drop(near)
	far, err := net.Dial("tcp", address)
	if err != nil {
		_ = near.(*net.TCPConn).SetLinger(0) // reset it, too
		return
	}
	if !r.keep(far) {
		return
	}
	defer r.drop(far)
	var both sync.WaitGroup
	both.Go(func() { pass(far, near) })
	both.Go(func() { pass(near, far) })
	both.Wait()
}

// pass copies until one side ends, and then ends the other.
func pass(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err != nil { // the connection was reset: reset the other direction, too
		to.Close()
		from.Close()
		return
	}
	_ = to.(*net.TCPConn).CloseWrite() // it may be closed
}

func (r *relay) close() {
	r.l.Close()
	r.mu.Lock()
	for c := range r.conns {
		c.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.wg.Wait()
}

func (n *netns) Close() error {
	for _, r := range n.relays {
		r.close()
	}
	n.alive.Close()
	_ = n.guard.Wait() // the status is that of a read that ended
	return nil
}

// A zone is a network in which its workers run. Only its own hosts can be
// reached from it; attempts to reach other hosts are counted.
type zone struct {
	*netns
	name string
	nr   int
}

const networks = "10.77.0.0/16"

func (z *zone) subnet() string         { return fmt.Sprintf("10.77.%d.0/24", z.nr) }
func (z *zone) address(n int) string   { return fmt.Sprintf("10.77.%d.%d", z.nr, n) }
func (z *zone) gateway() string        { return z.address(1) }
func linkOf(host string) (name string) { return "to-" + host }

func newZone(name string, nr int) (*zone, error) {
	n, err := newNetns()
	if err != nil {
		return nil, err
	}
	z := &zone{netns: n, name: name, nr: nr}
	err = n.runAll(fmt.Sprintf(`ip link add net0 type bridge
ip addr add %s/24 dev net0
ip link set net0 up
ip route add %s dev net0
iptables -w 20 -A OUTPUT -d %s -j ACCEPT
iptables -w 20 -A OUTPUT -d %s -j REJECT`, z.gateway(), networks, z.subnet(), networks))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("zone %s: %w", name, err), n.Close())
	}
	return z, nil
}

// join connects another namespace to the zone's network.
func (z *zone) join(n *netns, host, address string) error {
	err := z.runAll(fmt.Sprintf(`ip link add %[1]s type veth peer name eth0 netns %[2]s
ip link set %[1]s master net0
ip link set %[1]s up`, linkOf(host), n.pid()))
	if err != nil {
		return err
	}
	return n.runAll("ip addr add " + address + "/24 dev eth0\nip link set eth0 up")
}

func (z *zone) link(host string, up bool) error {
	_, err := z.run("ip", "link", "set", linkOf(host), map[bool]string{true: "up", false: "down"}[up])
	return err
}

// strays returns the number of packets that were sent to hosts of other zones.
func (z *zone) strays() (int, error) {
	text, err := z.run("iptables", "-w", "20", "-L", "OUTPUT", "-v", "-n", "-x")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "REJECT" {
			return strconv.Atoi(f[0])
		}
	}
	return 0, fmt.Errorf("zone %s has no rule that counts: %s", z.name, text)
}

func procs() map[int]int {
	out := map[int]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it has exited
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if err == nil && len(f) > 1 && f[0] != "Z" && f[0] != "X" {
			out[pid], _ = strconv.Atoi(f[1])
		}
	}
	return out
}

func below(parents map[int]int, root int) []int {
	var out []int
	for pid := range parents {
		for q, steps := parents[pid], 0; q > 1 && steps < 64; q, steps = parents[q], steps+1 {
			if q == root {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}
