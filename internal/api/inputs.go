package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// headBytes of a file show its type.
const headBytes = 16

// input stores a file under a name made of its content, so a folder has it once. The file
// is never whole in memory.
func (s *Server) input(w http.ResponseWriter, r *http.Request) {
	folder, err := folderOf(r)
	var in protocol.Input
	if err == nil {
		in, err = inputOf(r)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	name, err := s.opts.Store.Name([]byte("input\x00" + in.Digest))
	if err == nil {
		in.Blob = owned.In(folder, owned.Inputs) + "/" + name
		err = activities.CheckInputs([]protocol.Input{in})
	}
	if err != nil {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "%v", err))
		return
	}
	if err = keepInput(s, w, r, in); err == nil {
		err = s.stays(r.Context(), folder)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, in)
}

func inputOf(r *http.Request) (protocol.Input, error) {
	q := r.URL.Query()
	in := protocol.Input{Kind: protocol.InputKind(r.PathValue("kind")), Name: q.Get("name"), Digest: q.Get("sha256")}
	size, err := strconv.ParseInt(q.Get("bytes"), 10, 64)
	if err != nil {
		return in, problem(http.StatusBadRequest, ErrBadInput, "bytes=%q is no number", q.Get("bytes"))
	}
	in.Bytes = size
	return in, nil
}

func keepInput(s *Server, w http.ResponseWriter, r *http.Request, in protocol.Input) error {
	there, err := s.opts.Store.Exists(r.Context(), in.Blob)
	if err != nil {
		return storeProblem(err, "the store is gone")
	}
	to := io.Writer(io.Discard) // the data is checked even if the store has the file
	var blob *store.Writer
	if !there {
		if blob, err = s.opts.Store.NewWriter(r.Context(), in.Blob); err != nil {
			return storeProblem(err, "the store is gone")
		}
		defer blob.Abort()
		to = blob
	}
	if err := copyInput(to, slowly{http.NewResponseController(w), http.MaxBytesReader(w, r.Body, in.Bytes)}, in); err != nil {
		return err
	}
	if blob == nil {
		return nil
	}
	if err := blob.Close(); err != nil {
		return storeProblem(err, "the store is gone")
	}
	return nil
}

// copyInput verifies size, digest and type.
func copyInput(to io.Writer, from io.Reader, in protocol.Input) error {
	sum := sha256.New()
	head := make([]byte, headBytes)
	n, err := io.ReadFull(from, head)
	head = head[:n]
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return problem(http.StatusBadRequest, ErrBadInput, "read %s: %v", in.Name, err)
	}
	if in.Kind == protocol.InputImage && activities.ImageType(head) == "" {
		return problem(http.StatusBadRequest, ErrBadInput, "%s is not a PNG, JPEG, GIF or WebP image", in.Name)
	}
	src := &failsAs{r: io.MultiReader(bytes.NewReader(head), from)}
	size, err := io.Copy(io.MultiWriter(sum, to), src)
	var over *http.MaxBytesError
	switch {
	case errors.As(src.err, &over):
		return problem(http.StatusBadRequest, ErrBadInput, "%s is larger than the declared %d bytes: the file changed during the upload (send it again)", in.Name, in.Bytes)
	case src.err != nil:
		return problem(http.StatusBadRequest, ErrBadInput, "read %s: %v", in.Name, src.err)
	case err != nil:
		return storeProblem(err, "the store is gone")
	case size != in.Bytes || hex.EncodeToString(sum.Sum(nil)) != in.Digest:
		return problem(http.StatusBadRequest, ErrBadInput, "the content of %s does not match the declared size and SHA-256: the file changed during the upload, or the upload was cut short (send it again)", in.Name)
	}
	return nil
}

// failsAs records its read error, to tell it from a write error.
type failsAs struct {
	r   io.Reader
	err error
}

func (f *failsAs) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

// slowly allows each read a minute.
type slowly struct {
	rc *http.ResponseController
	r  io.Reader
}

func (s slowly) Read(p []byte) (int, error) {
	_ = s.rc.SetReadDeadline(time.Now().Add(time.Minute)) // not every listener supports deadlines
	return s.r.Read(p)
}

func turnDiff(s *Server, w http.ResponseWriter, r *http.Request) {
	id, err := named(r, "session id", "id")
	turn := 0
	if word := r.PathValue("turn"); err == nil && word != "last" {
		if turn, err = strconv.Atoi(word); err != nil || turn < 1 {
			err = problem(http.StatusBadRequest, ErrBadInput, "%q is neither the number of a turn nor last", word)
		}
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	d, err := records.ReadDiff(r.Context(), s.opts.Store, id, turn)
	if err != nil {
		s.fail(w, diffProblem(id, turn, err))
		return
	}
	s.reply(w, d)
}

const untracked = "codex does not track files that commands write; while the session is on its host, `ctl session diff` without --turn compares its work folder, unless that is your own (--dir)"

func diffProblem(session string, turn int, err error) error {
	switch {
	case errors.Is(err, records.ErrNoDiff) && turn > 0:
		return problem(http.StatusNotFound, ErrNotFound, "turn %d of session %s changed no files that codex knows of", turn, session).hinted(untracked)
	case errors.Is(err, records.ErrNoDiff):
		return problem(http.StatusNotFound, ErrNotFound, "no turn of session %s changed files that codex knows of", session).hinted(untracked)
	}
	return storeProblem(err, "the diff is gone")
}

// PutInput stores a file that goes with a message: in.Bytes bytes of r, whose SHA-256 (hex)
// is in.Digest. It is idempotent.
func (c *Client) PutInput(ctx context.Context, folder string, in protocol.Input, r io.Reader) (protocol.Input, error) {
	v := url.Values{"folder": {folder}, "name": {in.Name}, "sha256": {in.Digest}, "bytes": {strconv.FormatInt(in.Bytes, 10)}}
	resp, err := c.sendStream(ctx, http.MethodPost, "/v1/inputs/"+url.PathEscape(string(in.Kind))+"?"+v.Encode(), r, in.Bytes, in.Digest)
	if err != nil {
		return in, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&in); err != nil {
		return in, fmt.Errorf("read the answer of the worker at %s: %w", c.endpoint, err)
	}
	return in, nil
}

// Diff returns the diff of a turn; 0 means the newest that has one.
func (c *Client) Diff(ctx context.Context, session string, turn int) (protocol.TurnDiff, error) {
	var d protocol.TurnDiff
	word := "last"
	if turn > 0 {
		word = strconv.Itoa(turn)
	}
	err := c.call(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(session)+"/diffs/"+word, nil, &d)
	return d, err
}
