package hostexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
)

// Whatever happens to connections and attachments, the process runs once, to its
// end, and every byte is read once.
func TestProcessSurvivesTheLossOfConnections(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 9))
			sshd := hosttest.StartSSHD(t, hosttest.Options{})
			s := newScene(t, newHost(t, sshd.Spec()))
			const size = 6 << 20
			want := pattern(seed, size)
			s.program(fmt.Sprintf("emit %d %d", seed, size))
			var got []byte
			var faults, epochs int
			for {
				s.fence.Epoch.Attempt++
				a, err := process.Attach(s.ctx, s.host, s.proc(), process.AttachOptions{Fence: s.fence, Offset: int64(len(got))})
				if err != nil {
					if !errors.Is(err, hostexec.ErrUnreachable) && !errors.Is(err, hostexec.ErrOutcomeUnknown) {
						t.Fatal(err)
					}
					faults++
					continue
				}
				epochs++
				part := size/12 + rnd.IntN(size/6)
				b, err := io.ReadAll(io.LimitReader(a, int64(part)))
				got = append(got, b...)
				if len(b) < part {
					if err != nil {
						t.Fatal(err)
					}
					a.Close()
					break
				}
				switch rnd.IntN(3) {
				case 0:
					sshd.KillSessions()
					faults++
					// Bytes that were on their way may still be read. After them the
					// connection is lost.
					b, err := io.ReadAll(a)
					got = append(got, b...)
					if err != nil && !errors.Is(err, hostexec.ErrOutcomeUnknown) {
						t.Errorf("killed: %v", err)
					}
				case 1:
					for _, p := range s.attachment() {
						syscall.Kill(p, syscall.SIGKILL)
					}
					faults++
				}
				a.Close()
			}
			t.Logf("%d attachments, %d faults", epochs, faults)
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes, want %d", len(got), size)
			}
			if st := s.inspect(); st.State != process.Exited || st.Code != 0 {
				t.Errorf("%+v", st)
			}
			s.waitDetached()
		})
	}
}

func (s *scene) attachment() (pids []int) {
	for _, p := range s.belongings() {
		var pid int
		fmt.Sscan(p, &pid)
		if strings.Contains(p, "tail ") {
			pids = append(pids, pid)
		}
	}
	ties, _ := filepath.Glob(globEscape(s.proc()) + "/tie.*")
	for _, tie := range ties {
		var pid int
		fmt.Sscanf(filepath.Base(tie), "tie.%d.", &pid)
		pids = append(pids, pid)
	}
	return pids
}

// The script that starts a process may be killed at any moment, with or without the
// supervisor that it started.
func TestStartIsOnceThoughStartersAreKilled(t *testing.T) {
	for _, p := range places(t)[1:] {
		t.Run(p.name, func(t *testing.T) {
			h := p.host(t)
			for seed := range uint64(16) {
				s := newScene(t, h)
				rnd := rand.New(rand.NewPCG(seed, 11))
				begun := t.TempDir() + "/begun"
				spec := s.spec("/bin/sh", "-c", `echo x >>"$1"; exec sleep 1000`, "sh", begun)
				starting := make(chan error)
				go func() {
					_, err := process.Start(s.ctx, h, spec)
					starting <- err
				}()
				supervisorToo := rnd.IntN(2) == 0
				select {
				case <-starting:
				case <-time.After(time.Duration(rnd.IntN(40)) * time.Millisecond):
					killStarters(s, supervisorToo)
					<-starting
				}
				var st process.Status
				eventually(t, "a second start", func() bool {
					var err error
					if st, err = process.Start(s.ctx, h, spec); err != nil && !errors.Is(err, hostexec.ErrOutcomeUnknown) {
						t.Fatalf("seed %d: %v", seed, err)
					}
					return err == nil
				})
				if st.State != process.Running {
					t.Errorf("seed %d: %+v", seed, st)
				}
				eventually(t, "begun", func() bool { b, _ := os.ReadFile(begun); return len(b) > 0 })
				if _, err := process.Stop(s.ctx, h, s.proc(), s.fence, 0); err != nil {
					t.Error(err)
				}
				s.waitGone()
				if b, err := os.ReadFile(begun); string(b) != "x\n" {
					t.Errorf("seed %d: begun %q, %v", seed, b, err)
				}
			}
		})
	}
}

// killStarters kills the shells that are starting a process, all at once, and if
// supervisorToo is set the supervisor with them.
func killStarters(s *scene, supervisorToo bool) {
	var found []int
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		b, _ := os.ReadFile("/proc/" + d.Name() + "/stat")
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(f) < 4 {
			continue
		}
		var pid, ppid int
		fmt.Sscan(d.Name(), &pid)
		fmt.Sscan(f[1], &ppid)
		if ppid == os.Getpid() && f[3] == d.Name() {
			// The process belongs to the Unix session of one of our scripts.
			found = append(found, pid)
		}
	}
	for _, pid := range found {
		if supervisorToo {
			for _, p := range s.belongings() {
				if strings.Contains(p, "fairlead-supervisor") {
					var pid int
					fmt.Sscan(p, &pid)
					syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
		syscall.Kill(-pid, syscall.SIGKILL)
	}
}

func TestSecretsAreInNoCommandLine(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		if _, ok := s.host.(*otherShell); ok {
			// This host passes scripts as arguments, so they are visible. Other hosts run
			// the same commands with the same shells.
			return
		}
		secret := fmt.Sprintf("secret-%d", rand.Uint64())
		ctx, stop := context.WithCancel(s.ctx)
		seen := make(chan string, 1)
		go func() {
			defer close(seen)
			for ctx.Err() == nil {
				if p := whoShows(secret); p != "" {
					seen <- p
					return
				}
			}
		}()
		for i := range 20 {
			spec := s.spec("/bin/sh", "-c", `[ "$SECRET" ] && exec sleep 1000`)
			spec.Dir += fmt.Sprint(i)
			spec.Env = map[string]string{"SECRET": secret, "PAD": strings.Repeat("x", i*1000)}
			if st, err := process.Start(s.ctx, s.host, spec); err != nil || st.State != process.Running {
				t.Fatalf("%+v, %v", st, err)
			}
		}
		stop()
		if p, ok := <-seen; ok {
			t.Errorf("the secret was seen in the arguments of %s", p)
		}
		// The secret is not in a file or in the supervisor's environment either.
		err := filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			if b, _ := os.ReadFile(path); bytes.Contains(b, []byte(secret)) {
				t.Errorf("the secret is in %s", path)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.supervisor()))
		if err != nil || bytes.Contains(env, []byte(secret)) || bytes.Contains(env, []byte(s.mark)) {
			t.Errorf("supervisor's environment: %q, %v", env, err)
		}
	})
}

func whoShows(secret string) string {
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		if b, _ := os.ReadFile("/proc/" + d.Name() + "/cmdline"); bytes.Contains(b, []byte(secret)) {
			return string(b)
		}
	}
	return ""
}

func TestFullDiskIsSaidAndTheEndStillRecorded(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		small := t.TempDir() + "/small"
		if err := os.Mkdir(small, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=256k"); err != nil {
			t.Fatalf("mount a small disk (needs root): %v", err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(small, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		s.dir = small + "/s-1"
		s.fence.Dir = s.dir
		s.start("/bin/sh", "-c", `cat /dev/zero; read -r line; exit 5`)
		eventually(t, "a full disk", func() bool {
			var fs syscall.Statfs_t
			if err := syscall.Statfs(small, &fs); err != nil {
				t.Fatal(err)
			}
			return fs.Bfree == 0
		})
		spec := s.spec("/bin/true")
		spec.Dir = s.dir + "/proc/second"
		st, err := process.Start(s.ctx, s.host, spec)
		if !errors.Is(err, hostexec.ErrNoSpace) {
			t.Errorf("%+v, %v", st, err)
		}
		if st, err := process.Inspect(s.ctx, s.host, spec.Dir); err != nil || st.State != process.Absent {
			t.Errorf("%+v, %v", st, err)
		}
		// The end of the first process can still be recorded.
		in, err := os.OpenFile(s.proc()+"/in", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.WriteString("go\n"); err != nil {
			t.Fatal(err)
		}
		in.Close()
		eventually(t, "an end", func() bool { return s.inspect().State != process.Running })
		if st := s.inspect(); st.State != process.Exited || st.Code != 5 {
			t.Errorf("%+v", st)
		}
	})
}

func TestWithoutSetsid(t *testing.T) {
	tools := func(t *testing.T) map[string]string {
		links := make(map[string]string)
		for _, name := range strings.Fields("sh cat ls tail mkdir mkfifo rm rmdir mv ln grep sleep flock sed find tr") {
			links[name] = lookPath(t, name)
		}
		return links
	}
	t.Run("another way is found", func(t *testing.T) {
		links := tools(t)
		links["perl"] = lookPath(t, "perl")
		s := newScene(t, &otherShell{localHost(t), farm(t, links)})
		st := s.start("/bin/sh", "-c", "exec sleep 1000")
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", st.PID))
		if err != nil {
			t.Fatal(err)
		}
		if f := strings.Fields(string(b)); f[4] != f[0] || f[5] != f[0] {
			t.Errorf("not a session of its own: %s", b)
		}
		if st := s.stop(time.Minute); st.Code != 143 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("there is none", func(t *testing.T) {
		s := newScene(t, &otherShell{localHost(t), farm(t, tools(t))})
		st, err := process.Start(s.ctx, s.host, s.spec("/bin/true"))
		if !errors.Is(err, hostexec.ErrUnsupported) || !strings.Contains(err.Error(), "setsid") {
			t.Errorf("%+v, %v", st, err)
		}
		if st := s.inspect(); st.State != process.Absent {
			t.Errorf("%+v", st)
		}
	})
}
