package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
)

// roundTrips alternately calls two app-servers on the same host: one through an
// attachment to a journaled process, one through a plain ssh.
func (b *setup) roundTrips(ctx context.Context) (err error) {
	n := b.trips
	fmt.Printf("  median of %d, goal ≤ 1.3\n", n)
	ours, stop, err := b.journaledServer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	p, err := b.plainServer(ctx, filepath.Join(b.lab.Dir, "plain-trips"))
	if err != nil {
		return err
	}
	theirs := wire.NewConn(p, wire.ConnConfig{})
	defer func() { err = errors.Join(err, theirs.Close()) }()
	info := wire.ClientInfo{Name: "bench", Version: "1"}
	for _, c := range []*wire.Conn{ours, theirs} {
		if _, err := wire.Handshake(ctx, c, info); err != nil {
			return err
		}
	}
	var mine, plain series
	for i := range n + 50 {
		for _, k := range []struct {
			c *wire.Conn
			s *series
		}{{ours, &mine}, {theirs, &plain}} {
			begin := time.Now()
			if err := k.c.Call(ctx, "thread/loaded/list", nil, nil); err != nil {
				return err
			}
			if i >= 50 { // earlier ones are the warm-up
				*k.s = append(*k.s, time.Since(begin))
			}
		}
	}
	compare(mine, plain)
	return nil
}

// journaledServer starts codex as a journaled process and attaches to it.
func (b *setup) journaledServer(ctx context.Context) (*wire.Conn, func() error, error) {
	pool := hostexec.NewPool(hostexec.PoolOptions{Logger: slog.New(slog.DiscardHandler)})
	h, err := pool.Host(b.host.Spec())
	if err != nil {
		return nil, nil, errors.Join(err, pool.Close())
	}
	dir := filepath.Join(b.lab.Dir, "journaled")
	home, tmp := filepath.Join(dir, "codex-home"), filepath.Join(dir, "tmp")
	for _, d := range []string{home, tmp} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, nil, errors.Join(err, pool.Close())
		}
	}
	config := scriptedmodel.ConfigTOML(b.lab.Model.BaseURL(), b.lab.Token)
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		return nil, nil, errors.Join(err, pool.Close())
	}
	fence := hostexec.Fence{Dir: dir, Epoch: hostexec.Epoch{Generation: 1, Pump: 1, Attempt: 1}}
	proc := filepath.Join(dir, "proc", "app-server")
	_, err = process.Start(ctx, h, process.Spec{Dir: proc, Fence: fence, Argv: []string{b.codex, "app-server"},
		Env: map[string]string{"CODEX_HOME": home, "TMPDIR": tmp}, Mark: "bench"})
	if err != nil {
		return nil, nil, errors.Join(err, pool.Close())
	}
	stop := func() error {
		_, err := process.Stop(context.WithoutCancel(ctx), h, proc, fence, 5*time.Second)
		return errors.Join(err, pool.Close())
	}
	a, err := process.Attach(ctx, h, proc, process.AttachOptions{Fence: fence})
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	c := wire.NewConn(a, wire.ConnConfig{})
	return c, func() error { return errors.Join(c.Close(), stop()) }, nil
}
