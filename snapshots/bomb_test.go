package snapshots

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/tree"
)

// A hostile host sends text for ever after begin, and never ends its script by itself.
type hostile struct {
	hostexec.Host
	begin, text string
}

func (*hostile) Name() string { return "bad-1" }
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
	return errors.New("the channel was closed before the script ended")
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

// What git says of a repository is held in memory.
func TestAProbeOfGitThatIsABombCostsLittle(t *testing.T) {
	sections := &strings.Builder{}
	for i := range maxSections {
		fmt.Fprintf(sections, "s%d 0\n", i)
	}
	for name, h := range map[string]*hostile{
		"the head of a section without an end":       {begin: "head ", text: "1"},
		"it says why, and goes on":                   {begin: "why 4\nnone", text: "x"},
		"more sections than there are":               {begin: sections.String() + "one 0\n", text: "x"},
		"a section, and the head of another, at end": {begin: "head 3\nabc", text: "x"},
	} {
		var err error
		took := allocated(func() { _, err = planGit(t.Context(), h, "/work", "/scratch") })
		var flood *hostexec.FloodError
		if !errors.As(err, &flood) || flood.Host != "bad-1" {
			t.Errorf("%s: %.300v", name, err)
		}
		if took > mayTake {
			t.Errorf("%s: it took %d MiB", name, took>>20)
		}
	}
}

// A repository with more changes than the memory may hold is kept in full, and the manifest
// says why. Its lists are not read.
func TestARepositoryWithTooManyChangesIsKeptInFull(t *testing.T) {
	for name, h := range map[string]*hostile{
		"one long list": {begin: fmt.Sprintf("head 3\nabcstatus %d\n", maxGitState), text: "x"},
		"several lists": {begin: fmt.Sprintf("head %d\n%sstatus %d\n", maxGitState/2, strings.Repeat("x", maxGitState/2), maxGitState/2), text: "x"},
	} {
		var p gitPlan
		var err error
		took := allocated(func() { p, err = planGit(t.Context(), h, "/work", "/scratch") })
		if err != nil || !strings.Contains(p.Why, "more than 20 MiB") {
			t.Errorf("%s: %v; why: %.300q", name, err, p.Why)
		}
		if took > mayTake {
			t.Errorf("%s: it took %d MiB", name, took>>20)
		}
	}
}

// A host may not send a file that is larger than the snapshot may be, whatever it listed.
func TestAFileThatIsLargerThanListedCountsBeforeItIsRead(t *testing.T) {
	const most = 1 << 20
	tt := &treeTaking{taking: &taking{spec: TakeSpec{MaxBytes: most}}}
	tt.manifest.Bytes = 10
	h := &held{name: "log"}
	h.Size = 10
	for _, size := range []int64{most + 1, 1 << 40, 1<<63 - 1} {
		err := tt.file(&tree.File{Path: "log", Size: size}, map[string]*held{"log": h})
		if !errors.Is(err, ErrQuota) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func FuzzWhatGitSays(f *testing.F) {
	f.Add([]byte("head 3\nabc"))
	f.Add([]byte("why 4\nnonewhy 4\nnone"))
	f.Add([]byte("head -1\n"))
	f.Add([]byte("head 99999999999999999999\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		took := allocated(func() {
			said, err := gitSections(bytes.NewReader(out), 1<<20)
			total := 0
			for name, data := range said {
				total += len(name) + len(data)
			}
			if err == nil && total > len(out) || len(said) > maxSections {
				t.Errorf("%d sections of %d bytes of %d", len(said), total, len(out))
			}
		})
		if took > 4<<20 {
			t.Errorf("it took %d bytes", took)
		}
	})
}
