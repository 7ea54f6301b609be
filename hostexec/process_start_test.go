package hostexec_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
)

func TestStartRunsTheCommandAndRecordsItsEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		for i, c := range []struct {
			script string
			code   int
		}{
			{"exit 0", 0}, {"exit 7", 7}, {"exit 127", 127}, {"kill -TERM $$", 143}, {"kill -KILL $$", 137}, {"kill -INT $$", 130},
		} {
			spec := s.spec("/bin/sh", "-c", "echo out; echo err >&2; "+c.script)
			spec.Dir += fmt.Sprint(i)
			if _, err := process.Start(s.ctx, s.host, spec); err != nil {
				t.Fatalf("%s: %v", c.script, err)
			}
			var st process.Status
			eventually(t, "an end", func() bool {
				var err error
				if st, err = process.Inspect(s.ctx, s.host, spec.Dir); err != nil {
					t.Fatal(err)
				}
				return st.State != process.Running
			})
			if st.State != process.Exited || st.Code != c.code || st.Size != 4 || st.ErrSize != 4 || st.StderrTail != "err\n" {
				t.Errorf("%s: %+v", c.script, st)
			}
		}
	})
}

func TestStartIsOnceForManyStarters(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		spec := s.spec("/bin/sh", "-c", "echo begun $$; exec sleep 1000")
		pids := make([]int, 8)
		var wg sync.WaitGroup
		for i := range pids {
			wg.Go(func() {
				st, err := process.Start(s.ctx, s.host, spec)
				if err != nil || st.State != process.Running {
					t.Errorf("%+v, %v", st, err)
				}
				pids[i] = st.PID
			})
		}
		wg.Wait()
		for _, pid := range pids {
			if pid != pids[0] {
				t.Fatalf("pids %v", pids)
			}
		}
		eventually(t, "output", func() bool { return s.inspect().Size > 0 })
		out, err := os.ReadFile(s.proc() + "/out.log")
		if err != nil || string(out) != fmt.Sprintf("begun %d\n", pids[0]) {
			t.Errorf("journal %q, %v", out, err)
		}
	})
}

func TestStartHandsOverEveryByte(t *testing.T) {
	var all []byte
	for c := 1; c < 256; c++ {
		all = append(all, byte(c))
	}
	everywhere(t, func(t *testing.T, s *scene) {
		work := t.TempDir() + "/wörk 'dir'\n-"
		if err := os.Mkdir(work, 0o755); err != nil {
			t.Fatal(err)
		}
		spec := s.spec("/bin/sh", "-c", `printf '%s|' "$@" "$VALUE" "$EMPTY" "${HOME-unset}" "$FAIRLEAD_SESSION"; pwd`, "sh", string(all), "", "$(x)`y`\\", strings.Repeat("long ", 20000))
		spec.WorkDir = work
		spec.Env = map[string]string{"VALUE": string(all), "EMPTY": ""}
		spec.Unset = []string{"HOME"}
		if _, err := process.Start(s.ctx, s.host, spec); err != nil {
			t.Fatal(err)
		}
		eventually(t, "an end", func() bool { return s.inspect().State == process.Exited })
		want := string(all) + "||$(x)`y`\\|" + strings.Repeat("long ", 20000) + "|" + string(all) + "||unset|" + s.mark + "|" + work + "\n"
		if got, err := os.ReadFile(s.proc() + "/out.log"); err != nil || string(got) != want {
			t.Errorf("got %.900q, %v", got, err)
		}
	})
}

func TestStartGivesTheProcessACleanPlace(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		want := "0 1 2"
		if !strings.HasSuffix(t.Name(), "/sshd") {
			want = strings.Join(inheritable(t), " ")
		}
		s.start("/bin/sh", "-c", "umask; cat /proc/self/stat; grep ^SigIgn /proc/self/status; ls /proc/$$/fd; tr '\\0' '\\n' </proc/$PPID/environ; exec sleep 1000")
		var out string
		eventually(t, "output", func() bool {
			b, _ := os.ReadFile(s.proc() + "/out.log")
			out = string(b)
			return strings.Contains(out, "PATH=")
		})
		st := s.inspect()
		lines := strings.Split(out, "\n")
		if lines[0] != "0022" {
			t.Errorf("umask %s", lines[0])
		}
		if f := strings.Fields(lines[1]); f[4] != fmt.Sprint(st.PID) || f[5] != f[4] || f[6] != "0" {
			t.Errorf("group, session, terminal %v of %d", f[4:7], st.PID)
		}
		// Only signals 1 to 31 are checked. Higher ones belong to the C library, and a test
		// runner may pass them on as ignored.
		var ignored uint64
		if _, err := fmt.Sscanf(lines[2], "SigIgn:\t%x", &ignored); err != nil || ignored&^ignoredHere(t)&(1<<31-1) != 0 {
			t.Errorf("ignored signals: %s (%v)", lines[2], err)
		}
		n := strings.Count(want, " ") + 1
		if got := strings.Join(lines[3:3+n], " "); got != want || !strings.Contains(lines[3+n], "=") {
			t.Errorf("descriptors: %q, want %q", lines[3:3+n+1], want)
		}
		if strings.Contains(out, s.mark) {
			t.Errorf("the supervisor holds the mark")
		}
	})
}

// inheritable returns the descriptors that a child of this test gets, in the order of ls.
// The program that runs the tests may have left some descriptors open.
func inheritable(t *testing.T) []string {
	fds := []string{"0", "1", "2"}
	infos, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range infos {
		b, _ := os.ReadFile(f)
		_, flags, _ := strings.Cut(string(b), "flags:\t")
		var bits int
		fmt.Sscanf(flags, "%o", &bits)
		if fd := filepath.Base(f); flags != "" && bits&syscall.O_CLOEXEC == 0 && !slices.Contains(fds, fd) {
			fds = append(fds, fd)
		}
	}
	slices.Sort(fds)
	return fds
}

func TestStartSaysWhyTheCommandCannotBeRun(t *testing.T) {
	plain := t.TempDir() + "/plain"
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	lost := t.TempDir() + "/lost"
	if err := os.WriteFile(lost, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	everywhere(t, func(t *testing.T, s *scene) {
		for _, c := range []struct {
			name, says string
			change     func(*process.Spec)
		}{
			{"not found", "no-such-program", func(p *process.Spec) { p.Argv = []string{"no-such-program"} }},
			{"no such file", "/no/such", func(p *process.Spec) { p.Argv = []string{"/no/such/file"} }},
			{"not executable", "ermission denied", func(p *process.Spec) { p.Argv = []string{plain} }},
			{"no interpreter", "lost", func(p *process.Spec) { p.Argv = []string{lost} }},
			{"folder", "/tmp", func(p *process.Spec) { p.Argv = []string{"/tmp"} }},
			{"no work directory", "/no/such/dir: no such directory", func(p *process.Spec) { p.WorkDir = "/no/such/dir" }},
			{"home is gone", "/no/such/home", func(p *process.Spec) { p.Env = map[string]string{"HOME": "/no/such/home"} }},
		} {
			spec := s.spec("/bin/true")
			c.change(&spec)
			st, err := process.Start(s.ctx, s.host, spec)
			var start *process.StartError
			if !errors.As(err, &start) || !strings.Contains(start.Reason, c.says) {
				t.Errorf("%s: %+v, %v", c.name, st, err)
			}
			if _, err := os.Stat(s.proc()); !os.IsNotExist(err) {
				t.Errorf("%s: something is left: %v", c.name, err)
			}
			if st := s.inspect(); st.State != process.Absent {
				t.Errorf("%s: %+v", c.name, st)
			}
		}
		// A failed start does not prevent another.
		if st := s.start("/bin/sleep", "1000"); st.State != process.Running {
			t.Errorf("%+v", st)
		}
	})
}

// ignoredHere returns the signals that were ignored when these tests were started,
// for instance by nohup. No shell can undo that.
func ignoredHere(t *testing.T) uint64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "SigIgn:")
	var mask uint64
	if _, err := fmt.Sscanf(line, "\t%x", &mask); err != nil {
		t.Fatal(err)
	}
	return mask
}

func TestRunningProcessesLooksAtSeveral(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		running := func(name string) []string {
			t.Helper()
			names, err := process.ListRunning(s.ctx, s.host, s.dir+"/proc", name)
			if err != nil {
				t.Fatal(err)
			}
			return names
		}
		if got := running("p"); len(got) > 0 {
			t.Errorf("%q before anything was started", got)
		}
		for _, name := range []string{"p", "p.2", "p.over", "px", "q"} {
			spec := s.spec("/bin/sleep", "1000")
			spec.Dir = s.dir + "/proc/" + name
			if name == "p.over" {
				spec.Argv = []string{"/bin/true"}
			}
			if _, err := process.Start(s.ctx, s.host, spec); err != nil {
				t.Fatal(err)
			}
			if name != "p.over" {
				continue
			}
			eventually(t, "an end", func() bool {
				st, err := process.Inspect(s.ctx, s.host, spec.Dir)
				return err == nil && st.State == process.Exited
			})
		}
		if got := running("p"); !slices.Equal(got, []string{"p", "p.2"}) {
			t.Errorf("%q", got)
		}
		if got := running("nobody"); len(got) > 0 {
			t.Errorf("%q", got)
		}
	})
}

func TestAProcessWhoseGuardFailsDoesNotBegin(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		spec := s.spec("/bin/sh", "-c", `echo "path $PATH"; read -r x`)
		spec.Guard = "echo not printed\necho it\\'s \"$1\" >&2\nPATH=/nowhere\nexport PATH\nexit \"$2\""
		spec.GuardArgs = []string{"a 'guard'", "95"}
		_, err := process.Start(s.ctx, s.host, spec)
		var not *process.StartError
		if !errors.As(err, &not) || not.Guard != 95 || !strings.Contains(not.Reason, "it's a 'guard'") {
			t.Errorf("%v", err)
		}
		if st, err := process.Inspect(s.ctx, s.host, spec.Dir); err != nil || st.State != process.Absent {
			t.Errorf("afterwards: %+v, %v", st, err)
		}
		spec.GuardArgs[1] = "0"
		if st, err := process.Start(s.ctx, s.host, spec); err != nil || st.State != process.Running {
			t.Fatalf("%+v, %v", st, err)
		}
		var got string
		for got == "" {
			res, err := s.host.Run(s.ctx, hostexec.Command{Script: `cat "$1/out.log"`, Args: []string{spec.Dir}})
			if err != nil {
				t.Fatal(err)
			}
			got = string(res.Stdout)
		}
		if !strings.HasPrefix(got, "path ") || strings.Contains(got, "nowhere") {
			t.Errorf("the command printed %q", got)
		}
	})
}
