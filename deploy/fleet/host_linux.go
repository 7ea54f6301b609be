package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"fairlead.dev/fairlead/deploy/lab"
)

// A host is a machine as far as Linux can make one of namespaces: it has
// processes, a network, a name and a boot id of its own, and it can be killed.
type host struct {
	*netns
	name  string
	zone  *zone
	nr    int // its address in the zone
	dir   string
	root  string
	guard *exec.Cmd    // ends the machine when we are gone
	alive io.Closer    // the guard's standard input
	init  atomic.Int64 // pid of its first process; 0 while it is off
}

// machine is the first process: it is given a name, a boot id and sshd.
const machine = `hostname "$1" && mount --bind "$2" /proc/sys/kernel/random/boot_id || exit 1
shift 2
"$@" </dev/null >/dev/null 2>&1 &
wait`

func newHost(ctx context.Context, z *zone, name string, nr int, dir string) (*host, error) {
	n, err := newNetns()
	if err != nil {
		return nil, err
	}
	h := &host{netns: n, name: name, zone: z, nr: nr, dir: filepath.Join(dir, "sshd-"+name), root: filepath.Join(dir, "host-"+name)}
	if err := h.make(ctx, filepath.Join(dir, "codex")); err != nil {
		return nil, errors.Join(fmt.Errorf("host %s: %w", name, err), h.Close())
	}
	return h, nil
}

// first is the pid of its first process, 0 while it is off.
func (h *host) first() int { return int(h.init.Load()) }

func (h *host) in(name string) string { return filepath.Join(h.dir, name) }
func (h *host) address() string       { return h.zone.address(h.nr) }

// make makes all that stays when the machine is killed.
func (h *host) make(ctx context.Context, codex string) error {
	err := errors.Join(os.MkdirAll(h.in("home"), 0o755), os.MkdirAll(h.root, 0o755), os.MkdirAll(codex, 0o755), os.MkdirAll("/run/sshd", 0o755),
		os.Symlink(codex, filepath.Join(h.root, "codex")), // one copy for all
		lab.WriteKey(ctx, h.in("host_key")), lab.WriteKey(ctx, h.in("identity")))
	if err != nil {
		return err
	}
	// sshd gives up who cannot be heard, later than any cut ends: without, what a
	// cut has left open would be there for as long as TCP keeps it, two hours.
	config := fmt.Sprintf(`ListenAddress %s
Port 22
HostKey %s
PidFile none
AuthorizedKeysFile %s
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
PrintMotd no
LogLevel VERBOSE
ClientAliveInterval 20
ClientAliveCountMax 3
Subsystem sftp internal-sftp
SetEnv HOME=%q
`, h.address(), h.in("host_key"), h.in("identity.pub"), h.in("home"))
	if err := os.WriteFile(h.in("sshd_config"), []byte(config), 0o644); err != nil {
		return err
	}
	return h.zone.join(h.netns, h.name, h.address())
}

// hostKey is what is pinned.
func (h *host) hostKey() (string, error) {
	data, err := os.ReadFile(h.in("host_key.pub"))
	f := strings.Fields(string(data))
	if err != nil || len(f) < 2 {
		return "", fmt.Errorf("read the key of %s: %q: %w", h.name, data, err)
	}
	return f[0] + " " + f[1], nil
}

// on starts the machine, with another boot id than it had.
func (h *host) on(ctx context.Context) error {
	if err := lab.NewBoot(h.in("boot")); err != nil {
		return err
	}
	words := h.enter("unshare", "--fork", "--kill-child", "--pid", "--mount-proc", "--uts", "--mount", "sh", "-c", machine, "sh",
		h.name, h.in("boot"), "/usr/sbin/sshd", "-D", "-f", h.in("sshd_config"), "-E", h.in("sshd.log"))
	h.guard = exec.Command("sh", append([]string{"-c", `"$@" </dev/null & echo $!; read -r x; kill -9 $!; wait`, "sh"}, words...)...)
	alive, err := h.guard.StdinPipe()
	if err != nil {
		return err
	}
	h.alive = alive
	out, err := h.guard.StdoutPipe()
	if err != nil {
		return err
	}
	if err := h.guard.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return errors.Join(err, h.off(ctx))
	}
	outer, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return errors.Join(err, h.off(ctx))
	}
	err = again(ctx, "the start of "+h.name, func(context.Context) error {
		parents := procs()
		for pid, parent := range parents {
			if parent == outer && listens(pid) {
				h.init.Store(int64(pid))
				return nil
			}
		}
		return errors.New("its sshd does not listen yet")
	})
	if err != nil {
		return errors.Join(err, h.off(ctx))
	}
	return nil
}

// listens says whether something listens on port 22 of a process's network.
func listens(pid int) bool {
	table, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], ":0016") && f[3] == "0A" {
			return true
		}
	}
	return false
}

// off ends the machine at once, with all that runs on it.
func (h *host) off(ctx context.Context) error {
	if h.guard == nil {
		return nil
	}
	if first := h.first(); first > 0 {
		_ = syscall.Kill(first, syscall.SIGKILL) // it may have ended
	}
	h.alive.Close()
	_ = h.guard.Wait() // its status is that of what was killed
	h.guard = nil
	h.init.Store(0)
	return again(ctx, "the end of "+h.name, func(context.Context) error {
		if listens(h.netns.guard.Process.Pid) {
			return errors.New("its sshd still listens")
		}
		return nil
	})
}

// sshds are the processes of sshd's, its listener first.
func (h *host) sshds() []int {
	parents := procs()
	var out []int
	for _, pid := range below(parents, h.first()) {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if !strings.HasPrefix(string(comm), "sshd") {
			continue
		}
		if parents[pid] == h.first() && strings.Contains(commandOf(pid), "/usr/sbin/sshd -D") {
			out = append([]int{pid}, out...)
		} else {
			out = append(out, pid)
		}
	}
	return out
}

// killSSHDs kills those that serve connections, and has nobody get in until
// what it returns is called: the listener stands still.
func (h *host) killSSHDs() (back func() error, err error) {
	pids := h.sshds()
	if len(pids) < 2 {
		return func() error { return nil }, fmt.Errorf("no sshd of %s serves anybody: there is nothing to kill", h.name)
	}
	if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
		return nil, err
	}
	for _, pid := range pids[1:] {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	return func() error { return syscall.Kill(pids[0], syscall.SIGCONT) }, nil
}

func commandOf(pid int) string {
	cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.TrimSpace(strings.ReplaceAll(string(cmd), "\x00", " "))
}

// servers are the codexes that serve sessions on a host, by its first process.
// One that has forked and is about to run a command is not another one.
func servers(parents map[int]int, first int) (out []int) {
	defer func() {
		all := slices.Clone(out)
		out = slices.DeleteFunc(out, func(pid int) bool { return slices.Contains(all, parents[pid]) })
	}()
	for _, pid := range below(parents, first) {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && filepath.Base(exe) == "codex" && strings.Contains(" "+commandOf(pid)+" ", " app-server ") {
			out = append(out, pid)
		}
	}
	return out
}

// sessionOf is the session that a process belongs to, by its mark.
func sessionOf(pid int) string {
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for kv := range strings.SplitSeq(string(env), "\x00") {
		if mark, ok := strings.CutPrefix(kv, "FAIRLEAD_SESSION="); ok {
			return mark
		}
	}
	return fmt.Sprintf("process %d", pid)
}

// left is what runs on the host beside its sshd, and what lies there of sessions.
func (h *host) left() []string {
	var out []string
	parents := procs()
	for _, pid := range below(parents, h.first()) {
		if cmd := commandOf(pid); cmd != "" && !(parents[pid] == h.first() && strings.Contains(cmd, "/usr/sbin/sshd -D")) {
			out = append(out, fmt.Sprintf("%s: process %d: %.200s", h.name, pid, cmd))
		}
	}
	// Of a session its epoch stays for a month, so that no former holder can
	// bring it back.
	dirs, _ := filepath.Glob(filepath.Join(h.root, "sessions", "[^.]*"))
	for _, d := range dirs {
		out = append(out, h.name+": "+d)
	}
	return out
}

// logins are those who were let in, by their addresses.
func (h *host) logins() (map[string]int, error) {
	data, err := os.ReadFile(h.in("sshd.log"))
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for line := range strings.Lines(string(data)) {
		if _, rest, ok := strings.Cut(line, "Accepted publickey for root from "); ok {
			from, _, _ := strings.Cut(rest, " ")
			out[from]++
		}
	}
	return out, nil
}

func (h *host) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(h.off(ctx), h.netns.Close())
}

// again does what may fail for a while, until it succeeds.
func again(ctx context.Context, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		try, stop := context.WithTimeout(ctx, 15*time.Second)
		err := do(try)
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// patience bounds every single step. The machine may be busy.
const patience = 4 * time.Minute

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
