package hostexec_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
)

func (s *scene) leaveWatch(offset int64) {
	s.t.Helper()
	if err := process.LeaveWatch(s.ctx, s.host, s.proc(), offset, s.fence); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) look() []process.Watched {
	s.t.Helper()
	found, err := process.LookWatched(s.ctx, s.host, filepath.Dir(s.dir))
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// sees checks the report of LookWatched on the scene's process.
func (s *scene) sees(want ...process.Watched) {
	s.t.Helper()
	if got := s.look(); fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Fatalf("a look told of %+v, want %+v", got, want)
	}
}

// told returns the report that the scene's process should get.
func told(offset int64, state process.State, code int, size int64) process.Watched {
	return process.Watched{Session: "s-1", Process: "p", Offset: offset, State: state, Code: code, Size: size}
}

func TestAWatchTellsOfWhatAProcessWritesAndOfItsEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.sees() // the folder does not exist yet
		s.start("/bin/sh", "-c", `echo ready; while read -r x; do echo "$x"; done`)
		eventually(t, "the process is ready", func() bool { return s.inspect().Size == 6 })
		s.sees() // the process has no watch
		s.leaveWatch(6)
		s.sees()
		s.sees()
		s.leaveWatch(2)
		s.sees(told(2, process.Running, 0, 6))
		s.leaveWatch(9)
		s.sees(told(9, process.Running, 0, 6))
		if !s.look()[0].Over() {
			t.Error("a journal that was cut short is not called over")
		}
		s.leaveWatch(6)
		f, err := os.OpenFile(s.proc()+"/in", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("more\n"); err != nil {
			t.Fatal(err)
		}
		f.Close()
		eventually(t, "the process answered", func() bool { return s.inspect().Size == 11 })
		s.sees(told(6, process.Running, 0, 11))
		s.leaveWatch(11)
		s.sees()
		kill(t, s.inspect().PID)
		eventually(t, "its end is known", func() bool { return s.inspect().State == process.Exited })
		s.sees(told(11, process.Exited, 137, 11))
		if err := os.Remove(s.proc() + "/out.log"); err != nil {
			t.Fatal(err)
		}
		s.sees(told(11, process.Exited, 137, -1))
	})
}

func TestAWatchTellsOfAProcessWhoseEndNobodySaw(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		st := s.start("/bin/sh", "-c", `echo ready; exec sleep 1000`)
		eventually(t, "the process is ready", func() bool { return s.inspect().Size == 6 })
		s.leaveWatch(6)
		kill(t, s.supervisor())
		s.sees()
		kill(t, st.PID)
		eventually(t, "it is lost", func() bool { return s.inspect().State == process.Lost })
		s.sees(told(6, process.Lost, 0, 6))
	})
}

func TestAWatchTellsOfAReboot(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.start("/bin/sh", "-c", `echo ready; exec sleep 1000`)
		eventually(t, "the process is ready", func() bool { return s.inspect().Size == 6 })
		s.leaveWatch(6)
		// The record looks as if another process had the same pid and start time after a
		// reboot.
		started, err := os.ReadFile(s.proc() + "/started")
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(string(started))
		boot := words[2]
		other := strings.Repeat("0", 8) + boot[8:]
		if err := os.WriteFile(s.proc()+"/started", []byte(strings.Replace(string(started), boot, other, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		marks, err := filepath.Glob(globEscape(s.proc()) + "/watch.*")
		if err != nil || len(marks) != 1 {
			t.Fatalf("watches %q, %v", marks, err)
		}
		if err := os.Rename(marks[0], strings.Replace(marks[0], boot, other, 1)); err != nil {
			t.Fatal(err)
		}
		s.sees(told(6, process.Rebooted, 0, 6))
		if err := os.WriteFile(s.proc()+"/started", started, 0o600); err != nil { // for the clean-up
			t.Fatal(err)
		}
	})
}

func TestAnAttachmentTakesTheWatchBack(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.start("/bin/sh", "-c", `echo ready; while read -r x; do echo "$x"; done`)
		eventually(t, "the process is ready", func() bool { return s.inspect().Size == 6 })
		s.leaveWatch(0)
		s.sees(told(0, process.Running, 0, 6))
		f := s.attach(process.AttachOptions{Follow: true})
		s.sees(told(0, process.Running, 0, 6)) // a viewer does not remove the watch
		f.Close()
		a := s.attach(process.AttachOptions{})
		s.sees()
		a.Close()
		s.waitDetached()
		s.sees()
	})
}

func TestAWatchNeedsAProcessAndTheNewestEpoch(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		err := process.LeaveWatch(s.ctx, s.host, s.proc(), 0, s.fence)
		if !errors.Is(err, hostexec.ErrNotExist) {
			t.Errorf("watch for a process that never began: %v", err)
		}
		s.start("/bin/sh", "-c", "exec sleep 1000")
		older := s.fence
		s.fence.Epoch.Pump++
		s.leaveWatch(0)
		if err := process.LeaveWatch(s.ctx, s.host, s.proc(), 5, older); !errors.Is(err, hostexec.ErrFenced) {
			t.Errorf("watch of an older holder: %v", err)
		}
		s.sees()
		for _, bad := range []struct {
			dir    string
			offset int64
		}{{"proc/p", 0}, {s.proc(), -1}} {
			if err := process.LeaveWatch(s.ctx, s.host, bad.dir, bad.offset, s.fence); err == nil {
				t.Errorf("watch of %+v was left", bad)
			}
		}
	})
}

// manyWatches makes the folders of many sessions that have a watch for the same process.
// The cost of LookWatched depends mostly on the number of watches.
func manyWatches(t testing.TB, s *scene, n int) {
	t.Helper()
	marks, err := filepath.Glob(globEscape(s.proc()) + "/watch.*")
	if err != nil || len(marks) != 1 {
		t.Fatalf("watches %q, %v", marks, err)
	}
	started, err := os.ReadFile(s.proc() + "/started")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		dir := fmt.Sprintf("%s/many-%04d/proc/app-server", filepath.Dir(s.dir), i)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{filepath.Base(marks[0]): nil, "started": started, "out.log": []byte("ready\n")} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestALookFindsTheFewAmongThousands(t *testing.T) {
	s := newScene(t, localHost(t))
	s.start("/bin/sh", "-c", "echo ready; exec sleep 1000")
	eventually(t, "the process is ready", func() bool { return s.inspect().Size == 6 })
	s.leaveWatch(6)
	const many = 2000
	manyWatches(t, s, many)
	everyShell := func(want ...process.Watched) {
		for _, p := range places(t) {
			t.Run(p.name, func(t *testing.T) {
				there := *s
				there.t, there.host = t, p.host(t)
				there.sees(want...)
			})
		}
	}
	everyShell()
	var want []process.Watched
	for _, i := range []int{0, 99, 100, 777, many - 1} {
		name := fmt.Sprintf("many-%04d", i)
		log := filepath.Join(filepath.Dir(s.dir), name, "proc/app-server/out.log")
		if err := os.WriteFile(log, []byte("ready\n{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		want = append(want, process.Watched{Session: name, Process: "app-server", Offset: 6, State: process.Running, Size: 9})
	}
	everyShell(want...)
}

func TestAPieceOfTheJournalIsReadFromAnyLine(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		const size = 3 << 20
		s.program(fmt.Sprintf("emit 5 %d", size))
		eventually(t, "the process ended", func() bool { return s.inspect().State == process.Exited })
		written := pattern(5, size)
		places := []int{0, 1, 65535, 65536, 70001, size - 70000, size - 1, size, size + 200000}
		for _, at := range places {
			if 0 < at && at <= size {
				written[at-1] = '\n'
			}
		}
		if err := os.WriteFile(s.proc()+"/out.log", written, 0o600); err != nil {
			t.Fatal(err)
		}
		all := string(written)
		for _, at := range places {
			got, err := process.ReadJournal(s.ctx, s.host, s.proc(), int64(at))
			want := all[min(at, size):]
			want = want[:min(len(want), process.MaxJournalPiece)]
			if err != nil || string(got) != want {
				t.Errorf("at %d: %d bytes, %v; want %d", at, len(got), err, len(want))
			}
		}
		if err := os.Remove(s.proc() + "/out.log"); err != nil {
			t.Fatal(err)
		}
		if _, err := process.ReadJournal(s.ctx, s.host, s.proc(), 0); !errors.Is(err, hostexec.ErrNotExist) {
			t.Errorf("a journal that is gone: %v", err)
		}
	})
}

func BenchmarkLookAtThousands(b *testing.B) {
	for _, p := range []struct {
		name string
		host hostexec.Host
	}{{"dash", localHost(b)}, {"busybox", &otherShell{localHost(b), busybox(b)}}} {
		b.Run(p.name, func(b *testing.B) {
			s := newScene(b, p.host)
			s.start("/bin/sh", "-c", "echo ready; exec sleep 1000")
			eventually(b, "the process is ready", func() bool { return s.inspect().Size == 6 })
			s.leaveWatch(6)
			manyWatches(b, s, 2000)
			b.ResetTimer()
			for range b.N {
				s.sees()
			}
		})
	}
}

// Environment variables change the output of ls.
func TestAWatchIsNotMisledByHowLsIsSetUp(t *testing.T) {
	for _, set := range []string{"TIME_STYLE=long-iso", "TIME_STYLE=+", "BLOCK_SIZE=1M", "LS_BLOCK_SIZE=1K", "QUOTING_STYLE=c"} {
		t.Run(set, func(t *testing.T) {
			sshd := hosttest.StartSSHD(t, hosttest.Options{Config: []string{"SetEnv " + set}})
			s := newScene(t, newHost(t, sshd.Spec()))
			if res, err := s.host.Run(s.ctx, hostexec.Command{Script: "env"}); err != nil || !strings.Contains(string(res.Stdout), set+"\n") {
				t.Fatalf("the host does not have it: %q, %v", res.Stdout, err)
			}
			s.start("/bin/sh", "-c", `echo ready; exec sleep 1000`)
			eventually(t, "the process is ready", func() bool { return s.inspect().Size == 6 })
			s.leaveWatch(6)
			s.sees()
			s.leaveWatch(2)
			s.sees(told(2, process.Running, 0, 6))
		})
	}
}

// Damaged files in one session's folder do not hide another session.
func TestAWatchThatMakesNoSenseHidesNoOther(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.start("/bin/sh", "-c", `echo ready; exec sleep 1000`)
		eventually(t, "the process is ready", func() bool { return s.inspect().Size == 6 })
		s.leaveWatch(2)
		other := filepath.Dir(s.dir) + "/s-0/proc/p"
		if err := os.MkdirAll(other, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"watch.x.1.2.3", "watch..1.2.3", "watch.-1.1.2.3", "watch.99999999999999999999.1.2.3", "watch.1.2.3"} {
			if err := os.WriteFile(other+"/"+name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.sees(told(2, process.Running, 0, 6))
		// An exit file that cannot be parsed does not count as an exit, so the process
		// counts as running.
		if err := os.WriteFile(s.proc()+"/exit", []byte("what 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.sees(told(2, process.Running, 0, 6))
		if err := os.Remove(s.proc() + "/exit"); err != nil { // for the clean-up
			t.Fatal(err)
		}
	})
}
