package snapshots

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// A movingHost calls a function before a stream begins, and reports when a listing has
// begun and when the first reading has ended.
type movingHost struct {
	hostexec.Host
	read, list   func()
	begun, ended chan struct{}
}

func (h *movingHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	reads, lists := strings.Contains(c.Script, "tar -cf -"), strings.Contains(c.Script, "find . -mindepth 1")
	switch {
	case reads && h.read != nil:
		h.read()
	case lists && h.list != nil:
		h.list()
	}
	s, err := h.Host.Start(ctx, c)
	switch {
	case err == nil && lists && h.begun != nil:
		return &begunStream{Stream: s, begun: h.begun}, nil
	case err == nil && reads && h.ended != nil:
		_ = s.Wait() // the reader of the stream gets the error too
		close(h.ended)
		h.ended = nil
	}
	return s, err
}

// A begunStream reports when data has arrived.
type begunStream struct {
	hostexec.Stream
	begun chan struct{}
	said  bool
}

func (s *begunStream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if n > 0 && !s.said {
		s.said = true
		close(s.begun)
	}
	return n, err
}

// If a folder was listed and is gone when it is read, Take fails. It does not make a
// snapshot without the folder, however large the folder is.
func TestAFolderThatGoesAwayMeanwhileIsMissed(t *testing.T) {
	// The names are so long that a window is full before the listing ends.
	deep := strings.Repeat(strings.Repeat("d", 250)+"/", 14)
	for _, c := range []struct {
		name        string
		large, gone bool
	}{{"for good", false, true}, {"for a moment", false, false}, {"a large one for good", true, true}, {"a large one for a moment", true, false}} {
		t.Run(c.name, func(t *testing.T) {
			dir := aTree(t)
			for i := range 2500 {
				if c.large {
					write(t, dir, fmt.Sprint(deep, i), "text")
				}
			}
			want := int64(len(treeOf(t, dir)) - 1)
			aside := dir + ".aside"
			begun := make(chan struct{})
			var reads atomic.Int64
			h := &movingHost{Host: localHost(t), begun: begun}
			h.read = func() {
				<-begun
				var err error
				switch n := reads.Add(1); {
				case n == 1:
					err = os.Rename(dir, aside)
				case n == 2 && !c.gone:
					err = os.Rename(aside, dir)
				}
				if err != nil {
					t.Error(err)
				}
			}
			m, err := Take(t.Context(), h, chunks.Open(newTestStore(t), chunks.Options{}), workOf(dir))
			switch {
			case c.gone && !errors.Is(err, hostexec.ErrNotExist):
				t.Errorf("a snapshot of a folder that is not there: %v, %d files in %d trees", err, m.Files, len(m.Trees))
			case !c.gone && (err != nil || m.Files != want):
				t.Errorf("%v: %d files, not %d", err, m.Files, want)
			}
		})
	}
}

// A tree that is created at the moment at which the snapshot begins is still read.
func TestAFolderThatComesWhenItIsListedIsTaken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "late")
	opened := make(chan struct{})
	h := &movingHost{Host: localHost(t), ended: opened}
	h.list = func() {
		<-opened
		write(t, dir, "a", "text")
	}
	m, err := Take(t.Context(), h, chunks.Open(newTestStore(t), chunks.Options{}), workOf(dir))
	if err != nil || m.Files != 1 || m.ReadFiles != 1 {
		t.Errorf("%v: %+v", err, m)
	}
}

type panicMasker struct{ chunks.Masker }

func (panicMasker) Next(p []byte) []byte {
	if strings.Contains(string(p), "odd content") {
		panic("a masker's fault")
	}
	return p
}

// A panic while a tree is read ends only that snapshot, not the worker.
func TestAPanicInTheReadingIsAnError(t *testing.T) {
	dir := t.TempDir() + "/w"
	write(t, dir, "a", "odd content")
	spec := workOf(dir)
	spec.Mask = func() chunks.Masker { return panicMasker{mask()} }
	_, err := Take(t.Context(), localHost(t), chunks.Open(newTestStore(t), chunks.Options{}), spec)
	if err == nil || !strings.Contains(err.Error(), "a masker's fault") {
		t.Error(err)
	}
}

// Take notices a refused reading while the listing still goes on.
func TestAReadingThatIsRefusedEndsTheListing(t *testing.T) {
	dir := t.TempDir() + "/w"
	write(t, dir, "a", "text")
	refused := errors.New("no more channels")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Take(ctx, refusingHost{localHost(t), refused}, chunks.Open(newTestStore(t), chunks.Options{}), workOf(dir))
	if !errors.Is(err, refused) || ctx.Err() != nil {
		t.Errorf("%v; given up by hand: %v", err, ctx.Err())
	}
}

// A refusingHost refuses commands that read a tree, and its listings do not end.
type refusingHost struct {
	hostexec.Host
	why error
}

func (h refusingHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	if strings.Contains(c.Script, "tar -cf -") {
		return nil, h.why
	}
	if strings.Contains(c.Script, "find . -mindepth 1") {
		c.Script = `sort() { i=0; while printf "x%09d//. f 644 1 1.0 1.0 1 1 8 1 \0" $i; do i=$((i+1)); sleep 0.01; done; }` + "\n" + c.Script
	}
	return h.Host.Start(ctx, c)
}
