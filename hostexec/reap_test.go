package hostexec_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/hostexec"
)

// besides starts a process beside any session, and ends it with the test.
func besides(t *testing.T, dir string, env ...string) (pid int, gone <-chan error) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ch := make(chan error, 1)
	done := make(chan struct{})
	go func() { ch <- cmd.Wait(); close(done) }()
	t.Cleanup(func() { cmd.Process.Kill(); <-done })
	return cmd.Process.Pid, ch
}

func TestReapFindsWhatAProcessLeftBehind(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		marked, _ := besides(t, "/", "FAIRLEAD_SESSION="+s.mark)
		strangers := make(map[string]<-chan error)
		for _, env := range []string{
			"FAIRLEAD_SESSION=" + s.mark + "x", "FAIRLEAD_SESSION=x" + s.mark, "FAIRLEAD_SESSION=" + s.mark[:len(s.mark)-1],
			"XFAIRLEAD_SESSION=" + s.mark, "A=b\nFAIRLEAD_SESSION=" + s.mark, "FAIRLEAD_SESSION=" + s.mark + "\n", "FAIRLEAD_SESSION=",
		} {
			_, strangers[env] = besides(t, "/", env)
		}
		if err := os.MkdirAll(s.dir+"/work/deep", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(s.dir+"x", 0o755); err != nil {
			t.Fatal(err)
		}
		_, strangers["a folder beside"] = besides(t, s.dir+"x")

		// Each of them in a session of its own, with nothing else to know it by.
		s.start("/bin/sh", "-c", `
			setsid sh -c 'echo plain $$; exec sleep 1000' &
			setsid env -i PATH="$PATH" sh -c 'cd /; echo bare $$; sleep 1000 & wait' &
			cd "$1" && setsid env -i PATH="$PATH" sh -c 'echo moved $$; trap "" TERM; exec sleep 1000' &
			cp "$(command -v sleep)" "$1/../sleep" && (cd / && setsid env -i "$1/../sleep" 1000) &
			env -i PATH="$PATH" sh -c 'cd /; echo group $$; exec sleep 1000' &
			echo main $$
			wait`, "sh", s.dir+"/work/deep")
		eventually(t, "all of them", func() bool {
			b, _ := os.ReadFile(s.proc() + "/out.log")
			return strings.Count(string(b), "\n") == 5 && len(programsAt(s.dir+"/work/sleep")) == 1
		})
		want := []int{marked, programsAt(s.dir + "/work/sleep")[0]}
		b, _ := os.ReadFile(s.proc() + "/out.log")
		for line := range strings.Lines(string(b)) {
			var name string
			var pid int
			fmt.Sscan(line, &name, &pid)
			want = append(want, pid)
		}
		a := s.attach(hostexec.AttachOptions{})
		supervisor := s.supervisor()

		found, err := hostexec.Reap(s.ctx, s.host, s.dir, s.mark, s.fence)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range want {
			if !slices.ContainsFunc(found, func(f hostexec.Survivor) bool { return f.PID == pid && f.Command != "" }) {
				t.Errorf("%d is not among %v", pid, found)
			}
		}
		if slices.ContainsFunc(found, func(f hostexec.Survivor) bool { return f.PID == supervisor }) {
			t.Errorf("the supervisor is among %v", found)
		}
		for what, gone := range strangers {
			select {
			case err := <-gone:
				t.Errorf("a stranger was ended: %q %v", what, err)
			default:
			}
		}
		if st := s.inspect(); st.State != hostexec.ProcessExited {
			t.Errorf("%+v", st)
		}
		a.Close()
		again, err := hostexec.Reap(s.ctx, s.host, s.dir, s.mark, s.fence)
		if err != nil || len(again) > 0 {
			t.Errorf("%v, %v", again, err)
		}
	})
}

func programsAt(path string) (pids []int) {
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		var pid int
		if exe, _ := os.Readlink("/proc/" + d.Name() + "/exe"); exe == path {
			fmt.Sscan(d.Name(), &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestReapEndsSupervisorsAndWhatOutlivedItsJob(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		// The session of a job that is gone: known by its number, until a
		// stranger may have it.
		s.start("/bin/sh", "-c", "cd /; env -i PATH=\"$PATH\" sleep 1000 & echo $!")
		eventually(t, "an end", func() bool { return s.inspect().State == hostexec.ProcessExited })
		b, err := os.ReadFile(s.proc() + "/out.log")
		if err != nil {
			t.Fatal(err)
		}
		found, err := hostexec.Reap(s.ctx, s.host, s.dir, "", s.fence)
		if err != nil || len(found) != 1 || fmt.Sprintln(found[0].PID) != string(b) || found[0].Command != "sleep" {
			t.Errorf("%v, %v, want %s", found, err, b)
		}

		// A supervisor that does not come to its end by itself.
		s.dir += "2"
		s.fence.Dir = s.dir
		s.start("/bin/sleep", "1000")
		if err := syscall.Kill(s.supervisor(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if _, err := hostexec.Reap(s.ctx, s.host, s.dir, s.mark, s.fence); err != nil {
			t.Error(err)
		}
		s.waitGone()
		eventually(t, "lost", func() bool { return s.inspect().State == hostexec.ProcessLost })
	})
}

func TestReapSparesWhoLooksAround(t *testing.T) {
	s := newScene(t, places(t)[0].host(t))
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	person, err := s.host.Start(s.ctx, hostexec.Command{Script: `cd "$1" && echo here && cat`, Args: []string{s.dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer person.Close()
	here := make([]byte, 5)
	if _, err := person.Read(here); err != nil {
		t.Fatal(err)
	}
	if found, err := hostexec.Reap(s.ctx, s.host, s.dir, s.mark, s.fence); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := person.Write([]byte("still\n")); err != nil {
		t.Error(err)
	}
	still := make([]byte, 6)
	if _, err := person.Read(still); string(still) != "still\n" || err != nil {
		t.Errorf("%q, %v", still, err)
	}
	person.Close()
	eventually(t, "nobody there", func() bool { return len(s.belongings()) == 0 })
}
