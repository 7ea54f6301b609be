package hosttest

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
)

func (h target) start(t *testing.T, c hostexec.Command) hostexec.Stream {
	t.Helper()
	s, err := h.Start(h.ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var streamChecks = []check{
	{"StartCarriesBothWays", func(t *testing.T, h target) {
		for _, big := range []bool{false, true} {
			s := h.start(t, hostexec.Command{Script: `printf 'arg %s\n' "$1"; cat; echo done >&2`, Args: []string{"a\nb"}, Bulk: big})
			in := strings.Repeat("0123456789\n", 200_000)
			go func() {
				io.WriteString(s, in)
				s.CloseWrite()
			}()
			out, err := io.ReadAll(s)
			if err != nil || string(out) != "arg a\nb\n"+in {
				t.Errorf("%d bytes, %v", len(out), err)
			}
			if err := s.Wait(); err != nil {
				t.Error(err)
			}
			if got := string(s.Stderr()); got != "done\n" {
				t.Errorf("stderr %q", got)
			}
		}
	}},
	{"StartAnswersWhileItRuns", func(t *testing.T, h target) {
		s := h.start(t, hostexec.Command{Script: `while read -r x; do echo "got $x"; done; exit 4`})
		buf := make([]byte, 64)
		for _, w := range []string{"one", "two", "three"} {
			if _, err := io.WriteString(s, w+"\n"); err != nil {
				t.Fatal(err)
			}
			if n, err := io.ReadFull(s, buf[:len("got \n")+len(w)]); err != nil || string(buf[:n]) != "got "+w+"\n" {
				t.Fatalf("%q, %v", buf[:n], err)
			}
		}
		s.CloseWrite()
		if n, err := s.Read(buf); err != io.EOF {
			t.Errorf("%q, %v", buf[:n], err)
		}
		var exit *hostexec.ExitError
		if err := s.Wait(); !errors.As(err, &exit) || exit.Code != 4 {
			t.Error(err)
		}
		if err := s.Wait(); !errors.As(err, &exit) || exit.Code != 4 {
			t.Errorf("a second Wait: %v", err)
		}
	}},
	{"StartKeepsTheEndOfStderr", func(t *testing.T, h target) {
		s := h.start(t, hostexec.Command{Script: `head -c 300000 /dev/zero >&2; echo the end >&2; kill -9 $$`})
		var exit *hostexec.ExitError
		if err := s.Wait(); !errors.As(err, &exit) || exit.Code != 137 || !strings.HasSuffix(string(exit.Stderr), "the end\n") {
			t.Errorf("%.200v", err)
		}
		if got := s.Stderr(); len(got) != 64<<10 {
			t.Errorf("%d bytes of stderr", len(got))
		}
	}},
	{"StartShowsEOFToTheCommandWhenClosed", func(t *testing.T, h target) {
		dir := h.mkdir(t)
		s := h.start(t, hostexec.Command{Script: `echo ready; cat >/dev/null; : >"$1/eof"`, Args: []string{dir}})
		if _, err := io.ReadFull(s, make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, h.ctx, "the command saw the end of its input", func() bool {
			_, err := os.Stat(dir + "/eof")
			return err == nil
		})
	}},
	{"StartLetsGoOfAReaderWhenClosed", func(t *testing.T, h target) {
		s := h.start(t, hostexec.Command{Script: `echo ready; cat`})
		if _, err := io.ReadFull(s, make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
		read := make(chan error)
		go func() {
			_, err := s.Read(make([]byte, 1))
			read <- err
		}()
		s.Close()
		select {
		case err := <-read:
			if err == nil || err == io.EOF {
				t.Errorf("Read of a closed stream: %v", err)
			}
		case <-h.ctx.Done():
			t.Error("Read went on")
		}
	}},
	{"StartEndsWithItsContext", func(t *testing.T, h target) {
		ctx, cancel := context.WithCancelCause(h.ctx)
		s, err := h.Start(ctx, hostexec.Command{Script: `echo ready; cat`})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := io.ReadFull(s, make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
		why := errors.New("enough")
		cancel(why)
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, hostexec.ErrOutcomeUnknown) || !errors.Is(err, why) {
			t.Errorf("Read: %v", err)
		}
		if err := s.Wait(); !errors.Is(err, hostexec.ErrOutcomeUnknown) || !errors.Is(err, why) {
			t.Errorf("Wait: %v", err)
		}
	}},
	{"StartServesManyAtOnce", func(t *testing.T, h target) {
		var all []hostexec.Stream
		for range 25 {
			all = append(all, h.start(t, hostexec.Command{Script: "cat"}))
		}
		for _, s := range all {
			io.WriteString(s, "x")
			if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
				t.Error(err)
			}
		}
		for _, s := range all {
			s.CloseWrite()
			if err := s.Wait(); err != nil {
				t.Error(err)
			}
		}
	}},
}
