package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

var zoneNames = []string{"default", "far"}

const slots = 3

func hostNames() []string { return []string{"near-1", "near-2", "far-1", "far-2"} }

func zoneOf(host string) string {
	if strings.HasPrefix(host, "near-") {
		return zoneNames[0]
	}
	return zoneNames[1]
}

type fleet struct {
	*lab.Lab
	temporal client.Client
	say      func(format string, args ...any)
	effects  string // the folder that commands write to
	zones    map[string]*zone
	hosts    map[string]*host
	ended    atomic.Int64 // number of items
	over     atomic.Bool  // the batch is over

	mu      sync.Mutex
	workers []*lab.Worker // guarded by mu, the oldest first
	started int           // workers; guarded by mu
	badly   []string      // drained workers that failed; guarded by mu
}

func newFleet(ctx context.Context, repo string, say func(string, ...any)) (f *fleet, err error) {
	f = &fleet{say: say, zones: map[string]*zone{}, hosts: map[string]*host{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	// Not below the temporary folders, to which a sandbox gives access anyway.
	if f.effects, err = os.MkdirTemp("/var/tmp", "fairlead-effects-"); err != nil {
		return f, err
	}
	if f.Lab, err = lab.New(ctx, lab.Options{Repo: repo, Script: script(f.effects), Workers: -1}); err != nil {
		return f, err
	}
	if f.temporal, err = f.Lab.Temporal(ctx); err != nil {
		return f, err
	}
	var st lab.Status
	if err := f.JSON(ctx, &st, "status"); err != nil {
		return f, err
	}
	for i, name := range zoneNames {
		if f.zones[name], err = newZone(name, i+1); err != nil {
			return f, err
		}
		if err = f.zones[name].relay(st.Temporal.Address); err != nil {
			return f, err
		}
	}
	for _, zone := range []string{zoneNames[0], zoneNames[0], zoneNames[1]} {
		if _, err = f.startWorker(zone); err != nil {
			return f, err
		}
	}
	for i, name := range hostNames() {
		if err = f.addHost(ctx, name, 11+i); err != nil {
			return f, err
		}
	}
	return f, f.seeAStray()
}

func (f *fleet) startWorker(zone string) (*lab.Worker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started++
	w, err := f.StartWorker(lab.WorkerOptions{Name: fmt.Sprintf("w%d", f.started), Zone: zone, Within: f.zones[zone].enter()})
	if err == nil {
		f.workers = append(f.workers, w)
	}
	return w, err
}

// takeWorker removes the oldest worker of a zone from the list.
func (f *fleet) takeWorker(zone string) (*lab.Worker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, w := range f.workers {
		if w.Zone == zone {
			f.workers = append(f.workers[:i:i], f.workers[i+1:]...)
			return w, nil
		}
	}
	return nil, fmt.Errorf("zone %s has no worker", zone)
}

func (f *fleet) drain(w *lab.Worker) {
	var err error
	if w.Ended() {
		err = fmt.Errorf("worker %s had ended by itself:\n%s", w.Name, w.Log())
	} else {
		err = w.End(syscall.SIGTERM)
	}
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.badly = append(f.badly, err.Error())
	}
}

func (f *fleet) addHost(ctx context.Context, name string, nr int) error {
	z := f.zones[zoneOf(name)]
	h, err := newHost(ctx, z, name, nr, f.Dir)
	if err != nil {
		return err
	}
	f.hosts[name] = h
	_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(f.Model.BaseURL(), "http://"), "/v1"))
	if err != nil {
		return fmt.Errorf("the model is at %s: %w", f.Model.BaseURL(), err)
	}
	if err := h.relay(net.JoinHostPort("127.0.0.1", port)); err != nil {
		return err
	}
	if err := h.on(ctx); err != nil {
		return err
	}
	key, err := h.hostKey()
	if err != nil {
		return err
	}
	err = scenario.Again(ctx, "zone "+z.name+" to take hosts", func(ctx context.Context) error {
		if r := f.Ctl(ctx, nil, "host", "list", "--zone", z.name); r.Code != 0 || r.Stderr != "" {
			return r
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, words := range [][]string{
		{"host", "add", name, "root@" + h.address(), "--zone", z.name, "--host-key", key, "--identity", h.in("identity"), "--root", h.root,
			"--slots", fmt.Sprint(slots), "--label", "fleet=yes"},
		{"host", "provision", name, "--zone", z.name},
	} {
		if _, err := f.Out(ctx, words...); err != nil {
			return err
		}
	}
	return nil
}

// seeAStray shows that a dial from the wrong zone is refused and counted: it
// tries one and resets the counters.
func (f *fleet) seeAStray() error {
	for _, z := range f.zones {
		for _, h := range f.hosts {
			if h.zone == z {
				continue
			}
			err := z.inside(func() error {
				c, err := net.DialTimeout("tcp", h.address()+":22", 2*time.Second)
				if err == nil {
					c.Close()
					return fmt.Errorf("host %s can be reached from zone %s", h.name, z.name)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		switch n, err := z.strays(); {
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("dials from zone %s to another were not seen", z.name)
		}
		if _, err := z.run("iptables", "-w", "20", "-Z"); err != nil {
			return err
		}
	}
	return nil
}

// follow counts ended items until the batch is over.
func (f *fleet) follow(ctx context.Context) (v protocol.BatchView, err error) {
	told := time.Now()
	for {
		got, err := f.temporal.QueryWorkflow(ctx, protocol.BatchID(batchName), "", protocol.QueryBatch)
		if err == nil {
			err = got.Get(&v)
		}
		if err == nil {
			told = time.Now()
			f.ended.Store(int64(v.Done + v.Failed + v.Cancelled))
			if protocol.BatchOver(v.State) {
				f.over.Store(true)
				return v, nil
			}
		}
		if time.Since(told) > scenario.Patience {
			return v, fmt.Errorf("the batch has said nothing for %s: %w", scenario.Patience, err)
		}
		if ctx.Err() != nil {
			return v, fmt.Errorf("the batch has not ended: %+v: %w", v, ctx.Err())
		}
		scenario.Sleep(ctx, 300*time.Millisecond)
	}
}

// Close stops and removes everything.
func (f *fleet) Close() error {
	f.mu.Lock()
	workers := f.workers
	f.workers = nil
	f.mu.Unlock()
	var errs []error
	for _, w := range workers {
		errs = append(errs, w.End(syscall.SIGKILL))
	}
	for _, h := range f.hosts {
		errs = append(errs, h.Close())
	}
	for _, z := range f.zones {
		if z != nil {
			errs = append(errs, z.Close())
		}
	}
	if f.temporal != nil {
		f.temporal.Close()
	}
	if f.Lab != nil {
		errs = append(errs, f.Lab.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(f.effects))...)
}

// keep saves what a failed run left, for people to look at.
func (f *fleet) keep(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("/var/tmp", "fairlead-fleet-kept-")
	if err != nil {
		return "", err
	}
	logs, _ := filepath.Glob(filepath.Join(f.Dir, "worker-*.log"))
	more, _ := filepath.Glob(filepath.Join(f.State, "logs", "*"))
	sshd, _ := filepath.Glob(filepath.Join(f.Dir, "sshd-*", "sshd.log"))
	for _, path := range append(append(logs, more...), sshd...) {
		if data, err := os.ReadFile(path); err == nil {
			name := filepath.Base(filepath.Dir(path)) + "-" + filepath.Base(path)
			_ = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
	}
	for name, words := range map[string][]string{
		"batch.json": {"batch", "show", batchName, "-o", "json"}, "sessions.jsonl": {"session", "list", "--batch", batchName, "--limit", "1000", "-o", "json"},
		"near.json": {"pool", "show", zoneNames[0], "-o", "json"}, "far.json": {"pool", "show", zoneNames[1], "-o", "json"},
		"results.jsonl": {"batch", "results", batchName, "--no-wait", "-o", "json"},
	} {
		r := f.Ctl(ctx, nil, words...)
		_ = os.WriteFile(filepath.Join(dir, name), []byte(r.Stdout+r.Stderr), 0o600)
	}
	return dir, nil
}
