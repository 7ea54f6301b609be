package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"slices"
	"sync"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// manyArchives bounds the archives whose digests a worker remembers.
const manyArchives = 1000

// archives remembers sizes and digests of the archives of snapshots.
type archives struct {
	mu    sync.Mutex
	known map[string]Exported
	order []string
}

func (a *archives) get(id string) (Exported, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.known[id]
	return e, ok
}

func (a *archives) put(id string, e Exported) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.known[id]; ok {
		return
	}
	if a.known == nil {
		a.known = map[string]Exported{}
	}
	a.known[id] = e
	if a.order = append(a.order, id); len(a.order) > manyArchives {
		delete(a.known, a.order[0])
		a.order = a.order[1:]
	}
}

func (a *archives) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.known, id)
	a.order = slices.DeleteFunc(a.order, func(was string) bool { return was == id })
}

// Archive returns the size and the digest of a snapshot's archive (tar). Unless the worker remembers
// them, it reads the whole snapshot.
func (p *Records) Archive(ctx context.Context, id string) (Exported, error) {
	if _, err := snapshots.Read(ctx, p.s.opts.Store, id); err != nil {
		return Exported{}, snapshotProblem(err)
	}
	if e, ok := p.s.archives.get(id); ok {
		return e, nil
	}
	out := counting{sum: sha256.New()}
	if err := snapshots.Export(ctx, p.s.opts.Chunks, id, &out); err != nil {
		return Exported{}, snapshotProblem(err)
	}
	e := Exported{out.n, hex.EncodeToString(out.sum.Sum(nil))}
	p.s.archives.put(id, e)
	return e, nil
}

// ForgetArchive has the digest of a snapshot's archive found out anew: what was sent had another one.
func (p *Records) ForgetArchive(id string) { p.s.archives.forget(id) }

// counting takes size and digest of what is written.
type counting struct {
	sum hash.Hash
	n   int64
}

func (c *counting) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return c.sum.Write(b)
}

// OpenArchive returns the archive of a snapshot as a stream.
func (p *Records) OpenArchive(ctx context.Context, id string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := snapshots.Export(ctx, p.s.opts.Chunks, id, w)
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			p.s.archives.forget(id)
		}
		w.CloseWithError(err) // nil is the end
	}()
	return &piped{r, func() { cancel(); _ = r.Close(); <-done }}, nil
}

// piped is a stream whose writer ends with it.
type piped struct {
	io.Reader
	stop func()
}

func (p *piped) Close() error {
	p.stop()
	return nil
}

// WorkDiff compares the work folder of a session with its start; moving also while a turn runs.
func (p *Records) WorkDiff(ctx context.Context, session string, moving bool) (protocol.WorkDiff, error) {
	if p.s.opts.Workspaces == nil {
		return protocol.WorkDiff{}, noWorkspaces()
	}
	d, err := p.s.opts.Workspaces.WorkDiff(ctx, session, moving)
	if err != nil {
		return d, workProblem(ctx, "compare the work of session "+session+" with its start", err)
	}
	return d, nil
}

// Files writes files of a session's work folder as a tar archive, which is whole without an error.
func (p *Records) Files(ctx context.Context, session string, paths []string, moving bool, to io.Writer) error {
	if p.s.opts.Workspaces == nil {
		return noWorkspaces()
	}
	if err := p.s.opts.Workspaces.FetchFiles(ctx, session, paths, moving, to); err != nil {
		return workProblem(ctx, "fetch from session "+session, err)
	}
	return nil
}

func noWorkspaces() error {
	return problem(http.StatusServiceUnavailable, ErrStore, "this worker reaches no hosts").hinted("ask a worker that runs sessions")
}

// TurnDiff returns what a turn changed, as far as codex knows; 0 is the newest turn that changed files.
func (p *Records) TurnDiff(ctx context.Context, session string, turn int) (protocol.TurnDiff, error) {
	d, err := records.ReadDiff(ctx, p.s.opts.Store, session, turn)
	if err != nil {
		return d, diffProblem(session, turn, err)
	}
	return d, nil
}
