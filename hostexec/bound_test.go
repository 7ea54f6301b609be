package hostexec_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/hostexec/tree"
)

// A hostile host sends text for ever after begin, and never ends its script by itself. Run
// returns run, or fails the test if that is nil.
type hostile struct {
	hostexec.Host
	t           *testing.T
	begin, text string
	run         []byte
}

func (*hostile) Name() string { return "bad-1" }

func (h *hostile) Run(context.Context, hostexec.Command) (hostexec.Result, error) {
	if h.run == nil {
		h.t.Fatal("a command was run")
	}
	return hostexec.Result{Stdout: h.run}, nil
}

func (h *hostile) Start(context.Context, hostexec.Command) (hostexec.Stream, error) {
	return &hostileStream{Reader: io.MultiReader(strings.NewReader(h.begin), &repeated{text: h.text}), closed: make(chan struct{})}, nil
}

type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		c := copy(p[n:], r.text[r.at:])
		n, r.at = n+c, (r.at+c)%len(r.text)
	}
	return len(p), nil
}

type hostileStream struct {
	io.Reader
	once   sync.Once
	closed chan struct{}
}

func (*hostileStream) Write(p []byte) (int, error) { return len(p), nil }
func (*hostileStream) CloseWrite() error           { return nil }
func (*hostileStream) Stderr() []byte              { return nil }
func (s *hostileStream) Close() error              { s.once.Do(func() { close(s.closed) }); return nil }
func (s *hostileStream) Wait() error {
	<-s.closed
	return fmt.Errorf("%w: the test closed the channel", hostexec.ErrOutcomeUnknown)
}

// allocated returns how many bytes f allocated in all, which is never less than what it held
// at one time.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

const mayTake = 64 << 20

func mustBeFlood(t *testing.T, name string, took uint64, err error) {
	t.Helper()
	var flood *hostexec.FloodError
	switch {
	case !errors.As(err, &flood) || flood.Host == "":
		t.Errorf("%s: %.300v", name, err)
	case errors.Is(err, hostexec.ErrOutcomeUnknown), errors.Is(err, hostexec.ErrUnreachable):
		t.Errorf("%s: it looks like a lost connection: %v", name, err)
	}
	if took > mayTake {
		t.Errorf("%s: it took %d MiB", name, took>>20)
	}
}

func TestAHostMayNotSendMoreThanItWasAskedFor(t *testing.T) {
	below := func(h hostexec.Host) error {
		_, err := hostexec.ReadBelow(t.Context(), h, hostexec.Below{Folder: "/work", Path: "file", Max: 1 << 20},
			func(hostexec.BelowFile) (io.Writer, error) { return io.Discard, nil })
		return err
	}
	for name, c := range map[string]struct {
		host hostile
		read func(h hostexec.Host) error
	}{
		"a small file": {hostile{run: make([]byte, 102)}, func(h hostexec.Host) error {
			_, err := hostexec.ReadFile(t.Context(), h, "/file", 100)
			return err
		}},
		"a large file": {hostile{text: "x"}, func(h hostexec.Host) error {
			_, err := hostexec.ReadFile(t.Context(), h, "/file", 8<<20)
			return err
		}},
		"a file that may have changed": {hostile{run: []byte("file\n" + strings.Repeat("x", 102))}, func(h hostexec.Host) error {
			_, _, err := hostexec.ReadChanged(t.Context(), h, "/file", 100, "")
			return err
		}},
		"the description of a file":      {hostile{begin: "file ", text: "x"}, below},
		"a file in a folder of somebody": {hostile{begin: "file 10 - file\n", text: "x"}, below},
		"the status of a process": {hostile{begin: "fairlead-process ", text: "x"}, func(h hostexec.Host) error {
			_, err := process.Attach(t.Context(), h, "/s/proc/app", process.AttachOptions{Follow: true})
			return err
		}},
	} {
		c.host.t = t
		var err error
		took := allocated(func() { err = c.read(&c.host) })
		mustBeFlood(t, name, took, err)
	}
}

// A bomb in a real shell's output costs one call, and the next one works.
func TestABombOfARealShellCostsOneCall(t *testing.T) {
	h := localHost(t)
	const bomb = "exec cat /dev/zero"
	for name, script := range map[string]string{"stdout": bomb, "stderr": bomb + " >&2"} {
		var err error
		took := allocated(func() { _, err = h.Run(t.Context(), hostexec.Command{Script: script}) })
		mustBeFlood(t, "run, "+name, took, err)
	}
	s, err := h.Start(t.Context(), hostexec.Command{Script: bomb + " >&2"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	var took uint64
	go func() {
		took = allocated(func() { _, err = io.ReadAll(s) })
		done <- errors.Join(err, s.Wait())
	}()
	select {
	case err := <-done:
		mustBeFlood(t, "start, stderr", took, err)
	case <-ctx.Done():
		t.Fatal("standard error is read on and on")
	}
	if _, err := h.Run(t.Context(), hostexec.Command{Script: ":"}); err != nil {
		t.Error(err)
	}
}

// A tree whose tar is a bomb costs its caller what the caller allows.
func TestGetStopsWhereItsCallerStops(t *testing.T) {
	enough := errors.New("enough")
	got := 0
	err := tree.Get(t.Context(), &hostile{t: t, text: "x"}, "/work", writer(func(p []byte) (int, error) {
		if got += len(p); got > 1<<20 {
			return 0, enough
		}
		return len(p), nil
	}))
	if !errors.Is(err, enough) || got > 2<<20 {
		t.Errorf("%d bytes, %v", got, err)
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// fresh is a host with other processes each time that it is asked.
type fresh struct {
	hostile
	asked int
}

func (f *fresh) Run(context.Context, hostexec.Command) (hostexec.Result, error) {
	var b strings.Builder
	if f.asked++; f.asked <= 3 {
		for n := range 10_000 {
			fmt.Fprintf(&b, "p %d %s\n", f.asked*100_000+n, strings.Repeat("x", 300))
		}
	}
	return hostexec.Result{Stdout: []byte(b.String())}, nil
}

func TestAHostCannotListProcessesForEver(t *testing.T) {
	found, err := process.Reap(t.Context(), &fresh{}, "/root/sessions/s", "s", hostexec.Fence{Dir: "/root/sessions/s"})
	if err != nil || len(found) != 1000 {
		t.Fatalf("%d processes, %v", len(found), err)
	}
	for _, s := range found {
		if len(s.Command) > 64 {
			t.Fatalf("the name of a process has %d bytes", len(s.Command))
		}
	}
}

func TestALineOfAHostHasABound(t *testing.T) {
	for _, c := range []struct {
		text, line string
		err        error
	}{
		{"1234\nrest", "1234\n", nil}, {"12345\n", "", hostexec.ErrFlood}, {"12345", "", io.EOF}, {"", "", io.EOF}, {"123456", "", hostexec.ErrFlood},
	} {
		line, err := hostexec.ReadLine(bufio.NewReaderSize(strings.NewReader(c.text), 16), 5, "a line")
		if !errors.Is(err, c.err) || err == nil && line != c.line || (err == nil) != (c.err == nil) {
			t.Errorf("%q: %q, %v", c.text, line, err)
		}
	}
	for n := range 8 {
		data, err := hostexec.ReadAll(strings.NewReader(strings.Repeat("x", n)), 5, "it")
		if n <= 5 && (err != nil || len(data) != n) || n > 5 && !errors.Is(err, hostexec.ErrFlood) {
			t.Errorf("%d bytes in all: %d, %v", n, len(data), err)
		}
	}
}
