package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// maxTree bounds a tree's list of entries, in bytes.
const maxTree = 128 << 20

// missing lists all chunks to a principal, because a shorter list would say what others keep
// in the store.
func (s *Server) missing(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r, maxTree, "a list of chunks")
	var of []chunks.Digest
	if err == nil && json.Unmarshal(body, &of) != nil {
		err = problem(http.StatusBadRequest, ErrBadInput, "the request body is not a JSON list of chunk digests")
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	if callerOf(r.Context()) != nil {
		s.reply(w, of)
		return
	}
	s.reply(w, snapshots.Lacking(r.Context(), s.opts.Chunks, of))
}

// upload makes a snapshot of a tree. The body is one line of JSON, the entries, and then
// each chunk that the store lacks, after its length.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	session := r.URL.Query().Get("session")
	if !namePattern.MatchString(session) {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "%q is not a session id", session))
		return
	}
	in := bufio.NewReaderSize(slowly{http.NewResponseController(w), r.Body}, 256<<10)
	var entries []snapshots.Entry
	head, err := readLine(in)
	if err != nil || json.Unmarshal(head, &entries) != nil {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "the first line of the upload is not a JSON list of the tree's entries"))
		return
	}
	next := func() ([]byte, error) { return readChunk(in) }
	if c := callerOf(r.Context()); c != nil {
		if c.body != "" && command.BodyDigest(bytes.TrimSuffix(head, []byte("\n"))) != c.body {
			s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "the first line of the upload is not the one that was signed"))
			return
		}
		next = owning(entries, next)
	}
	m, err := snapshots.Make(r.Context(), s.opts.Chunks, session, by(r.Context(), ""), time.Now(), entries, next)
	switch {
	case errors.Is(err, snapshots.ErrLacking):
		err = problem(http.StatusConflict, ErrIncomplete, "%v", err).hinted("send it again")
	case errors.Is(err, errTorn):
		err = problem(http.StatusBadRequest, ErrBadInput, "%v", err)
	case err != nil:
		err = storeProblem(err, "%v", err)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	s.log.Info("a tree was sent", "session", session, "snapshot", m.ID, "files", m.Files, "bytes", m.Bytes, "added", m.AddedBytes)
	s.reply(w, forPeople(m))
}

// owning refuses a tree with chunks that were not sent, so that nobody gets what others keep
// by knowing only its digest.
func owning(entries []snapshots.Entry, next func() ([]byte, error)) func() ([]byte, error) {
	missing := map[chunks.Digest]bool{}
	for _, e := range entries {
		for _, c := range e.Content {
			if c.Hole == 0 {
				missing[c.Digest] = true
			}
		}
	}
	return func() ([]byte, error) {
		data, err := next()
		if data != nil {
			delete(missing, chunks.DigestOf(data))
		}
		if err == nil && data == nil && len(missing) > 0 {
			err = fmt.Errorf("%d chunks of the tree were not sent: %w", len(missing), snapshots.ErrLacking)
		}
		return data, err
	}
}

var errTorn = errors.New("the upload of the tree ended early (send it again)")

func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); err == nil {
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxTree {
			return nil, errTorn
		}
	}
}

// readChunk reads a length and a chunk. It returns nil at the end, which is length 0.
func readChunk(in io.Reader) ([]byte, error) {
	var n uint32
	if err := binary.Read(in, binary.BigEndian, &n); err != nil || n > chunks.MaxChunk {
		return nil, errTorn
	}
	if n == 0 {
		return nil, nil
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(in, data); err != nil {
		return nil, errTorn
	}
	return data, nil
}

// PutTree stores a local tree as a snapshot for a session to begin with. It sends only
// chunks that the store lacks; sent counts content bytes.
func (c *Client) PutTree(ctx context.Context, session string, t *snapshots.LocalTree) (m snapshots.Manifest, sent int64, err error) {
	body, err := json.Marshal(t.Chunks())
	if err != nil {
		return m, 0, err
	}
	var lacking []chunks.Digest
	if err := c.call(ctx, http.MethodPost, "/v1/uploads/missing", body, &lacking); err != nil {
		return m, 0, err
	}
	head, err := json.Marshal(t.Entries)
	if err != nil {
		return m, 0, err
	}
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		var err error
		sent, err = sendTree(w, head, t, lacking)
		w.CloseWithError(err)
		done <- err
	}()
	resp, err := c.sendStream(ctx, http.MethodPost, "/v1/uploads?session="+url.QueryEscape(session), r, -1, command.BodyDigest(head))
	r.CloseWithError(io.ErrClosedPipe)
	if serr := <-done; serr != nil && !errors.Is(serr, io.ErrClosedPipe) {
		err = serr
	}
	if err != nil {
		return m, sent, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&m); err != nil {
		return m, sent, fmt.Errorf("read the answer of the worker at %s: %w", c.endpoint, err)
	}
	return m, sent, nil
}

func sendTree(to io.Writer, head []byte, t *snapshots.LocalTree, lacking []chunks.Digest) (sent int64, err error) {
	w := bufio.NewWriterSize(to, 256<<10)
	if _, err := w.Write(append(head, '\n')); err != nil {
		return 0, err
	}
	for _, d := range lacking {
		data, err := t.Read(d)
		if err != nil {
			return sent, err
		}
		err = errors.Join(binary.Write(w, binary.BigEndian, uint32(len(data))))
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			return sent, err
		}
		sent += int64(len(data))
	}
	if err := binary.Write(w, binary.BigEndian, uint32(0)); err != nil {
		return sent, err
	}
	return sent, w.Flush()
}
