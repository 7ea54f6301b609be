package hostexec_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
)

func (s *scene) stop(grace time.Duration) process.Status {
	s.t.Helper()
	st, err := process.Stop(s.ctx, s.host, s.proc(), s.fence, grace)
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

func TestStopEndsTheGroupAndKnowsHow(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		if st := s.stop(time.Minute); st.State != process.Absent {
			t.Errorf("before there is one: %+v", st)
		}
		for i, c := range []struct {
			script string
			grace  time.Duration
			code   int
		}{
			{"trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 1000 & wait; done", time.Minute, 3},
			{"trap '' TERM; echo ready; while :; do sleep 1000; done", 0, 137},
			{"echo ready; kill -STOP $$; sleep 1000", time.Minute, 143},
		} {
			t.Log(c.script)
			s := *s
			s.dir += fmt.Sprint(i)
			s.fence.Dir = s.dir
			s.start("/bin/sh", "-c", c.script)
			eventually(t, "ready", func() bool { return s.inspect().Size > 0 })
			for range 2 {
				if st := s.stop(c.grace); st.State != process.Exited || st.Code != c.code {
					t.Errorf("%+v", st)
				}
			}
			if c.code != 3 {
				// Everything that the process started was in its process group.
				s.waitGone()
			}
		}
	})
}

func TestStopLeavesStrangersAlone(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.start("/bin/true")
		eventually(t, "an end", func() bool { return s.inspect().State == process.Exited })
		stranger := exec.Command("sleep", "1000")
		stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := stranger.Start(); err != nil {
			t.Fatal(err)
		}
		gone := make(chan error, 1)
		go func() { gone <- stranger.Wait() }()
		defer func() { stranger.Process.Kill(); <-gone }()
		pid := stranger.Process.Pid
		start := startTime(t, pid)
		boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(s.proc() + "/exit"); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			started string
			state   process.State
		}{
			{fmt.Sprintf("%d %d %s 4194305 1", pid, start-1, strings.TrimSpace(string(boot))), process.Lost},
			{fmt.Sprintf("%d %d 01234567-89ab-cdef-0123-456789abcdef %d %d", pid, start, pid, start), process.Rebooted},
		} {
			if err := os.WriteFile(s.proc()+"/started", []byte(c.started+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if st := s.stop(0); st.State != c.state {
				t.Errorf("%s: %+v", c.started, st)
			}
			if found, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence); err != nil || len(found) > 0 {
				t.Errorf("%v, %v", found, err)
			}
		}
		select {
		case err := <-gone:
			t.Errorf("the stranger was ended: %v", err)
		default:
		}
	})
}

func startTime(t *testing.T, pid int) (start int64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if _, err := fmt.Sscan(f[19], &start); err != nil {
		t.Fatal(err)
	}
	return start
}

func TestEveryChangeIsFenced(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.start("/bin/sleep", "1000")
		old := s.fence
		s.fence.Epoch.Pump++
		s.attach(process.AttachOptions{}).Close()
		spec := s.spec("/bin/true")
		spec.Dir, spec.Fence = s.dir+"/proc/other", old
		_, start := process.Start(s.ctx, s.host, spec)
		_, stop := process.Stop(s.ctx, s.host, s.proc(), old, time.Minute)
		_, reap := process.Reap(s.ctx, s.host, s.dir, s.mark, old)
		_, attach := process.Attach(s.ctx, s.host, s.proc(), process.AttachOptions{Fence: old})
		for what, err := range map[string]error{"start": start, "stop": stop, "reap": reap, "attach": attach} {
			var fenced *hostexec.FencedError
			if !errors.As(err, &fenced) || fenced.Host != s.fence.Epoch || fenced.Ours != old.Epoch {
				t.Errorf("%s: %v", what, err)
			}
		}
		if st := s.inspect(); st.State != process.Running {
			t.Errorf("%+v", st)
		}
		if st, err := process.Inspect(s.ctx, s.host, spec.Dir); err != nil || st.State != process.Absent {
			t.Errorf("%+v, %v", st, err)
		}
	})
}
