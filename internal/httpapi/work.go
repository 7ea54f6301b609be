package httpapi

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

// OfWork names the work folder of a session.
type OfWork struct {
	OfSession
	Moving bool `query:"while_running" doc:"also while a turn writes to the folder"`
}

type filesInput struct {
	OfWork
	Paths []string `query:"path,explode" required:"true" minItems:"1" maxItems:"100" doc:"file or folder in the work folder; repeatable"`
}

type turnDiffInput struct {
	OfSession
	N int `path:"n" minimum:"0" doc:"turn; 0 is the newest that changed files"`
}

func (a *API) addWork() {
	read := func(path, id, summary string) spot {
		return spot{method: http.MethodGet, path: sessionPath + path, id: id, summary: summary, verb: access.SessionRead, session: ofSession}
	}
	add(a, read("/work/diff", "diffWork", "Compare the work folder of a session on a host with how it was at the start"),
		func(ctx context.Context, in *OfWork) (*Body[protocol.WorkDiff], error) {
			return answer(a.records.WorkDiff(ctx, in.ID, in.Moving))
		})
	add(a, read("/work/archive", "fetchWork", "Fetch files of the work folder of a session on a host, as a tar archive. The trailer Repr-Digest has its sha-256. An archive that is cut off is not whole"), a.fetchWork)
	a.describe("fetchWork", "application/x-tar", &huma.Schema{Type: huma.TypeString, Format: "binary"})
	add(a, read("/turns/{n}/diff", "diffTurn", "Show what a turn changed in files, as far as codex knows"),
		func(ctx context.Context, in *turnDiffInput) (*Body[protocol.TurnDiff], error) {
			return answer(a.records.TurnDiff(ctx, in.ID, in.N))
		})
}

// fetchWork streams files as they come from the host. Neither size nor digest are known before.
func (a *API) fetchWork(ctx context.Context, in *filesInput) (*huma.StreamResponse, error) {
	leave, err := a.archives.enter(ctx)
	if err != nil {
		return nil, err
	}
	// The first bytes come only from a host that answers, so that a refusal is a Problem.
	r, w := io.Pipe()
	first := make(chan error, 1)
	out := &begun{to: w, first: first}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := bufio.NewWriterSize(out, 256<<10)
		err := a.records.Files(ctx, in.ID, in.Paths, in.Moving, buf)
		if err == nil {
			err = buf.Flush()
		}
		w.CloseWithError(err)
		out.begin(err)
	}()
	select {
	case err := <-first:
		if err != nil {
			_ = r.Close()
			<-ended
			leave()
			return nil, err
		}
	case <-ctx.Done():
		_ = r.CloseWithError(context.Cause(ctx))
		<-ended
		leave()
		return nil, context.Cause(ctx)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer func() { _ = r.Close(); <-ended; leave() }()
		_, w := humago.Unwrap(c)
		h := w.Header()
		h.Set("Content-Type", "application/x-tar")
		h.Set("Content-Disposition", "attachment")
		h.Set("Accept-Ranges", "none")
		h.Set("Trailer", "Repr-Digest")
		sum := sha256.New()
		if _, err := io.Copy(io.MultiWriter(deadlined{w, http.NewResponseController(w)}, sum), r); err != nil {
			panic(http.ErrAbortHandler) // the client must not take it for whole
		}
		h.Set("Repr-Digest", reprDigest(hex.EncodeToString(sum.Sum(nil))))
	}}, nil
}

// begun tells when the first bytes come, or why none does.
type begun struct {
	to    io.Writer
	first chan<- error
	told  bool
}

func (b *begun) Write(p []byte) (int, error) {
	b.begin(nil)
	return b.to.Write(p)
}

func (b *begun) begin(err error) {
	if !b.told {
		b.told = true
		b.first <- err
	}
}
