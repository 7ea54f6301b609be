package hostexec_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
)

// besides starts a process outside any session, and ends it with the test.
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

		// Each of these processes is in a Unix session of its own, and has one property
		// that identifies it.
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
		a := s.attach(process.AttachOptions{})
		supervisor := s.supervisor()

		found, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range want {
			if !slices.ContainsFunc(found, func(f process.Survivor) bool { return f.PID == pid && f.Command != "" }) {
				t.Errorf("%d is not among %v", pid, found)
			}
		}
		if slices.ContainsFunc(found, func(f process.Survivor) bool { return f.PID == supervisor }) {
			t.Errorf("the supervisor is among %v", found)
		}
		for what, gone := range strangers {
			select {
			case err := <-gone:
				t.Errorf("a stranger was ended: %q %v", what, err)
			default:
			}
		}
		if st := s.inspect(); st.State != process.Exited {
			t.Errorf("%+v", st)
		}
		a.Close()
		again, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence)
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
		// The job is gone, but its Unix session still has a process. The session's number
		// identifies it, as long as no other session can have the number.
		s.start("/bin/sh", "-c", "cd /; env -i PATH=\"$PATH\" sleep 1000 & echo $!")
		eventually(t, "an end", func() bool { return s.inspect().State == process.Exited })
		b, err := os.ReadFile(s.proc() + "/out.log")
		if err != nil {
			t.Fatal(err)
		}
		found, err := process.Reap(s.ctx, s.host, s.dir, "", s.fence)
		if err != nil || len(found) != 1 || fmt.Sprintln(found[0].PID) != string(b) || found[0].Command != "sleep" {
			t.Errorf("%v, %v, want %s", found, err, b)
		}

		// The supervisor does not end by itself.
		s.dir += "2"
		s.fence.Dir = s.dir
		s.start("/bin/sleep", "1000")
		if err := syscall.Kill(s.supervisor(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if _, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence); err != nil {
			t.Error(err)
		}
		s.waitGone()
		eventually(t, "lost", func() bool { return s.inspect().State == process.Lost })
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
	if found, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence); err != nil || len(found) > 0 {
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

// terminal opens a new pseudo-terminal. The test closes both ends.
func terminal(t *testing.T) (theirs *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	return theirs
}

// People look into a session's folder in other ways than over SSH: in a window of tmux or
// screen, on the machine itself, or with a program that was there before the session began.
// Reap ends none of these processes.
func TestReapSparesPeoplesOwnProcesses(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		if err := os.MkdirAll(s.dir+"/work", 0o755); err != nil {
			t.Fatal(err)
		}
		spared := make(map[string]<-chan error)
		var earlier int
		earlier, spared["an editor's server, older than the session"] = besides(t, s.dir+"/work")
		began := startTime(t, earlier)
		// The session must begin at a later clock tick than the editor's server.
		eventually(t, "the clock moves", func() bool {
			pid, _ := besides(t, "/")
			return startTime(t, pid) > began
		})
		s.start("/bin/sh", "-c", `cd "$1" && setsid env -i PATH="$PATH" sleep 1000 & exec sleep 1000`, "sh", s.dir+"/work")
		window := exec.Command("sleep", "1000")
		window.Dir = s.dir + "/work"
		window.Stdin = terminal(t)
		window.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := window.Start(); err != nil {
			t.Fatal(err)
		}
		gone := make(chan error, 1)
		done := make(chan struct{})
		go func() { gone <- window.Wait(); close(done) }()
		t.Cleanup(func() { window.Process.Kill(); <-done })
		spared["a window of tmux"] = gone
		left, _ := besides(t, s.dir+"/work")

		found, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(found, func(f process.Survivor) bool { return f.PID == left }) {
			t.Errorf("what the session left, %d, is not among %v", left, found)
		}
		for what, gone := range spared {
			select {
			case err := <-gone:
				t.Errorf("%s was ended: %v", what, err)
			default:
			}
		}
		for _, pid := range []int{earlier, window.Process.Pid} {
			if slices.ContainsFunc(found, func(f process.Survivor) bool { return f.PID == pid }) {
				t.Errorf("%d is among %v", pid, found)
			}
		}
		// The clean-up of the scene fails if it finds a process in the folder.
		for _, pid := range []int{earlier, window.Process.Pid} {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	})
}

// A process whose work directory is a session's folder is found even after the folder was
// removed. The kernel then reports the folder under another name.
func TestReapFindsWhoWorksInARemovedFolder(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		if err := os.MkdirAll(s.dir+"/work/deep", 0o755); err != nil {
			t.Fatal(err)
		}
		s.start("/bin/true")
		var want []int
		for _, dir := range []string{s.dir, s.dir + "/work/deep"} {
			pid, _ := besides(t, dir)
			want = append(want, pid)
		}
		for range 2 {
			if err := hostexec.RemoveTree(s.ctx, s.host, s.dir, filepath.Dir(s.dir), &s.fence); err != nil {
				t.Fatal(err)
			}
		}
		found, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range want {
			if !slices.ContainsFunc(found, func(f process.Survivor) bool { return f.PID == pid }) {
				t.Errorf("%d is not among %v", pid, found)
			}
		}
	})
}

// Reap finds the same processes with any names of processes and of the folder, and with
// each method of search that a host allows. Only its open journal shows that the last of
// these processes belongs to the session.
func TestReapFindsProcessesOfAnyName(t *testing.T) {
	sleep, err := os.ReadFile(lookPath(t, "sleep"))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "x) S 1 1\n2 (y *")
	if err := os.WriteFile(program, sleep, 0o755); err != nil {
		t.Fatal(err)
	}
	look := func(t *testing.T, s *scene) {
		start := func(env ...string) (pid int, gone <-chan error) {
			cmd := exec.Command(program, "1000")
			cmd.Env = append(os.Environ(), env...)
			cmd.Dir = "/"
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ch, done := make(chan error, 1), make(chan struct{})
			go func() { ch <- cmd.Wait(); close(done) }()
			t.Cleanup(func() { cmd.Process.Kill(); <-done })
			return cmd.Process.Pid, ch
		}
		_, stranger := start()
		marked, _ := start("FAIRLEAD_SESSION=" + s.mark)
		_, another := start()
		if err := os.MkdirAll(s.dir+"/work", 0o755); err != nil {
			t.Fatal(err)
		}
		s.start("/bin/sh", "-c", `cd / && setsid env -i PATH="$PATH" sh -c 'sleep 1000 & echo $!' & wait`)
		eventually(t, "an end", func() bool { return s.inspect().State == process.Exited })
		inside, _ := besides(t, s.dir+"/work")
		b, err := os.ReadFile(s.proc() + "/out.log")
		if err != nil {
			t.Fatal(err)
		}
		var writing int
		fmt.Sscan(string(b), &writing)

		found, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence)
		if err != nil {
			t.Fatal(err)
		}
		for what, pid := range map[string]int{"marked": marked, "inside": inside, "writing to the journal": writing} {
			if !slices.ContainsFunc(found, func(f process.Survivor) bool { return f.PID == pid }) {
				t.Errorf("%s, %d, is not among %v", what, pid, found)
			}
		}
		if len(found) != 3 {
			t.Errorf("%v", found)
		}
		for _, gone := range []<-chan error{stranger, another} {
			select {
			case err := <-gone:
				t.Errorf("a stranger was ended: %v", err)
			default:
			}
		}
	}
	everywhere(t, look)
	for _, p := range places(t) {
		t.Run(p.name+" plain", func(t *testing.T) { look(t, newSceneIn(t, p.host(t), filepath.Join(t.TempDir(), "s-1"))) })
	}
}

// codex chooses the names of its files. If a name looks like a line of a listing, Reap
// still does not end a process of another session.
func TestReapEndsNoStrangerThatAFileNames(t *testing.T) {
	look := func(t *testing.T, s *scene) {
		s.start("/bin/true")
		eventually(t, "an end", func() bool { return s.inspect().State == process.Exited })
		stranger, gone := besides(t, "/")
		var holders []int
		for _, name := range []string{
			fmt.Sprintf("%s/work/a /proc/%d -> x/in", s.dir, stranger),
			fmt.Sprintf("%s/work/a /proc/%d/cwd -> %s/x/in", s.dir, stranger, s.dir),
			fmt.Sprintf("%s/work/w\n/proc/%d/fd:\nl 3 -> %s/x/in", s.dir, stranger, s.dir),
			fmt.Sprintf("%s/work/w\nl /proc/%d/cwd -> %s/x/in", s.dir, stranger, s.dir),
		} {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			f, err := os.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sleep", "1000")
			cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{}, "/", []*os.File{f}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			f.Close()
			done := make(chan struct{})
			go func() { cmd.Wait(); close(done) }()
			t.Cleanup(func() { cmd.Process.Kill(); <-done })
			holders = append(holders, cmd.Process.Pid)
		}
		found, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range holders {
			if !slices.ContainsFunc(found, func(f process.Survivor) bool { return f.PID == pid }) {
				t.Errorf("%d, which holds a file of the session's, is not among %v", pid, found)
			}
		}
		if len(found) != len(holders) {
			t.Errorf("%v", found)
		}
		select {
		case err := <-gone:
			t.Errorf("a stranger was ended: %v", err)
		default:
		}
	}
	for _, p := range places(t) {
		t.Run(p.name+" plain", func(t *testing.T) { look(t, newSceneIn(t, p.host(t), filepath.Join(t.TempDir(), "s-1"))) })
	}
}

// A host may run more processes than fit on a command line. Here a command line may have
// 128 KiB.
func TestReapLooksAtMoreProcessesThanACommandLineHolds(t *testing.T) {
	for _, p := range places(t)[1:] {
		t.Run(p.name, func(t *testing.T) {
			s := newSceneIn(t, &steered{p.host(t), "ulimit -s 256"}, filepath.Join(t.TempDir(), "s-1"))
			s.start("/bin/true")
			eventually(t, "an end", func() bool { return s.inspect().State == process.Exited })
			many := exec.Command("sh", "-c", `i=0; while [ $i -lt 2500 ]; do sleep 1000 & i=$((i+1)); done; echo; wait`)
			many.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := many.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := many.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { syscall.Kill(-many.Process.Pid, syscall.SIGKILL); many.Wait() })
			if _, err := out.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(s.dir+"/work", 0o755); err != nil {
				t.Fatal(err)
			}
			inside, _ := besides(t, s.dir+"/work")
			found, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != 1 || found[0].PID != inside {
				t.Errorf("found %v; want %d alone", found, inside)
			}
		})
	}
}
