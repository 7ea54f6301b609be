package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"time"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots"
)

// MaxArchive bounds an archive of a work folder, in bytes.
const MaxArchive = 16 << 30

// A Sent is a request whose body is a file. The body is read once, and never whole in memory.
type Sent struct {
	W       http.ResponseWriter
	R       *http.Request
	Request string // the same for a repetition with a key
	Digest  string // hex SHA-256 of the body
}

func (s Sent) body() io.Reader {
	return slowly{http.NewResponseController(s.W), http.MaxBytesReader(s.W, s.R.Body, s.R.ContentLength)}
}

// kept is what a request with a key has uploaded.
type kept struct {
	Digest   string `json:"digest"`
	What     string `json:"what"`               // kind and name of a file
	Snapshot string `json:"snapshot,omitempty"` // of a tree
}

// keptBy returns what an earlier request with the same key uploaded, or false. It refuses a request
// for something else.
func (p *Records) keptBy(ctx context.Context, key string, now kept) (was kept, _ bool, err error) {
	data, err := p.s.opts.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return was, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &was)
	}
	if err != nil {
		return was, false, storeProblem(err, "the store is gone")
	}
	if was.Digest != now.Digest || was.What != now.What {
		return was, false, problem(http.StatusUnprocessableEntity, "key_reused", "the key in Idempotency-Key stands for another upload").hinted("send the same file again, or choose another key")
	}
	return was, true, nil
}

// keep records what a request uploaded. If another call for the same request was faster, it returns
// what that one uploaded.
func (p *Records) keep(ctx context.Context, folder, key string, now kept) (kept, error) {
	data, err := json.Marshal(now)
	if err == nil {
		err = p.s.opts.Store.Create(ctx, key, data)
	}
	if errors.Is(err, store.ErrExists) {
		was, _, err := p.keptBy(ctx, key, now)
		return was, err
	}
	if err != nil {
		return now, storeProblem(err, "the store is gone")
	}
	return now, p.s.stays(ctx, folder)
}

// placeOf returns the caller's folder for an upload, and the key of what is recorded of it.
func (p *Records) placeOf(ctx context.Context, owner owned.Owner, request string) (folder, key string, err error) {
	if folder, err = p.folderOf(ctx, owner, request); err != nil {
		return "", "", err
	}
	name, err := p.s.opts.Store.Name([]byte("upload\x00" + request))
	if err != nil {
		return "", "", storeProblem(err, "the store is gone")
	}
	return folder, owned.In(folder, owned.Inputs) + "/" + name, nil
}

// KeepInput keeps a file that goes with a message. Nothing is kept of a file with another digest.
func (p *Records) KeepInput(ctx context.Context, owner owned.Owner, sent Sent, kind protocol.InputKind, name string) (protocol.Input, error) {
	in := protocol.Input{Kind: kind, Name: name, Digest: sent.Digest, Bytes: sent.R.ContentLength}
	folder, key, err := p.placeOf(ctx, owner, sent.Request)
	if err != nil {
		return in, err
	}
	blob, err := p.s.opts.Store.Name([]byte("input\x00" + in.Digest))
	if err != nil {
		return in, storeProblem(err, "the store is gone")
	}
	in.Blob = owned.In(folder, owned.Inputs) + "/" + blob
	if err := activities.CheckInputs([]protocol.Input{in}); err != nil {
		return in, badInput("%v", err)
	}
	now := kept{Digest: in.Digest, What: string(kind) + " " + name}
	if _, _, err := p.keptBy(ctx, key, now); err != nil {
		return in, err
	}
	if err := keepInput(p.s, sent.W, sent.R.WithContext(ctx), in); err != nil {
		return in, err
	}
	_, err = p.keep(ctx, folder, key, now)
	return in, err
}

// KeepTree makes a snapshot of a work folder of an archive (tar), for a session to begin with. There
// is none of an archive with another digest.
func (p *Records) KeepTree(ctx context.Context, session string, sent Sent) (snapshots.Manifest, error) {
	if n := sent.R.ContentLength; n > MaxArchive {
		return snapshots.Manifest{}, tooLong("an archive", fmt.Sprintf("%d bytes", int64(MaxArchive)))
	}
	folder, key, err := p.placeOf(ctx, owned.Owner{Kind: owned.Session, ID: session}, sent.Request)
	if err != nil {
		return snapshots.Manifest{}, err
	}
	body := &digested{from: sent.body(), sum: sha256.New()}
	now := kept{Digest: sent.Digest, What: "tree"}
	was, there, err := p.keptBy(ctx, key, now)
	if err != nil {
		return snapshots.Manifest{}, err
	}
	if there {
		m, err := p.Snapshot(ctx, was.Snapshot)
		var gone *Error
		switch {
		case errors.As(err, &gone) && gone.Kind == ErrNotFound:
			return m, gone.hinted("the snapshot of this request was deleted since: send the archive with another Idempotency-Key")
		case err != nil:
			return m, err
		}
		return m, body.is(sent.Digest)
	}
	who, _, _ := Principal(ctx)
	m, err := snapshots.Unpack(ctx, p.s.opts.Chunks, session, who, time.Now(), body, func() error { return body.is(sent.Digest) })
	var e *Error
	switch {
	case errors.As(err, &e):
		return m, err
	case body.err != nil:
		return m, badInput("read the archive: %v", body.err)
	case errors.Is(err, snapshots.ErrArchive), errors.Is(err, io.ErrUnexpectedEOF):
		return m, badInput("the archive: %v", err)
	case err != nil:
		return m, storeProblem(err, "%v", err)
	}
	now.Snapshot = m.ID
	if was, err = p.keep(ctx, folder, key, now); err != nil {
		p.undo(ctx, key, now)
		return m, err
	}
	if was.Snapshot != m.ID { // another call for this request was faster
		_ = snapshots.Drop(ctx, p.s.opts.Store, m.ID, p.s.holds)
		return p.Snapshot(ctx, was.Snapshot)
	}
	p.s.log.Info("a tree was sent", "session", session, "snapshot", m.ID, "files", m.Files, "bytes", m.Bytes, "added", m.AddedBytes)
	return forPeople(m), nil
}

// undoWait bounds the time in which what is left of a failed upload is deleted.
const undoWait = 30 * time.Second

// undo deletes the snapshot of an upload of which there is no record, since nobody would ever name it. If
// the store does not say whether there is a record, the snapshot stays until it is pruned.
func (p *Records) undo(ctx context.Context, key string, now kept) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWait) // the caller may be gone
	defer cancel()
	was, there, err := p.keptBy(ctx, key, now)
	if err == nil && there && was.Snapshot == now.Snapshot {
		return
	}
	if err == nil {
		err = snapshots.Drop(ctx, p.s.opts.Store, now.Snapshot, p.s.holds)
	}
	if err != nil {
		p.s.log.Warn("the snapshot of an upload that failed stays until it is pruned", "snapshot", now.Snapshot, "error", err)
	}
}

// digested takes the digest of what is read, and remembers why reading failed.
type digested struct {
	from io.Reader
	sum  hash.Hash
	err  error
}

func (d *digested) Read(b []byte) (int, error) {
	n, err := d.from.Read(b)
	d.sum.Write(b[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		d.err = err
	}
	return n, err
}

// is reads to the end, and refuses another digest.
func (d *digested) is(digest string) error {
	if _, err := io.Copy(io.Discard, d); err != nil {
		return badInput("read the archive: %v", err)
	}
	if hex.EncodeToString(d.sum.Sum(nil)) != digest {
		return badInput("the content does not match its digest: the file changed during the upload, or the upload was cut short (send it again)")
	}
	return nil
}
