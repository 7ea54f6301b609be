package hosttest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"fairlead.dev/fairlead/hostexec"
)

func epoch(g, p, a int64) hostexec.Epoch { return hostexec.Epoch{Generation: g, Pump: p, Attempt: a} }

func fence(dir string, e hostexec.Epoch) *hostexec.Fence { return &hostexec.Fence{Dir: dir, Epoch: e} }

func mustBeFenced(t *testing.T, err error, ours, host hostexec.Epoch) {
	t.Helper()
	var fenced *hostexec.FencedError
	if !errors.As(err, &fenced) || !errors.Is(err, hostexec.ErrFenced) || fenced.Ours != ours || fenced.Host != host {
		t.Errorf("want a refusal of %v by %v, got %v", ours, host, err)
	}
}

var fenceChecks = []check{
	{"FenceRefusesLowerEpochs", func(t *testing.T, h target) {
		try := func(e hostexec.Epoch) error {
			_, err := h.Run(h.ctx, hostexec.Command{Script: `: >"$1/ran.$2"`, Args: []string{h.dir, e.String()}, Fence: fence(h.dir, e)})
			return err
		}
		for _, e := range []hostexec.Epoch{epoch(1, 5, 2), epoch(1, 5, 2), epoch(1, 5, 3), epoch(1, 6, 0), epoch(2, 0, 0)} {
			if err := try(e); err != nil {
				t.Fatalf("%v: %v", e, err)
			}
		}
		for _, e := range []hostexec.Epoch{epoch(1, 9, 9), epoch(0, 0, 0)} {
			mustBeFenced(t, try(e), e, epoch(2, 0, 0))
			if _, err := os.Stat(h.dir + "/ran." + e.String()); err == nil {
				t.Errorf("%v ran", e)
			}
		}
		s := h.start(t, hostexec.Command{Script: "cat", Fence: fence(h.dir, epoch(1, 9, 9))})
		if n, err := s.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a refused stream gave %d bytes, %v", n, err)
		}
		mustBeFenced(t, s.Wait(), epoch(1, 9, 9), epoch(2, 0, 0))
	}},
	{"FenceLetsOneInAtATime", func(t *testing.T, h target) {
		f := fence(h.dir, epoch(1, 0, 0))
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, err := h.Run(h.ctx, hostexec.Command{Fence: f, Args: []string{h.dir},
					Script: `n=$(cat "$1/n" 2>/dev/null || echo 0); sleep 0.01; echo $((n+1)) >"$1/n"`})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := h.run(t, hostexec.Command{Script: `cat "$1/n"`, Args: []string{h.dir}}); got != "10\n" {
			t.Errorf("10 increments gave %q", got)
		}
	}},
	{"FenceIsLeftWhateverTheScriptDoes", func(t *testing.T, h target) {
		f := fence(h.dir, epoch(1, 0, 0))
		for i, script := range []string{"exit 3", "false", "sleep 600 & echo $!", "kill -9 $$", "exec sh -c 'kill -9 $$'"} {
			res, _ := h.Run(h.ctx, hostexec.Command{Script: script, Fence: f})
			if got := h.run(t, hostexec.Command{Script: fmt.Sprint("echo ", i), Fence: f}); got != fmt.Sprintln(i) {
				t.Errorf("after %q: %q", script, got)
			}
			if len(res.Stdout) > 0 {
				h.run(t, hostexec.Command{Script: "kill " + string(res.Stdout)})
			}
		}
	}},
	{"FenceOutlivesItsFolder", func(t *testing.T, h target) {
		dir := h.mkdir(t) + "/session"
		if _, err := h.Run(h.ctx, hostexec.Command{Script: ":", Fence: fence(dir, epoch(2, 7, 0))}); err != nil {
			t.Fatal(err)
		}
		if err := hostexec.RemoveTree(h.ctx, h, dir, h.dir, fence(dir, epoch(2, 8, 0))); err != nil {
			t.Fatal(err)
		}
		late := epoch(2, 7, 0)
		err := hostexec.WriteFile(h.ctx, h.Host, dir+"/home/auth.json", []byte("{}"), 0o600, fence(dir, late))
		mustBeFenced(t, err, late, epoch(2, 8, 0))
		if _, err := os.Lstat(dir); err == nil {
			t.Error("a late script of a former holder brought the folder back")
		}
		if err := hostexec.WriteFile(h.ctx, h.Host, dir+"/home/auth.json", []byte("{}"), 0o600, fence(dir, epoch(2, 8, 1))); err != nil {
			t.Errorf("the holder itself: %v", err)
		}
	}},
	{"FenceRefusesADamagedEpoch", func(t *testing.T, h target) {
		dir := h.mkdir(t)
		h.run(t, hostexec.Command{Script: `echo '1 2' >"$1/epoch"`, Args: []string{dir}})
		_, err := h.Run(h.ctx, hostexec.Command{Script: `: >"$1/ran"`, Args: []string{dir}, Fence: fence(dir, epoch(9, 0, 0))})
		var exit *hostexec.ExitError
		if !errors.As(err, &exit) {
			t.Error(err)
		}
		if _, err := os.Stat(dir + "/ran"); err == nil {
			t.Error("it ran")
		}
	}},
}
