package seeds

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
)

// A homeBomb is a host with a CODEX_HOME whose archive goes on for ever.
type homeBomb struct {
	hostexec.Host
	file func(n int) *tar.Header
}

func (homeBomb) Name() string { return "bad-1" }

func (homeBomb) Run(context.Context, hostexec.Command) (hostexec.Result, error) {
	return hostexec.Result{Stdout: []byte("auth.json skills" + strings.Repeat(" other", 1000))}, nil
}

func (h homeBomb) Start(_ context.Context, c hostexec.Command) (hostexec.Stream, error) {
	if len(c.Args) != 3 {
		return nil, fmt.Errorf("%d names are asked for", len(c.Args)-1)
	}
	r, w := io.Pipe()
	go func() {
		out := tar.NewWriter(w)
		for n := 0; ; n++ {
			f := h.file(n)
			if err := out.WriteHeader(f); err != nil {
				return
			}
			if _, err := io.CopyN(out, zeros{}, f.Size); err != nil {
				return
			}
		}
	}()
	return homeStream{r}, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type homeStream struct{ *io.PipeReader }

func (homeStream) Write(p []byte) (int, error) { return len(p), nil }
func (homeStream) CloseWrite() error           { return nil }
func (homeStream) Stderr() []byte              { return nil }
func (homeStream) Wait() error                 { return errors.New("it has not ended") }

func TestACapturedHomeThatIsABombCostsLittle(t *testing.T) {
	for name, c := range map[string]struct {
		file func(n int) *tar.Header
		why  string
	}{
		"files of a seed": {func(n int) *tar.Header {
			return &tar.Header{Name: fmt.Sprintf("./skills/%d/SKILL.md", n), Mode: 0o600, Size: 1 << 20}
		}, "too much for a seed"},
		"other files": {func(n int) *tar.Header {
			return &tar.Header{Name: fmt.Sprintf("./other/%d", n), Mode: 0o600, Size: 1 << 20}
		}, "larger than 64 MiB"},
		"a huge file":       {func(int) *tar.Header { return &tar.Header{Name: "./auth.json", Mode: 0o600, Size: 1 << 40} }, "larger than 4 MiB"},
		"a huge other file": {func(int) *tar.Header { return &tar.Header{Name: "./other", Mode: 0o600, Size: 1 << 40} }, "larger than 64 MiB"},
	} {
		before, after := heap(), uint64(0)
		_, err := Capture(t.Context(), homeBomb{file: c.file}, "/home/me/.codex")
		if after = heap(); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
		// What grows is allocated anew: a file of n bytes takes some 5n in all.
		if took := after - before; took > 5*2*maxBytes {
			t.Errorf("%s: it took %d MiB in all", name, took>>20)
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
