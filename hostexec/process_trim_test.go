package hostexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
)

// whereHolesAre runs a test on the places whose fallocate can punch holes. Each run has a
// session of its own.
func whereHolesAre(t *testing.T, f func(t *testing.T, s *scene)) {
	for _, p := range places(t) {
		if p.name != "busybox" { // see TestTrimWhereNoHoleCanBePunched
			t.Run(p.name, func(t *testing.T) { f(t, newScene(t, p.host(t))) })
		}
	}
}

func (s *scene) trim(below int64) int64 {
	s.t.Helper()
	freed, err := process.TrimJournal(s.ctx, s.host, s.proc(), below, s.fence)
	if err != nil {
		s.t.Fatal(err)
	}
	return freed
}

// emitted starts a program that prints size bytes of pattern and goes on running, and waits
// for the bytes.
func (s *scene) emitted(size int, to string) {
	s.t.Helper()
	file := s.t.TempDir() + "/data"
	if err := os.WriteFile(file, pattern(1, size), 0o644); err != nil {
		s.t.Fatal(err)
	}
	s.start("/bin/sh", "-c", `cat "$1" >&`+to+`; exec sleep 1000`, "sh", file)
	eventually(s.t, "all is printed", func() bool {
		st := s.inspect()
		return st.Size+st.ErrSize == int64(size)
	})
}

func blocksOf(t *testing.T, path string) int64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func TestTrimGivesBackSpaceAndKeepsOffsets(t *testing.T) {
	const size = 3<<20 + 777
	want := pattern(1, size)
	whereHolesAre(t, func(t *testing.T, s *scene) {
		s.emitted(size, "1")
		log := s.proc() + "/out.log"
		before := blocksOf(t, log)
		for _, c := range []struct{ below, freed, trimmed int64 }{
			{0, 0, 0},
			{4095, 0, 0},
			{1<<20 + 5, 1 << 20, 1 << 20},
			{1<<20 + 5, 0, 1 << 20},
			{4096, 0, 1 << 20}, // a lower offset frees nothing and takes nothing back
			{2 << 20, 1 << 20, 2 << 20},
			{1 << 40, 1 << 20, 3 << 20}, // the offset is beyond the end
		} {
			if freed := s.trim(c.below); freed != c.freed {
				t.Errorf("below %d: freed %d, want %d", c.below, freed, c.freed)
			}
			st := s.inspect()
			if st.Size != size || st.Trimmed != c.trimmed || st.State != process.Running {
				t.Errorf("below %d: %+v", c.below, st)
			}
			data, err := os.ReadFile(log)
			if err != nil || !bytes.Equal(data[c.trimmed:], want[c.trimmed:]) || len(bytes.Trim(data[:c.trimmed], "\x00")) > 0 {
				t.Errorf("below %d: another journal, %v", c.below, err)
			}
		}
		if now := blocksOf(t, log); now > before-3<<20+64<<10 {
			t.Errorf("the journal took %d bytes of the disk and takes %d", before, now)
		}
		s.stop(time.Minute)
		if st := s.inspect(); st.Trimmed != 3<<20 {
			t.Errorf("ended: %+v", st)
		}
		if freed := s.trim(1 << 40); freed != 0 {
			t.Errorf("ended: freed %d", freed)
		}
	})
}

func TestTrimKeepsTheEndOfStderr(t *testing.T) {
	const size = 1<<20 + 99
	want := pattern(1, size)
	whereHolesAre(t, func(t *testing.T, s *scene) {
		s.emitted(size, "2")
		if freed := s.trim(0); freed != 768<<10 {
			t.Errorf("freed %d", freed)
		}
		if took := blocksOf(t, s.proc()+"/err.log"); took > 320<<10 {
			t.Errorf("err.log takes %d bytes", took)
		}
		if _, err := process.Attach(s.ctx, s.host, s.proc(), process.AttachOptions{Follow: true, ErrLog: true, Offset: 4096}); !errors.Is(err, process.ErrJournalLost) {
			t.Errorf("attach to the part of err.log that is gone: %v", err)
		}
		if st := s.stop(time.Minute); st.ErrSize != size || st.ErrTrimmed != 768<<10 || st.StderrTail != string(want[size-4096:]) {
			t.Errorf("%d bytes, %d trimmed, tail %.80q", st.ErrSize, st.ErrTrimmed, st.StderrTail)
		}
	})
}

func TestAttachBelowATrimIsRefused(t *testing.T) {
	const size = 1 << 20
	want := pattern(1, size)
	whereHolesAre(t, func(t *testing.T, s *scene) {
		s.emitted(size, "1")
		s.trim(512<<10 + 1)
		for _, follow := range []bool{false, true} {
			for _, at := range []int64{0, 4096, 512<<10 - 1} {
				a, err := process.Attach(s.ctx, s.host, s.proc(), process.AttachOptions{Fence: s.fence, Follow: follow, Offset: at})
				if !errors.Is(err, process.ErrJournalLost) || !strings.Contains(err.Error(), "trimmed") {
					t.Errorf("at %d: %v", at, err)
				}
				if err == nil {
					a.Close()
				}
			}
			if piece, err := process.ReadJournal(s.ctx, s.host, s.proc(), 512<<10-10); !errors.Is(err, process.ErrJournalLost) {
				t.Errorf("a piece of it: %d bytes, %v", len(piece), err)
			}
			a := s.attach(process.AttachOptions{Follow: follow, Offset: 512 << 10})
			got := make([]byte, size/2)
			if _, err := io.ReadFull(a, got); err != nil || !bytes.Equal(got, want[size/2:]) {
				t.Errorf("at the hole's end: %v", err)
			}
			a.Close()
		}
		s.waitDetached()
	})
}

// A viewer may be far behind. A trim does not wait for it, but the viewer never reads zeros
// of a hole.
func TestSlowFollowerIsToldOfATrim(t *testing.T) {
	const size = 24 << 20
	want := pattern(1, size)
	whereHolesAre(t, func(t *testing.T, s *scene) {
		s.emitted(size, "1")
		f := s.attach(process.AttachOptions{Follow: true})
		first := make([]byte, 10)
		if _, err := io.ReadFull(f, first); err != nil {
			t.Fatal(err)
		}
		s.trim(size - 8192)
		rest, err := io.ReadAll(io.LimitReader(f, size-10))
		got := append(first, rest...)
		if !errors.Is(err, process.ErrJournalLost) {
			t.Errorf("after %d bytes: %v", len(got), err)
		}
		if !bytes.HasPrefix(want, got) {
			t.Errorf("%d bytes that are not the journal's: the first zero is at %d", len(got), bytes.IndexByte(got, 0))
		}
	})
}

// Zeros that the process writes to its journal are data.
func TestZerosOfTheProcessAreNotTakenForAHole(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.start("/bin/sh", "-c", `echo a; head -c 100000 /dev/zero; echo b`)
		a := s.attach(process.AttachOptions{Follow: true})
		got, err := io.ReadAll(a)
		if want := "a\n" + strings.Repeat("\x00", 100000) + "b\n"; err != nil || string(got) != want {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

// A program writes as fast as it can and an attachment reads. Meanwhile the bytes that were
// read are freed again and again. No byte is missing.
func TestTrimUnderALiveWriterLosesNothing(t *testing.T) {
	const size = 40 << 20
	want := pattern(5, size)
	whereHolesAre(t, func(t *testing.T, s *scene) {
		s.program(fmt.Sprintf("emit 5 %d", size))
		a := s.attach(process.AttachOptions{})
		var got []byte
		buf := make([]byte, 256<<10)
		trims := 0
		for {
			n, err := a.Read(buf)
			got = append(got, buf[:n]...)
			if len(got) > (trims+1)<<20 {
				s.trim(int64(len(got)))
				trims++
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes of %d", len(got), size)
		}
		if took := blocksOf(t, s.proc()+"/out.log"); trims < 10 || took > 8<<20 {
			t.Errorf("after %d trims it takes %d bytes", trims, took)
		}
	})
}

// A trim may be killed at any step. The record always covers all bytes that are gone, and
// the next trim frees the rest.
func TestTrimThatIsKilledIsDoneByTheNext(t *testing.T) {
	const size = 8 << 20
	want := pattern(1, size)
	all := []place{{"dash", func(t *testing.T) hostexec.Host { return localHost(t) }}}
	if *everyShell {
		all = places(t)[1:3] // busybox cannot punch holes
	}
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			s := newScene(t, p.host(t))
			s.emitted(size, "1")
			rnd := rand.New(rand.NewPCG(3, 3))
			for below := int64(0); below < size; below += 128 << 10 {
				done := make(chan error, 1)
				ctx, cancel := context.WithCancel(s.ctx)
				go func() {
					_, err := process.TrimJournal(ctx, s.host, s.proc(), below, s.fence)
					done <- err
				}()
				select {
				case <-done:
				case <-time.After(time.Duration(rnd.IntN(12)) * time.Millisecond):
					killStarters(s, false)
					<-done
				}
				cancel()
				st := s.inspect()
				data, err := os.ReadFile(s.proc() + "/out.log")
				if err != nil || len(data) != size {
					t.Fatalf("%d bytes, %v", len(data), err)
				}
				if !bytes.Equal(data[st.Trimmed:], want[st.Trimmed:]) {
					t.Fatalf("on record is %d, gone is more: %+v", st.Trimmed, st)
				}
			}
			s.trim(size)
			if took := blocksOf(t, s.proc()+"/out.log"); took > 64<<10 {
				t.Errorf("%d bytes are still taken", took)
			}
		})
	}
}

func TestTrimWhereNoHoleCanBePunched(t *testing.T) {
	without := func(name string) func(t *testing.T) hostexec.Host {
		return func(t *testing.T) hostexec.Host {
			links := make(map[string]string)
			for _, name := range strings.Fields("sh cat ls tail mkdir mkfifo rm rmdir mv ln grep sleep flock sed find tr setsid") {
				links[name] = lookPath(t, name)
			}
			delete(links, name)
			return &otherShell{localHost(t), farm(t, links)}
		}
	}
	for name, host := range map[string]func(t *testing.T) hostexec.Host{
		"busybox":      func(t *testing.T) hostexec.Host { return &otherShell{localHost(t), busybox(t)} },
		"no fallocate": without("fallocate"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, host(t))
			s.emitted(1<<20, "1")
			if freed, err := process.TrimJournal(s.ctx, s.host, s.proc(), 1<<20, s.fence); !errors.Is(err, hostexec.ErrUnsupported) || freed != 0 || !strings.Contains(err.Error(), "fallocate") {
				t.Errorf("%d, %v", freed, err)
			}
			if st := s.inspect(); st.Trimmed != 0 || st.Size != 1<<20 {
				t.Errorf("%+v", st)
			}
			data, err := os.ReadFile(s.proc() + "/out.log")
			if err != nil || !bytes.Equal(data, pattern(1, 1<<20)) {
				t.Errorf("%d bytes, %v", len(data), err)
			}
		})
	}
	t.Run("file system", func(t *testing.T) {
		s := newScene(t, localHost(t))
		disk := t.TempDir() + "/disk"
		if err := os.Mkdir(disk, 0o755); err != nil {
			t.Fatal(err)
		}
		// ramfs does not support holes.
		if err := syscall.Mount("ramfs", disk, "ramfs", 0, ""); err != nil {
			t.Fatalf("mount a ramfs (needs root): %v", err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		s.dir = disk + "/s"
		s.fence.Dir = s.dir
		s.emitted(1<<20, "1")
		if _, err := process.TrimJournal(s.ctx, s.host, s.proc(), 1<<20, s.fence); !errors.Is(err, hostexec.ErrUnsupported) {
			t.Error(err)
		}
	})
}

// A trim works on a full disk.
func TestTrimMakesRoomOnAFullDisk(t *testing.T) {
	s := newScene(t, localHost(t))
	disk := t.TempDir() + "/disk"
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=512k"); err != nil {
		t.Fatalf("mount a small disk (needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s.dir = disk + "/s"
	s.fence.Dir = s.dir
	s.start("/bin/sh", "-c", `cat /dev/zero; exec sleep 1000`)
	full := func() int64 {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(disk, &fs); err != nil {
			t.Fatal(err)
		}
		return int64(fs.Bfree) * fs.Bsize
	}
	eventually(t, "a full disk", func() bool { return full() == 0 })
	size := s.inspect().Size
	if freed := s.trim(size); freed < 256<<10 || full() < 256<<10 {
		t.Errorf("freed %d of %d, %d are free", freed, size, full())
	}
}

func TestTrimAndRemoveMindTheFenceAndTheState(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		trim := func(f hostexec.Fence) error {
			_, err := process.TrimJournal(s.ctx, s.host, s.proc(), 1, f)
			return err
		}
		remove := func(f hostexec.Fence) error { return process.Remove(s.ctx, s.host, s.proc(), f) }
		if err := trim(s.fence); !errors.Is(err, hostexec.ErrNotExist) {
			t.Errorf("trim before there is one: %v", err)
		}
		if err := remove(s.fence); err != nil {
			t.Errorf("remove before there is one: %v", err)
		}
		s.start("/bin/sleep", "1000")
		if err := remove(s.fence); !errors.Is(err, process.ErrRunning) {
			t.Errorf("remove while it runs: %v", err)
		}
		old := s.fence
		s.fence.Epoch.Pump++
		s.attach(process.AttachOptions{}).Close()
		for what, err := range map[string]error{"trim": trim(old), "remove": remove(old)} {
			if !errors.Is(err, hostexec.ErrFenced) {
				t.Errorf("%s by a former holder: %v", what, err)
			}
		}
		s.stop(time.Minute)
		if err := remove(old); !errors.Is(err, hostexec.ErrFenced) {
			t.Errorf("remove by a former holder: %v", err)
		}
		for range 2 {
			if err := remove(s.fence); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(s.proc()); !os.IsNotExist(err) {
				t.Errorf("it is still there: %v", err)
			}
		}
		if st := s.inspect(); st.State != process.Absent {
			t.Errorf("%+v", st)
		}
		// The folder can be used again, and the new process's status does not show the
		// trim.
		s.start("/bin/sh", "-c", "echo again")
		b, err := io.ReadAll(s.attach(process.AttachOptions{}))
		if string(b) != "again\n" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	})
}
