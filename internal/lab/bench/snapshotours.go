package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// asChild is the environment variable that makes this program run one task in
// its own process, so that the peak of its memory is only that task's.
const asChild = "FAIRLEAD_BENCH_SNAPSHOT"

// A task is one run of a child process.
type task struct {
	Host     protocol.HostSpec `json:"host"`
	Store    string            `json:"store"`
	Identity string            `json:"identity"`
	ID       string            `json:"id"`
	Parent   string            `json:"parent,omitempty"`
	Dir      string            `json:"dir"`               // the tree
	To       string            `json:"to,omitempty"`      // where it is restored to; empty: it is kept
	Profile  string            `json:"profile,omitempty"` // file name
	// Connected makes the worker dial the host before the clock starts.
	Connected bool `json:"connected,omitempty"`
}

// done is the child's report.
type done struct {
	Took time.Duration `json:"took"`
	Peak int64         `json:"peak"`
}

// ours returns Fairlead's own way, measured from the dial to the manifest, or
// to the last file, with nothing in the worker's memory. With connected, the
// worker already has its connection to the host, as it has just after a turn.
func ours(o *options, connected bool) keeper {
	identity, err := age.GenerateX25519Identity()
	run := func(ctx context.Context, s *site, dir, to string, next bool) (outcome, error) {
		if err != nil {
			return outcome{}, err
		}
		t := task{Host: s.host.Spec(), Store: filepath.Join(dir, "store"), Identity: identity.String(), Dir: s.tree.dir, To: to, Connected: connected}
		newest := filepath.Join(dir, "newest") // a worker has it in its workflow
		was, err := os.ReadFile(newest)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return outcome{}, err
		}
		what := "first"
		switch {
		case to != "":
			t.ID, what = string(was), "restore"
		default:
			t.ID, t.Parent = snapshots.NewID("bench", time.Now()), string(was)
			if next {
				what = "next"
			}
		}
		if o.profile != "" {
			t.Profile = filepath.Join(o.profile, fmt.Sprintf("snapshots-%s-%s.pprof", strings.Fields(s.name)[0], what))
			if err := os.MkdirAll(o.profile, 0o755); err != nil {
				return outcome{}, err
			}
		}
		got, err := s.child(ctx, t)
		return got, errors.Join(err, os.WriteFile(newest, []byte(t.ID), 0o600))
	}
	name := "ours"
	if connected {
		name = "ours, connected"
	}
	return keeper{
		name: name, ours: true,
		keep: func(ctx context.Context, s *site, dir string, n int) (outcome, error) {
			return run(ctx, s, dir, "", n > 0)
		},
		back: func(ctx context.Context, s *site, dir, to string) (outcome, error) {
			return run(ctx, s, dir, to, false)
		},
		stored: func(dir string) (int64, error) { return sizeOf(filepath.Join(dir, "store")) },
	}
}

func (s *site) child(ctx context.Context, t task) (o outcome, err error) {
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return o, err
	}
	before, err := s.spent(ctx)
	if err != nil {
		return o, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), asChild+"=1")
	cmd.Stdin = bytes.NewReader(text)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return o, fmt.Errorf("%w: %s", err, said.String())
	}
	var d done
	if err := json.Unmarshal(out, &d); err != nil {
		return o, fmt.Errorf("the child said %q: %w", out, err)
	}
	o = outcome{took: d.Took, memory: d.Peak}
	return o, s.since(ctx, before, cmd.ProcessState, &o)
}

// beChild runs the task on standard input.
func beChild(ctx context.Context) error {
	var t task
	if err := json.NewDecoder(os.Stdin).Decode(&t); err != nil {
		return err
	}
	if t.Profile != "" {
		f, err := os.Create(t.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		defer watchHeap(t.Profile + ".heap")()
	}
	took, err := t.do(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(done{took, peakOf("/proc/self")})
}

// watchHeap writes a heap profile to a file at every new maximum, until stop is
// called.
func watchHeap(file string) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		most := uint64(0)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapInuse > most+most/20 {
				most = m.HeapInuse
				if f, err := os.Create(file); err == nil {
					_, _ = fmt.Fprintf(os.Stderr, "heap: in use %d MB, idle %d MB, next collection at %d MB, stacks %d MB, of the runtime %d MB\n", m.HeapInuse>>20, (m.HeapIdle-m.HeapReleased)>>20, m.NextGC>>20, m.StackInuse>>20, (m.Sys-m.HeapSys-m.StackSys)>>20)
					_ = pprof.WriteHeapProfile(f)
					_ = f.Close()
				}
			}
			select {
			case <-end:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() { close(end); <-ended }
}

// do runs the task. It measures from the dial on or, if Connected, after it.
func (t *task) do(ctx context.Context) (took time.Duration, err error) {
	began := time.Now()
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	defer func() { err = errors.Join(err, pool.Close()) }()
	h, err := pool.Host(t.Host)
	if err != nil {
		return 0, err
	}
	if t.Connected {
		s, err := h.Start(ctx, hostexec.Command{Script: ":", Bulk: true})
		if err != nil {
			return 0, err
		}
		if err := s.Wait(); err != nil {
			return 0, err
		}
		began = time.Now()
	}
	err = t.keep(ctx, h)
	return time.Since(began), err
}

func (t *task) keep(ctx context.Context, h hostexec.Host) (err error) {
	identity, err := age.ParseX25519Identity(t.Identity)
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, store.Options{URL: "file://" + t.Store, Recipients: []age.Recipient{identity.Recipient()}, Identities: []age.Identity{identity}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	c := chunks.Open(st, chunks.Options{})
	if t.To == "" {
		_, err = snapshots.Take(ctx, h, c, snapshots.TakeSpec{ID: t.ID, Session: "bench", Parent: t.Parent,
			Facts: snapshots.Facts{Host: t.Host.Name}, Trees: []snapshots.TreeSpec{snapshots.WorkOf(t.Dir, snapshots.WorkFull, nil)}})
		return err
	}
	fence := hostexec.Fence{Dir: filepath.Dir(t.To), Epoch: hostexec.Epoch{Generation: 1}}
	_, err = snapshots.Restore(ctx, h, c, t.ID, snapshots.RestoreSpec{Dirs: map[string]string{snapshots.Work: t.To}, Fence: &fence})
	return err
}
