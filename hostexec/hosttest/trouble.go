package hosttest

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
	"sync"
	"syscall"
)

// DropPort drops every packet from and to a TCP port on loopback. As with a pulled cable,
// the peers are not told. restore undoes it and returns an error if that fails. It is also
// undone when this process ends in any way. DropPort needs iptables and root.
func DropPort(ctx context.Context, port int) (restore func() error, err error) {
	restore, err = guarded(ctx, `
rule() {
	iptables -w 60 "$1" INPUT -i lo -p tcp --dport "$2" -j DROP &&
		iptables -w 60 "$1" INPUT -i lo -p tcp --sport "$2" -j DROP
}
rule -I "$1" || { rule -D "$1"; exit 1; }
echo done
read -r x
rule -D "$1"`, strconv.Itoa(port))
	if err != nil {
		return nil, fmt.Errorf("drop packets of port %d (needs iptables and root): %w", port, err)
	}
	return restore, nil
}

// SmallDisk mounts an empty file system of the given size on a folder, until unmount is
// called or this process ends in any way. It needs root.
func SmallDisk(ctx context.Context, dir string, bytes int64) (unmount func() error, err error) {
	unmount, err = guarded(ctx, `
mount -t tmpfs -o "size=$2,mode=755" fairlead-small "$1" || exit 1
echo done
read -r x
umount -l "$1"`, dir, strconv.FormatInt(bytes, 10))
	if err != nil {
		return nil, fmt.Errorf("mount a small disk on %s (needs root): %w", dir, err)
	}
	return unmount, nil
}

// Overlay mounts an empty overlay file system on a folder, like the root of a container. As
// with SmallDisk, it stays until unmount is called or this process ends. Overlay needs
// root.
func Overlay(ctx context.Context, dir string) (unmount func() error, err error) {
	// The layers are on a tmpfs, because they must not be on an overlay
	// themselves. Their paths are relative, because mount interprets special
	// characters in paths.
	unmount, err = guarded(ctx, `
mount -t tmpfs -o mode=755 fairlead-layers "$1" && cd "$1" && mkdir lower upper work &&
	mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work fairlead-overlay "$1" || { cd /; umount -l "$1"; exit 1; }
cd /
echo done
read -r x
umount -l "$1"
umount -l "$1"`, dir)
	if err != nil {
		return nil, fmt.Errorf("mount an overlay on %s (needs root): %w", dir, err)
	}
	return unmount, nil
}

// ReadOnly makes a folder read-only, also for root, like a disk that the kernel remounted
// after an error. This lasts until restore is called or this process ends. ReadOnly needs
// root.
func ReadOnly(ctx context.Context, dir string) (restore func() error, err error) {
	restore, err = guarded(ctx, `
mount --bind "$1" "$1" || exit 1
mount -o remount,bind,ro "$1" || { umount -l "$1"; exit 1; }
echo done
read -r x
umount -l "$1"`, dir)
	if err != nil {
		return nil, fmt.Errorf("make %s read-only (needs root): %w", dir, err)
	}
	return restore, nil
}

// guarded runs a script that causes a fault, prints "done", waits for the end of its input
// and undoes the fault. Signals to the group of this process do not reach the script.
func guarded(ctx context.Context, script string, args ...string) (undo func() error, err error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", "PATH=$PATH:/usr/sbin:/sbin; trap '' HUP INT TERM PIPE\n" + script, "sh"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	undo = sync.OnceValue(func() error {
		stdin.Close()
		io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("take it back: %w: %s", err, stderr.String())
		}
		return nil
	})
	said := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err == nil && line != "done\n" {
			err = fmt.Errorf("it said %q", line)
		}
		said <- err
	}()
	select {
	case err = <-said:
	case <-ctx.Done():
		err = context.Cause(ctx)
		// The script may still cause the fault after the caller has given up, and then
		// undoes it at once.
		stdin.Close()
		<-said
	}
	if err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}

// ResetPort resets every connection to a local TCP port and returns the number of
// connections. It needs ss, root, and a kernel with CONFIG_INET_DIAG_DESTROY.
func ResetPort(ctx context.Context, port int) (int, error) {
	fail := func(err error) (int, error) {
		return 0, fmt.Errorf("reset the connections of port %d (needs ss, root, and CONFIG_INET_DIAG_DESTROY): %w", port, err)
	}
	had, err := PortConnections(port)
	if err != nil {
		return fail(err)
	}
	out, err := exec.CommandContext(ctx, "ss", "-K", "-tnH", "state", "established", "sport", "=", ":"+strconv.Itoa(port)).CombinedOutput()
	if err != nil {
		return fail(fmt.Errorf("%w: %s", err, out))
	}
	for _, pair := range had {
		if left, err := PortConnections(port); err != nil || left[pair.peer] == pair {
			return fail(errors.Join(err, fmt.Errorf("%s is still connected", pair.peer)))
		}
	}
	return len(had), nil
}

// A Connection is a connection that a local TCP port has accepted.
type Connection struct {
	peer  string
	inode string // of the socket
}

// PortConnections returns the established connections to a local TCP port, by
// the peer's address.
func PortConnections(port int) (map[string]Connection, error) {
	return portConnections("/proc/net", port)
}

func portConnections(tables string, port int) (map[string]Connection, error) {
	found := make(map[string]Connection)
	for _, table := range []string{"tcp", "tcp6"} {
		data, err := os.ReadFile(filepath.Join(tables, table))
		if errors.Is(err, os.ErrNotExist) {
			continue // this machine has no IPv6
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "01" || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				continue
			}
			found[f[2]] = Connection{peer: f[2], inode: f[9]}
		}
	}
	return found, nil
}

// Drop drops all packets from and to the host; see DropPort. Behind a
// DelayLine, Drop and Reset use the line.
func (s *SSHD) Drop(ctx context.Context) (restore func() error, err error) {
	if l := s.opts.Behind; l != nil {
		l.Drop()
		return func() error { l.Restore(); return nil }, nil
	}
	return DropPort(ctx, s.port)
}

// Reset resets every connection to the host; see ResetPort.
func (s *SSHD) Reset(ctx context.Context) (int, error) {
	if l := s.opts.Behind; l != nil {
		return l.Reset(), nil
	}
	return ResetPort(ctx, s.port)
}

// Connections returns the number of connections to the host.
func (s *SSHD) Connections() (int, error) {
	c, err := portConnections("/proc/"+strconv.Itoa(s.pid)+"/net", s.port)
	return len(c), err
}

// RestartListener kills the listener and starts another one on the same port, with the
// current configuration. Processes that serve connections stay, as when an sshd is
// upgraded.
func (s *SSHD) RestartListener(ctx context.Context) error {
	if s.guard == nil {
		return errors.New("sshd is not running")
	}
	// Stop the listener first, so that it starts no more children.
	syscall.Kill(s.pid, syscall.SIGSTOP)
	orphans := make(map[int]string)
	for _, p := range s.sessions() {
		if start, ok := startTime(p); ok {
			orphans[p] = start
		}
	}
	s.orphans = orphans
	kill(s.pid)
	s.alive.Close()
	s.guard.Wait() // the status is that of the killed listener
	s.guard, s.pid = nil, 0
	return s.Start(ctx)
}

func (s *SSHD) sessions() []int {
	roots := []int{s.pid}
	for pid, start := range s.orphans {
		if now, ok := startTime(pid); ok && now == start {
			roots = append(roots, pid)
		}
	}
	var found []int
	for _, root := range roots {
		for _, p := range append(descendants(root), root) {
			if p != s.pid && isSSHD(p) && !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	return found
}

// ThawSessions resumes the processes that FreezeSessions stopped, and returns their number.
func (s *SSHD) ThawSessions() int {
	n := 0
	for _, p := range s.sessions() {
		if syscall.Kill(p, syscall.SIGCONT) == nil {
			n++
		}
	}
	return n
}
