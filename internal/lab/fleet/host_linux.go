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

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
)

// A host is a machine made of Linux namespaces: it has its own processes,
// network, name and boot id, and it can be killed.
type host struct {
	*netns
	name  string
	zone  *zone
	nr    int // determines its address in the zone
	dir   string
	root  string
	guard *exec.Cmd    // ends the machine when this process is gone
	alive io.Closer    // the guard's standard input
	init  atomic.Int64 // pid of its first process; 0 while it is off
}

// machine is the script of the first process: it sets the name and the boot id
// and runs sshd.
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

// first returns the pid of the host's first process; 0 while it is off.
func (h *host) first() int { return int(h.init.Load()) }

func (h *host) in(name string) string { return filepath.Join(h.dir, name) }
func (h *host) address() string       { return h.zone.address(h.nr) }

// make creates everything that survives the end of the machine.
func (h *host) make(ctx context.Context, codex string) error {
	err := errors.Join(os.MkdirAll(h.in("home"), 0o755), os.MkdirAll(h.root, 0o755), os.MkdirAll(codex, 0o755), os.MkdirAll("/run/sshd", 0o755),
		os.Symlink(codex, filepath.Join(h.root, "codex")), // one copy for all
		lab.WriteKey(ctx, h.in("host_key")), lab.WriteKey(ctx, h.in("identity")))
	if err != nil {
		return err
	}
	// sshd drops a silent client later than any cut ends. Without this, a
	// connection that was cut would stay for as long as TCP keeps it, two
	// hours.
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

func (h *host) hostKey() (string, error) {
	data, err := os.ReadFile(h.in("host_key.pub"))
	f := strings.Fields(string(data))
	if err != nil || len(f) < 2 {
		return "", fmt.Errorf("read the key of %s: %q: %w", h.name, data, err)
	}
	return f[0] + " " + f[1], nil
}

// on starts the machine with a new boot id.
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
	err = scenario.Again(ctx, "the start of "+h.name, func(context.Context) error {
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

func listens(pid int) bool {
	table, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], ":0016") && f[3] == "0A" {
			return true
		}
	}
	return false
}

// off kills the machine and all its processes.
func (h *host) off(ctx context.Context) error {
	if h.guard == nil {
		return nil
	}
	if first := h.first(); first > 0 {
		_ = syscall.Kill(first, syscall.SIGKILL) // it may have exited
	}
	h.alive.Close()
	_ = h.guard.Wait() // the status is that of the killed process
	h.guard = nil
	h.init.Store(0)
	return scenario.Again(ctx, "the end of "+h.name, func(context.Context) error {
		if listens(h.netns.guard.Process.Pid) {
			return errors.New("its sshd still listens")
		}
		return nil
	})
}

// sshds returns the sshd processes, the listener first.
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

// killSSHDs kills the sshd processes that serve connections and stops the
// listener, so that nobody can log in until back is called.
func (h *host) killSSHDs() (back func() error, err error) {
	pids := h.sshds()
	if len(pids) < 2 {
		return func() error { return nil }, fmt.Errorf("no sshd of %s serves anybody: there is nothing to kill", h.name)
	}
	if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
		return nil, err
	}
	for _, pid := range pids[1:] {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have exited
	}
	return func() error { return syscall.Kill(pids[0], syscall.SIGCONT) }, nil
}

func commandOf(pid int) string {
	cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.TrimSpace(strings.ReplaceAll(string(cmd), "\x00", " "))
}

// servers returns the codex processes that serve sessions on a host, given its
// first process. A forked child that is about to exec is not counted.
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

func sessionOf(pid int) string {
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for kv := range strings.SplitSeq(string(env), "\x00") {
		if mark, ok := strings.CutPrefix(kv, "FAIRLEAD_SESSION="); ok {
			return mark
		}
	}
	return fmt.Sprintf("process %d", pid)
}

// left returns the processes on the host other than sshd, and the folders of
// sessions.
func (h *host) left() []string {
	var out []string
	parents := procs()
	for _, pid := range below(parents, h.first()) {
		if cmd := commandOf(pid); cmd != "" && !(parents[pid] == h.first() && strings.Contains(cmd, "/usr/sbin/sshd -D")) {
			out = append(out, fmt.Sprintf("%s: process %d: %.200s", h.name, pid, cmd))
		}
	}
	// Only a session's epoch stays, for a month, so that no former holder can
	// bring the session back.
	dirs, _ := filepath.Glob(filepath.Join(h.root, "sessions", "[^.]*"))
	rooms, _ := filepath.Glob(filepath.Join(h.root, "rooms", "?", "?", "?", "?", "holder"))
	dirs = append(dirs, rooms...)
	for _, d := range dirs {
		out = append(out, h.name+": "+d)
	}
	return out
}

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
