package hostexec_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
)

func leftovers(t testing.TB, s *scene) map[string][]hosttest.Leftover {
	t.Helper()
	all, err := hosttest.Leftovers(s.dir, s.mark)
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string][]hosttest.Leftover)
	for _, l := range all {
		kinds[l.Kind] = append(kinds[l.Kind], l)
	}
	return kinds
}

// hosttest.Leftovers must find every kind of leftover.
func TestLeftoversSeesEverything(t *testing.T) {
	look := func(t *testing.T, s *scene) {
		if left := leftovers(t, s); len(left) > 0 {
			t.Errorf("before anything began: %v", left)
		}
		s.start("/bin/sh", "-c", `setsid env -i PATH="$PATH" sh -c 'cd / && exec sleep 1000' & exec sleep 1000`)
		a := s.attach(process.AttachOptions{})
		if err := os.WriteFile(s.dir+"/.fl-half", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		// The processes are the job, its disguised child (which holds the journal open),
		// the supervisor, and at least the cat of the attachment.
		eventually(t, "all is seen", func() bool {
			left := leftovers(t, s)
			return len(left["process"]) >= 4 && len(left["fifo"]) == 1 && len(left["attachment"]) > 0 && len(left["temp"]) == 1
		})
		a.Close()
		// The job, its child and the supervisor are left.
		eventually(t, "nobody attached", func() bool {
			left := leftovers(t, s)
			return len(left["attachment"]) == 0 && len(left["process"]) == 3
		})
		s.stop(time.Minute)
		// The supervisor takes a moment to end.
		eventually(t, "the child in disguise to be all that outlives the job", func() bool {
			return len(leftovers(t, s)["process"]) == 1
		})
		if _, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence); err != nil {
			t.Fatal(err)
		}
		if left := leftovers(t, s); len(left["process"]) > 0 || len(left["fifo"]) != 1 {
			t.Errorf("after the end: %v", left)
		}
		if err := hostexec.RemoveTree(s.ctx, s.host, s.dir, s.dir[:strings.LastIndex(s.dir, "/")], &s.fence); err != nil {
			t.Fatal(err)
		}
		if left := leftovers(t, s); len(left) > 0 {
			t.Errorf("after all is removed: %v", left)
		}
	}
	everywhere(t, look)
	t.Run("a plain path", func(t *testing.T) {
		s := newScene(t, localHost(t))
		s.dir = t.TempDir() + "/plain/s-1"
		s.fence.Dir = s.dir
		look(t, s)
	})
}

// A daemon forks twice, so that none of its ancestors belongs to the session. Its mark,
// work directory, TMPDIR or program alone identifies it.
func TestReapFindsWhatForkedTwice(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		if err := os.MkdirAll(s.dir+"/work", 0o755); err != nil {
			t.Fatal(err)
		}
		s.start("/bin/sh", "-c", `
			twice() { setsid sh -c '"$@" </dev/null >/dev/null 2>&1 & exit' sh "$@"; }
			cd /
			twice sh -c 'echo marked $$ >>"$0"; exec sleep 1000' "$1/pids"
			twice env -i PATH="$PATH" TMPDIR="$1/tmp" sh -c 'echo tmpdir $$ >>"$0"; exec sleep 1000' "$1/pids"
			cd "$1/work"
			twice env -i PATH="$PATH" sh -c 'echo moved $$ >>"$0"; exec sleep 1000' "$1/pids"
			cd /
			cp "$(readlink -f "$(command -v sleep)")" "$1/work/sleep"
			twice env -i PATH="$PATH" sh -c 'echo own $$ >>"$0"; exec "${0%/*}/work/sleep" 1000' "$1/pids"
			twice sh -c 'echo again $$ >>"$0"; while :; do sleep 1000; done' "$1/pids"
			echo all`, "sh", s.dir)
		var pids []int
		eventually(t, "all of them, and the job gone", func() bool {
			pids = pids[:0]
			b, _ := os.ReadFile(s.dir + "/pids")
			for line := range strings.Lines(string(b)) {
				var name string
				var pid int
				fmt.Sscan(line, &name, &pid)
				pids = append(pids, pid)
			}
			return len(pids) == 5 && s.inspect().State == process.Exited
		})
		found, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence)
		if err != nil {
			t.Fatal(err)
		}
		for i, pid := range pids {
			there := false
			for _, f := range found {
				there = there || f.PID == pid
			}
			if !there {
				t.Errorf("the %d. is not among %v", i+1, found)
			}
		}
		if left := leftovers(t, s)["process"]; len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}
