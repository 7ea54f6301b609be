package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// A stage is a running stack with hosts, and a Temporal client that talks to
// its sessions as any other program would.
type stage struct {
	*lab.Lab
	workers  int
	temporal client.Client
	say      func(format string, args ...any)

	mu    sync.Mutex
	hosts map[string]*host
	// unmounts unmount the hosts' small disks and overlays.
	unmounts []func() error
	lines    []*hosttest.DelayLine // before hosts; closed after them
}

// A host is an sshd; its processes, files and network may be struck.
type host struct {
	name string
	root string
	sshd *hosttest.SSHD
	boot string // the file that it sees as its boot id
	port int
}

func newStage(ctx context.Context, o options, workers int, say func(string, ...any)) (*stage, error) {
	repo := o.repo
	if o.cluster != nil {
		var err error
		if repo, err = o.cluster.Stage(ctx); err != nil {
			return nil, err
		}
	}
	l, err := lab.New(ctx, lab.Options{Repo: repo, Script: []byte(cmp.Or(o.script, script)), Codex: o.codex, Workers: workers})
	if err != nil {
		return nil, err
	}
	s := &stage{Lab: l, workers: workers, say: say, hosts: map[string]*host{}}
	if err := s.furnish(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *stage) furnish(ctx context.Context) (err error) {
	if s.temporal, err = s.Lab.Temporal(ctx); err != nil {
		return err
	}
	return s.ImportSeed(ctx, "team")
}

func (s *stage) Close() error {
	if s.temporal != nil {
		s.temporal.Close()
	}
	var errs []error
	for _, unmount := range s.unmounts {
		errs = append(errs, unmount())
	}
	err := errors.Join(errors.Join(errs...), s.Lab.Close())
	for _, line := range s.lines {
		err = errors.Join(err, line.Close())
	}
	// Processes that an aborted run left would be taken for another run's.
	for _, h := range s.hosts {
		for _, p := range processesOf(nobody, h.root) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have exited
		}
	}
	return err
}

const nobody = "/"

// bootWrapper runs sshd with a file of this program's as the machine's boot id.
const bootWrapper = `#!/bin/sh
exec unshare -m sh -c 'mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"' sh '%s' /usr/sbin/sshd "$@"
`

// host starts a host, once. All hosts share one copy of codex.
func (s *stage) host(ctx context.Context, name string) (*host, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hosts[name]; h != nil {
		return h, nil
	}
	small, pair := strings.HasSuffix(name, "-small"), name[:1]
	if small {
		pair = "small"
	}
	h := &host{name: name, root: filepath.Join(s.Dir, "host-"+name), boot: filepath.Join(s.Dir, name+".boot")}
	wrapper := filepath.Join(s.Dir, name+"-sshd")
	if err := os.MkdirAll(h.root, 0o755); err != nil {
		return nil, err
	}
	if small {
		// Mount before sshd starts, which has its own mount namespace.
		unmount, err := hosttest.SmallDisk(ctx, h.root, 256<<20)
		if err != nil {
			return nil, err
		}
		s.unmounts = append(s.unmounts, unmount)
	}
	err := errors.Join(
		os.MkdirAll(filepath.Join(s.Dir, "codex"), 0o755), os.MkdirAll(filepath.Join(h.root, "sessions"), 0o700),
		os.Symlink(filepath.Join(s.Dir, "codex"), filepath.Join(h.root, "codex")),
		os.WriteFile(wrapper, fmt.Appendf(nil, bootWrapper, h.boot), 0o755),
		lab.NewBoot(h.boot))
	if err != nil {
		return nil, err
	}
	h.sshd, err = s.AddHost(ctx, name, hosttest.Options{Root: h.root, Program: wrapper}, "--slots", "64", "--label", "pair="+pair)
	if err != nil {
		return nil, err
	}
	h.port = h.sshd.Spec().Port
	if _, err := s.Out(ctx, "host", "provision", name); err != nil {
		return nil, err
	}
	s.hosts[name] = h
	return h, nil
}

// again retries do, which may fail while a fault lasts, until it succeeds.
func again(ctx context.Context, what string, do func(context.Context) error) error {
	return scenario.Wait{Most: scenario.Patience, Try: 6 * time.Second, Gap: 250 * time.Millisecond}.For(ctx, what, do)
}

func (s *stage) signal(ctx context.Context, id, name string, arg any) error {
	return again(ctx, "signal "+name+" to "+id, func(ctx context.Context) error {
		return s.temporal.SignalWorkflow(ctx, protocol.SessionID(id), "", name, arg)
	})
}

func (s *stage) detail(ctx context.Context, id string) (d protocol.SessionDetail, err error) {
	v, err := s.temporal.QueryWorkflow(ctx, protocol.SessionID(id), "", protocol.QueryDetail)
	if err != nil {
		return d, err
	}
	return d, v.Get(&d)
}

// until polls a session until ok returns true; if it never does, the error
// shows the last view.
func (s *stage) until(ctx context.Context, id, what string, ok func(protocol.SessionDetail) bool) (protocol.SessionDetail, error) {
	var last protocol.SessionDetail
	err := again(ctx, "waited for "+id+" "+what, func(ctx context.Context) error {
		d, err := s.detail(ctx, id)
		if err != nil {
			return err
		}
		if last = d; ok(d) {
			return nil
		}
		return fmt.Errorf("it is %s, waits for %q, turns %s, approvals %s, error %+v", d.View.State, d.View.Waits, briefTurns(d), briefApprovals(d), d.View.Error)
	})
	return last, err
}

func briefTurns(d protocol.SessionDetail) string {
	var out []string
	for _, t := range d.Turns {
		out = append(out, fmt.Sprintf("%d %s", t.N, t.Status))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func briefApprovals(d protocol.SessionDetail) string {
	var out []string
	for _, a := range d.Approvals {
		out = append(out, a.ID+" "+string(a.State))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// status returns what `ctl status` prints, retried until it succeeds.
func (s *stage) status(ctx context.Context) (st lab.Status, err error) {
	err = again(ctx, "ctl status", func(ctx context.Context) error { return s.JSON(ctx, &st, "status") })
	return st, err
}

func (s *stage) healthy(ctx context.Context) error {
	return again(ctx, "the stack to be well", func(ctx context.Context) error {
		var st struct {
			Temporal struct {
				PID int `json:"pid"`
			} `json:"temporal"`
			Workers []struct {
				PID   int  `json:"pid"`
				Ready bool `json:"ready"`
			} `json:"workers"`
		}
		if err := s.JSON(ctx, &st, "status"); err != nil {
			return err
		}
		ready := 0
		for _, w := range st.Workers {
			if w.Ready && w.PID > 0 {
				ready++
			}
		}
		if ready != s.workers || st.Temporal.PID == 0 {
			return fmt.Errorf("%d of %d workers are ready, the server's pid is %d", ready, s.workers, st.Temporal.PID)
		}
		return nil
	})
}

func (s *stage) storeDir() string { return filepath.Join(s.State, "store") }

func (s *stage) readStore(ctx context.Context) (*store.Store, error) {
	ids, err := store.LoadIdentities(filepath.Join(s.State, "identity.txt"))
	if err != nil {
		return nil, err
	}
	to, err := store.RecipientsOf(ids)
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, store.Options{URL: "file://" + s.storeDir(), Recipients: to, Identities: ids})
}
