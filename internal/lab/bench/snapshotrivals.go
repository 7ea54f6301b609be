package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
)

// A keeper is a way to keep a tree that is on a host, and to restore it.
type keeper struct {
	name string
	ours bool // a way of Fairlead's
	// keep brings the tree to the worker. dir is what it keeps between runs,
	// empty at first.
	keep func(ctx context.Context, s *site, dir string, n int) (outcome, error)
	// back restores what was kept last into a folder on the host.
	back func(ctx context.Context, s *site, dir, to string) (outcome, error)
	// stored returns the size of the copy itself in dir.
	stored func(dir string) (int64, error)
	// whole: it keeps everything each time.
	whole bool
}

type outcome struct {
	took, cpu    time.Duration
	wire, memory int64
}

// A site is a host with a tree, reached over loopback or a slow line.
type site struct {
	name, dir string
	tree      *workTree
	host      *hosttest.SSHD // has the tree
	worker    *hosttest.SSHD // receives restic's repository from the host
	workerIP  string         // as the host sees it
	meters    []*hosttest.WireMeter
}

// ssh returns the command line of OpenSSH's client for a server of the site.
func (s *site) ssh(d *hosttest.SSHD, ip string) []string {
	return []string{"ssh", "-F", "none", "-T", "-i", d.Identity(), "-o", "IdentitiesOnly=yes", "-o", "UserKnownHostsFile=" + filepath.Join(s.dir, "known_hosts"),
		"-p", strconv.Itoa(d.Spec().Port), d.User() + "@" + ip}
}

func (s *site) toHost() []string { return s.ssh(s.host, s.host.Spec().Address) }

func (s *site) know() error {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s]:%d %s\n", s.host.Spec().Address, s.host.Spec().Port, s.host.HostKey())
	fmt.Fprintf(&b, "[%s]:%d %s\n", s.workerIP, s.worker.Spec().Port, s.worker.HostKey())
	return os.WriteFile(filepath.Join(s.dir, "known_hosts"), []byte(b.String()), 0o600)
}

func (s *site) bytes(ctx context.Context) (n int64, err error) {
	for _, m := range s.meters {
		k, err := m.Bytes(ctx)
		if err != nil {
			return 0, err
		}
		n += k
	}
	return n, nil
}

// spent returns the bytes on the wire and the hosts' processor time so far.
func (s *site) spent(ctx context.Context) (o outcome, err error) {
	for _, d := range []*hosttest.SSHD{s.host, s.worker} {
		cpu, err := d.CPU(ctx)
		if err != nil {
			return o, err
		}
		o.cpu += cpu
	}
	o.wire, err = s.bytes(ctx)
	return o, err
}

// since sets what was spent since then, including a program on the worker's
// side that has exited.
func (s *site) since(ctx context.Context, then outcome, p *os.ProcessState, o *outcome) error {
	now, err := s.spent(ctx)
	o.cpu = now.cpu - then.cpu + p.UserTime() + p.SystemTime()
	o.wire = now.wire - then.wire
	return err
}

// rivals are tools that anybody has at hand. rsync makes a mirror, without
// older states, digests or encryption. restic runs on the host, where it finds
// changes without sending anything, and keeps its repository on the worker over
// sftp. That is the best way to use it, but it needs restic on every host, and
// every host must be able to log in at the worker and to read and write the
// repository. tar and zstd send everything every time; zstd runs on the host,
// so that the data is compressed on the wire.
var rivals = []keeper{
	{
		name: "rsync -a",
		keep: func(ctx context.Context, s *site, dir string, _ int) (outcome, error) {
			ssh := s.toHost()
			return s.timed(ctx, "rsync", "-a", "--delete", "-e", shell(ssh[:len(ssh)-1]), ssh[len(ssh)-1]+":"+s.tree.dir+"/", dir+"/mirror/")
		},
		back: func(ctx context.Context, s *site, dir, to string) (outcome, error) {
			ssh := s.toHost()
			return s.timed(ctx, "rsync", "-a", "-e", shell(ssh[:len(ssh)-1]), dir+"/mirror/", ssh[len(ssh)-1]+":"+to+"/")
		},
		stored: func(dir string) (int64, error) { return sizeOf(dir + "/mirror") },
	},
	{
		name: "restic (on the host, sftp)",
		keep: func(ctx context.Context, s *site, dir string, n int) (outcome, error) {
			if n == 0 { // create the repository once
				if _, err := s.timed(ctx, append(s.toHost(), s.restic(dir, "init"))...); err != nil {
					return outcome{}, err
				}
			}
			return s.timed(ctx, append(s.toHost(), "cd "+quote(s.tree.dir)+" && "+s.restic(dir, "backup", "."))...)
		},
		back: func(ctx context.Context, s *site, dir, to string) (outcome, error) {
			return s.timed(ctx, append(s.toHost(), s.restic(dir, "restore", "latest", "--target", to))...)
		},
		stored: func(dir string) (int64, error) { return sizeOf(dir + "/repo") },
	},
	{
		name:  "tar | zstd",
		whole: true,
		keep: func(ctx context.Context, s *site, dir string, n int) (outcome, error) {
			line := shell(append(s.toHost(), "tar -C "+quote(s.tree.dir)+" -cf - . | zstd -q")) + " >" + quote(dir+"/tree.tar.zst")
			return s.timed(ctx, "bash", "-o", "pipefail", "-c", line)
		},
		back: func(ctx context.Context, s *site, dir, to string) (outcome, error) {
			line := shell(append(s.toHost(), "mkdir -p "+quote(to)+" && zstd -q -d | tar -C "+quote(to)+" -xpf -")) + " <" + quote(dir+"/tree.tar.zst")
			return s.timed(ctx, "bash", "-o", "pipefail", "-c", line)
		},
		stored: func(dir string) (int64, error) { return sizeOf(dir) },
	},
}

func (s *site) restic(dir string, args ...string) string {
	sftp := shell(append(s.ssh(s.worker, s.workerIP), "-s", "sftp"))
	return "RESTIC_PASSWORD=bench " + shell(append([]string{"restic", "-q", "--cache-dir", dir + "/cache-on-the-host",
		"-r", "sftp:worker:" + dir + "/repo", "-o", "sftp.command=" + sftp}, args...))
}

func shell(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, quote(w))
	}
	return strings.Join(out, " ")
}

func (s *site) timed(ctx context.Context, words ...string) (o outcome, err error) {
	before, err := s.spent(ctx)
	if err != nil {
		return o, err
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	var said bytes.Buffer
	cmd.Stderr, cmd.Stdout = &said, &said
	peak := watchMemory(s.dir)
	began := time.Now()
	err = cmd.Run()
	o.took, o.memory = time.Since(began), peak()
	if err != nil {
		return o, fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, said.String())
	}
	return o, s.since(ctx, before, cmd.ProcessState, &o)
}

// watchMemory watches the rivals' processes on both sides and returns a
// function that stops and returns the largest peak. The kernel keeps each
// process's peak, so occasional samples are enough.
func watchMemory(dir string) func() int64 {
	var peak atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, n := range rivalPeaks(dir) {
				peak.Store(max(peak.Load(), n))
			}
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-done
		return peak.Load()
	}
}

func rivalPeaks(dir string) (peaks []int64) {
	procs, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, p := range procs {
		comm, _ := os.ReadFile(p) // a process that has just exited has none
		switch strings.TrimSpace(string(comm)) {
		case "rsync", "restic", "tar", "zstd":
			proc := filepath.Dir(p)
			cmd, _ := os.ReadFile(proc + "/cmdline")
			cwd, _ := os.Readlink(proc + "/cwd")
			if bytes.Contains(cmd, []byte(dir)) || strings.HasPrefix(cwd, dir) || strings.HasPrefix(string(cmd), "zstd") {
				peaks = append(peaks, peakOf(proc))
			}
		}
	}
	return peaks
}

func peakOf(proc string) int64 {
	data, _ := os.ReadFile(proc + "/status")
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64) // in kB
			return n << 10
		}
	}
	return 0
}
