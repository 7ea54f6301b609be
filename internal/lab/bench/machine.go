package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/lab"
)

// tickRate is the kernel's USER_HZ, 100 on every Linux that Go runs on.
const tickRate = 100

// A usage is the processor time of the machine's processes so far.
type usage struct {
	at time.Time
	by map[string]float64 // seconds, by kind of process
}

// kinds maps the names of processes to kinds; all others are "other".
var kinds = map[string]string{
	"worker": "worker", "devserver": "temporal", "codex": "codex", "sshd": "sshd", "sshd-session": "sshd", "tail": "tail",
	"cat": "shells", "sh": "shells", "sleep": "shells", "dash": "shells", "bash": "shells", "bench": "bench",
}

func processorTime() usage {
	u := usage{at: time.Now(), by: map[string]float64{}}
	procs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, p := range procs {
		data, err := os.ReadFile(p)
		if err != nil {
			continue // it has exited
		}
		text := string(data)
		i, j := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		f := strings.Fields(text[j+1:])
		if i < 0 || len(f) < 13 {
			continue
		}
		user, _ := strconv.ParseFloat(f[11], 64)
		system, _ := strconv.ParseFloat(f[12], 64)
		kind := kinds[text[i+1:j]]
		if kind == "" {
			kind = "other"
		}
		u.by[kind] += (user + system) / tickRate
	}
	return u
}

// since returns the use since before, in processors. Processes that exited
// meanwhile are not counted.
func (u usage) since(before usage) string {
	d := u.at.Sub(before.at).Seconds()
	type share struct {
		kind string
		n    float64
	}
	var all []share
	total := 0.0
	for kind, s := range u.by {
		if n := (s - before.by[kind]) / d; n >= 0.005 {
			all, total = append(all, share{kind, n}), total+n
		}
	}
	slices.SortFunc(all, func(a, b share) int { return int(1000 * (b.n - a.n)) })
	var parts []string
	for _, s := range all {
		parts = append(parts, fmt.Sprintf("%s %.2f", s.kind, s.n))
	}
	return fmt.Sprintf("%.2f processors: %s", total, strings.Join(parts, ", "))
}

func mib(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

func connections(port string) int {
	n, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	data, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0
	}
	count := 0
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) > 3 && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", n)) && f[3] == "01" {
			count++
		}
	}
	return count
}

// sweep kills what is left of a lab with hundreds of sessions, because closing
// each of them would take longer than the measurement. It kills only processes
// that work below the lab's folder.
func sweep(l *lab.Lab) error {
	for range 50 {
		left := lab.Below(l.Dir)
		if len(left) == 0 {
			return nil
		}
		sort.Strings(left)
		for _, p := range left {
			word, _, _ := strings.Cut(p, " ")
			pid, err := strconv.Atoi(word)
			if err != nil {
				return fmt.Errorf("process %q: %w", p, err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("end %s: %w", p, err)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("of the lab in %s there still runs %s", l.Dir, strings.Join(lab.Below(l.Dir), ", "))
}

func profile(ctx context.Context, address, dir, name string, over time.Duration) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, int(over.Seconds()))
	if name == "heap" || name == "goroutine" {
		url = fmt.Sprintf("http://%s/debug/pprof/%s", address, name)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	f, err := os.Create(filepath.Join(dir, name+".pprof"))
	if err != nil {
		return err
	}
	_, err = f.ReadFrom(resp.Body)
	return errors.Join(err, f.Close())
}
