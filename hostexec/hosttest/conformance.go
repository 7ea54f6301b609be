package hosttest

import (
	"context"
	"errors"
	"path"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// A target is a host under test and a folder for the test on it. Functions that write files
// get the embedded Host, because they may know a faster way for its type.
type target struct {
	hostexec.Host
	ctx  context.Context
	root string
	dir  string // not created yet
}

// TestHost checks that a host meets the contract of hostexec.Host, and that the functions
// that use a Host work on it. The host must run on this machine, so that the suite can look
// for leftovers.
func TestHost(t *testing.T, h hostexec.Host, spec protocol.HostSpec) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	root, err := hostexec.Root(ctx, h, spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]check{runChecks, streamChecks, fenceChecks, fileChecks, belowChecks, treeChecks, removeChecks} {
		for _, c := range part {
			t.Run(c.promise, func(t *testing.T) {
				c.test(t, target{Host: h, ctx: ctx, root: root, dir: path.Join(root, c.promise)})
			})
		}
	}
	t.Run("CloseEndsEverything", func(t *testing.T) {
		s, err := h.Start(ctx, hostexec.Command{Script: "cat"})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(); err == nil {
			t.Error("a stream ended well although its host was closed")
		}
		s.Close()
		if _, err := h.Run(ctx, hostexec.Command{Script: "true"}); !errors.Is(err, hostexec.ErrUnreachable) {
			t.Errorf("Run after Close: %v", err)
		}
		if _, err := h.Start(ctx, hostexec.Command{Script: "true"}); !errors.Is(err, hostexec.ErrUnreachable) {
			t.Errorf("Start after Close: %v", err)
		}
	})
}

type check struct {
	promise string
	test    func(*testing.T, target)
}

// run runs a script, which must succeed.
func (h target) run(t *testing.T, c hostexec.Command) string {
	t.Helper()
	res, err := h.Run(h.ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return string(res.Stdout)
}

func (h target) mkdir(t *testing.T) string {
	t.Helper()
	h.run(t, hostexec.Command{Script: `mkdir -p -- "$1"`, Args: []string{h.dir}})
	return h.dir
}

func eventually(t *testing.T, ctx context.Context, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-ctx.Done():
			t.Fatalf("never came true: %s", what)
		case <-tick.C:
		}
	}
}
