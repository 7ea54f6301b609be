package hostexec_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
)

func TestAttachPassesLinesBothWays(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.program("echo")
		a := s.attach(process.AttachOptions{})
		in := bufio.NewReader(a)
		if line, err := in.ReadString('\n'); line != "\n" || err != nil {
			t.Fatalf("first comes %q, %v", line, err)
		}
		for i := range 20 {
			want := fmt.Sprintf("line %d\n", i)
			if _, err := a.Write([]byte(want)); err != nil {
				t.Fatal(err)
			}
			if line, err := in.ReadString('\n'); line != want || err != nil {
				t.Fatalf("%q, %v", line, err)
			}
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		s.waitDetached()
		if st := s.inspect(); st.State != process.Running {
			t.Errorf("%+v", st)
		}
	})
}

func (s *scene) waitDetached() {
	s.t.Helper()
	job := fmt.Sprint(s.inspect().PID)
	var left []string
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		left = left[:0]
		for _, p := range s.belongings() {
			if pid, rest, _ := strings.Cut(p, " "); pid != job && !strings.HasPrefix(rest, "sh -c eval \"$(cat <&3)\" fairlead-supervisor ") {
				left = append(left, p)
			}
		}
		for _, kind := range []string{"tie", "see"} {
			ties, err := filepath.Glob(globEscape(s.proc()) + "/" + kind + ".*")
			if err != nil {
				s.t.Fatal(err)
			}
			left = append(left, ties...)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("of an attachment is left: %.500q", left)
		}
	}
}

func globEscape(s string) string {
	return strings.NewReplacer(`[`, `\[`, `*`, `\*`, `?`, `\?`, `\`, `\\`).Replace(s)
}

func TestReadEndsAfterTheLastByteOnly(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		for seed := range uint64(8) {
			size := 1 << (4 * (seed % 6))
			spec := s.spec(selfPath(t))
			spec.Dir += fmt.Sprint(seed)
			spec.Env = map[string]string{programEnv: fmt.Sprintf("emit %d %d", seed, size)}
			if _, err := process.Start(s.ctx, s.host, spec); err != nil {
				t.Fatal(err)
			}
			a, err := process.Attach(s.ctx, s.host, spec.Dir, process.AttachOptions{Fence: s.fence, Follow: seed%2 == 1})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(a)
			if err != nil || !bytes.Equal(got, pattern(seed, size)) {
				t.Errorf("seed %d: %d of %d bytes, %v", seed, len(got), size, err)
			}
			if st := a.Status(); st.State != process.Exited || st.Code != 0 || st.Size != int64(size) {
				t.Errorf("%+v", st)
			}
			a.Close()
		}
	})
}

func TestJournalArrivesWholeAcrossAttachments(t *testing.T) {
	const size = 50 << 20
	everywhere(t, func(t *testing.T, s *scene) {
		rnd := rand.New(rand.NewPCG(7, 7))
		want := pattern(3, size)
		s.program(fmt.Sprintf("emit 3 %d", size))
		var at int
		for {
			// Reads start and stop at any offset.
			if at > 0 && rnd.IntN(3) == 0 {
				at = rnd.IntN(at)
			}
			a := s.attach(process.AttachOptions{Offset: int64(at), Follow: rnd.IntN(2) == 0})
			limit := int64(rnd.IntN(24 << 20))
			got, err := io.ReadAll(io.LimitReader(a, limit))
			a.Close()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want[at:at+len(got)]) {
				t.Fatalf("other bytes at %d", at)
			}
			at += len(got)
			if int64(len(got)) < limit {
				break
			}
		}
		if at != size {
			t.Errorf("ended at %d of %d", at, size)
		}
		s.waitDetached()
	})
}

func TestLongLinesReachTheProcess(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.program("count")
		a := s.attach(process.AttachOptions{})
		in := bufio.NewReader(a)
		if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "1 ") {
			t.Fatalf("%q, %v", line, err)
		}
		for _, n := range []int{1, 4095, 4096, 70_000, 1 << 20, 20 << 20} {
			line := strings.Repeat("0123456789abcdef", n/16+1)[:n] + "\n"
			if _, err := io.WriteString(a, line); err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("%d %x\n", len(line), sum(line))
			if got, err := in.ReadString('\n'); got != want || err != nil {
				t.Fatalf("%d: %q, want %q, %v", n, got, want, err)
			}
		}
	})
}

func TestTakeOverSilencesTheOlderAttachment(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.program("echo")
		older := s.attach(process.AttachOptions{})
		if _, err := io.WriteString(older, "one\n"); err != nil {
			t.Fatal(err)
		}
		readUntil(t, older, "one\n")
		fence := s.fence
		fence.Epoch.Attempt++
		newer := s.attach(process.AttachOptions{Fence: fence})
		for range 100 {
			// This write or a later one may fail.
			io.WriteString(older, "stale\n")
		}
		if _, err := io.WriteString(newer, "two\n"); err != nil {
			t.Fatal(err)
		}
		readUntil(t, newer, "two\n")
		_, err := io.Copy(io.Discard, older)
		var fenced *hostexec.FencedError
		if !errors.As(err, &fenced) || fenced.Host != fence.Epoch || fenced.Ours != s.fence.Epoch {
			t.Errorf("older: %v", err)
		}
		if _, err := io.WriteString(older, "stale\n"); err == nil {
			t.Errorf("a write after that succeeds")
		}
		if _, err := process.Attach(s.ctx, s.host, s.proc(), process.AttachOptions{Fence: s.fence}); !errors.As(err, &fenced) {
			t.Errorf("lower epoch: %v", err)
		}
		io.WriteString(newer, "three\n")
		readUntil(t, newer, "three\n")
		journal, err := os.ReadFile(s.proc() + "/out.log")
		if err != nil || string(journal) != "\none\n\ntwo\nthree\n" {
			t.Errorf("journal %q, %v", journal, err)
		}
		newer.Close()
		s.fence = fence
		s.waitDetached()
	})
}

func TestFollowersTakeNothingOver(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.start("/bin/sh", "-c", `while IFS= read -r x; do echo "got $x"; echo "err $x" >&2; [ "$x" != end ] || exit 4; done`)
		a := s.attach(process.AttachOptions{})
		readUntil(t, a, "got \n")
		follow := func(opts process.AttachOptions) (process.Attachment, <-chan string) {
			opts.Follow = true
			opts.Fence = hostexec.Fence{Dir: "none is needed"}
			f := s.attach(opts)
			if _, err := f.Write([]byte("x\n")); err == nil {
				t.Errorf("a follower can write")
			}
			all := make(chan string, 1)
			go func() {
				b, err := io.ReadAll(f)
				if err != nil {
					t.Error(err)
				}
				all <- string(b)
			}()
			return f, all
		}
		_, out := follow(process.AttachOptions{})
		_, late := follow(process.AttachOptions{Offset: 5})
		errs, err := follow(process.AttachOptions{ErrLog: true})
		if _, e := io.WriteString(a, "one\nend\n"); e != nil {
			t.Fatal(e)
		}
		readUntil(t, a, "got one\ngot end\n")
		for _, c := range []struct {
			all  <-chan string
			want string
		}{{out, "got \ngot one\ngot end\n"}, {late, "got one\ngot end\n"}, {err, "err \nerr one\nerr end\n"}} {
			if got := <-c.all; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		}
		if st := errs.Status(); st.State != process.Exited || st.Code != 4 || st.ErrSize != 21 {
			t.Errorf("%+v", st)
		}
		if n, err := a.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("%d, %v", n, err)
		}
		s.waitDetached()
	})
}

func readUntil(t testing.TB, r io.Reader, want string) {
	t.Helper()
	var got []byte
	buf := make([]byte, 4096)
	for !bytes.HasSuffix(got, []byte(want)) {
		n, err := r.Read(buf)
		got = append(got, buf[:n]...)
		if err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

func TestWriteToDeadProcessSaysSo(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		st := s.start("/bin/sleep", "1000")
		a := s.attach(process.AttachOptions{})
		go io.Copy(io.Discard, a)
		kill(t, st.PID)
		var err error
		eventually(t, "a failed write", func() bool {
			_, err = io.WriteString(a, "hello\n")
			return err != nil
		})
		if !errors.Is(err, hostexec.ErrProcessGone) {
			t.Errorf("attached: %v", err)
		}
		a.Close()

		again := s.attach(process.AttachOptions{})
		if _, err := io.WriteString(again, "hello\n"); !errors.Is(err, hostexec.ErrProcessGone) {
			t.Errorf("ended before: %v", err)
		}
		if n, err := io.Copy(io.Discard, again); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if st := again.Status(); st.State != process.Exited || st.Code != 137 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAttachNeedsAProcessAndItsJournal(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		try := func(opts process.AttachOptions) error {
			a, err := process.Attach(s.ctx, s.host, s.proc(), opts)
			if err == nil {
				a.Close()
			}
			return err
		}
		if err := try(process.AttachOptions{Fence: s.fence}); !errors.Is(err, hostexec.ErrNotExist) {
			t.Errorf("absent: %v", err)
		}
		s.start("/bin/sh", "-c", "echo some; exec sleep 1000")
		eventually(t, "output", func() bool { return s.inspect().Size == 5 })
		if err := try(process.AttachOptions{Fence: s.fence, Offset: 6}); !errors.Is(err, process.ErrJournalLost) {
			t.Errorf("beyond the end: %v", err)
		}
		if err := try(process.AttachOptions{Fence: s.fence, Offset: 5}); err != nil {
			t.Errorf("at the end: %v", err)
		}
		if err := os.Remove(s.proc() + "/out.log"); err != nil {
			t.Fatal(err)
		}
		if err := try(process.AttachOptions{Fence: s.fence}); !errors.Is(err, process.ErrJournalLost) {
			t.Errorf("deleted: %v", err)
		}
		s.waitDetached()
	})
}

func TestSilentClientIsDropped(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, s *scene) {
		s.program("echo")
		host := s.host
		for _, follow := range []bool{false, true} {
			// The connection is dead, but this side does not know it: no byte that it
			// writes arrives.
			s.host = &mute{Host: host}
			a := s.attach(process.AttachOptions{Silence: time.Second, Follow: follow})
			s.host = host
			_, err := io.Copy(io.Discard, a)
			if !errors.Is(err, hostexec.ErrOutcomeUnknown) {
				t.Errorf("%v", err)
			}
			s.waitDetached()
		}
		// A client that sends blank lines stays attached. Silence is long, because some
		// shells compare times in whole seconds.
		a := s.attach(process.AttachOptions{Silence: 12 * time.Second})
		in := bufio.NewReader(a)
		for range 8 { // blank lines that the attachment sends by itself
			if line, err := in.ReadString('\n'); line != "\n" || err != nil {
				t.Fatalf("%q, %v", line, err)
			}
		}
	})
}

// On the overlay file system of a container, writing to a FIFO does not change its time. A
// client that sends blank lines stays attached there too.
func TestAClientIsHeardOnAnOverlay(t *testing.T) {
	t.Parallel()
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unmount, err := hosttest.Overlay(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unmount(); err != nil {
					t.Error(err)
				}
			})
			s := newSceneIn(t, p.host(t), dir+"/s-1")
			s.program("echo")
			for _, follow := range []bool{false, true} {
				a := s.attach(process.AttachOptions{Silence: 4 * time.Second, Follow: follow})
				if follow {
					// The bytes of the other attachment have arrived, but this attachment's
					// own blank lines do not arrive.
					readUntil(t, a, "\n")
					ended := make(chan error, 1)
					go func() {
						_, err := io.Copy(io.Discard, a)
						ended <- err
					}()
					for looks := 0; looks < 6; looks++ {
						s.awaitLook("see", ended)
					}
					continue
				}
				in := bufio.NewReader(a)
				for range 9 { // blank lines that the attachment sends by itself
					if line, err := in.ReadString('\n'); line != "\n" || err != nil {
						t.Fatalf("%q, %v", line, err)
					}
				}
			}
		})
	}
}

// awaitLook waits until the attachment's ticker on the host has checked the attachment
// again.
func (s *scene) awaitLook(kind string, ended <-chan error) {
	s.t.Helper()
	looked := func() (last time.Time) {
		ticks, err := filepath.Glob(s.proc() + "/" + kind + ".*-t")
		if err != nil {
			s.t.Fatal(err)
		}
		for _, name := range ticks {
			if fi, err := os.Stat(name); err == nil && fi.ModTime().After(last) {
				last = fi.ModTime()
			}
		}
		return last
	}
	before := looked()
	until(s.t.(*testing.T), "the ticker looked", func() bool {
		select {
		case err := <-ended:
			s.t.Fatalf("the attachment ended: %v", err)
		default:
		}
		return looked().After(before)
	})
}

func TestSupervisorKilledMeansLost(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		st := s.start("/bin/sh", "-c", "echo before; exec sleep 1000")
		a := s.attach(process.AttachOptions{Silence: time.Second})
		kill(t, s.supervisor())
		if st := s.inspect(); st.State != process.Running {
			t.Errorf("%+v", st)
		}
		kill(t, st.PID)
		got, err := io.ReadAll(a)
		if string(got) != "before\n" || err != nil || a.Status().State != process.Lost {
			t.Errorf("%q, %v, %+v", got, err, a.Status())
		}
		if st := s.inspect(); st.State != process.Lost {
			t.Errorf("%+v", st)
		}
		s.waitDetached()
	})
}
