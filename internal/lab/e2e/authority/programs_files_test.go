package authority

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// file reads an answer that is a file. Without an answer of this status it asks again.
func (p *program) file(status int, target string, header ...string) (data []byte, of *http.Response) {
	p.Helper()
	e2e.Until(p.T, "the file "+target, func() (bool, error) {
		resp, err := p.request(e2e.Within(p.T), "GET", target, "", header...)
		if err != nil {
			return false, nil
		}
		defer resp.Body.Close()
		if data, err = io.ReadAll(resp.Body); err != nil {
			return false, nil
		}
		of = resp
		return resp.StatusCode == status, nil
	})
	return data, of
}

// A program gives a session a work folder and a file, and gets back what codex works with, all with
// digests, from a real host.
func TestAProgramUploadsAndDownloadsFiles(t *testing.T) {
	operator, viewer := newProgram(t, "files-operator", "operator"), newProgram(t, "files-viewer", "viewer")
	var tree bytes.Buffer
	w := tar.NewWriter(&tree)
	text := strings.Repeat("what the program brought\n", 10_000)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "sub/brought.txt", Size: int64(len(text)), Mode: 0o644})
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	digest := func(data string) string {
		sum := sha256.Sum256([]byte(data))
		return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	}
	const id = "files-1"
	upload := func(out any, status int, target, kind, data, sum string) {
		t.Helper()
		operator.must(status, out, "POST", target, data, "Content-Type", kind, "Repr-Digest", sum, "Idempotency-Key", "files "+target)
	}
	var m, again snapshots.Manifest
	upload(&m, http.StatusCreated, "/v1/trees?session="+id, "application/x-tar", tree.String(), digest(tree.String()))
	upload(&again, http.StatusCreated, "/v1/trees?session="+id, "application/x-tar", tree.String(), digest(tree.String()))
	if m.Files != 2 || again.ID != m.ID {
		t.Errorf("uploaded %+v, and again %s", m, again.ID)
	}
	var in protocol.Input
	upload(&in, http.StatusCreated, "/v1/inputs?session="+id+"&name=notes.txt", "application/octet-stream", "blue", digest("blue"))
	var told httpapi.Problem
	upload(&told, http.StatusBadRequest, "/v1/inputs?session="+id+"&name=other.txt", "application/octet-stream", "blue", digest("green"))
	if viewer.must(http.StatusForbidden, &told, "POST", "/v1/inputs?session="+id+"&name=notes.txt", "blue", "Repr-Digest", digest("blue")); told.Kind != "forbidden" {
		t.Errorf("who may send nothing: %+v", told)
	}

	start, err := json.Marshal(httpapi.StartSession{ID: id, Host: "web-1", Seed: "team", FromSnapshot: m.ID, Message: &httpapi.NewMessage{Text: "hello", Inputs: []protocol.Input{in}}})
	if err != nil {
		t.Fatal(err)
	}
	var started httpapi.Started
	operator.must(http.StatusCreated, &started, "POST", "/v1/sessions", string(start), "Idempotency-Key", "files-start")
	t.Cleanup(func() {
		if r := e2e.Lab.Ctl(context.Background(), nil, "session", "close", id); r.Code != 0 && r.Code != 6 {
			t.Errorf("close: %v", r)
		}
	})
	var turn protocol.TurnView
	e2e.Until(t, "the end of the turn", func() (bool, error) {
		viewer.must(http.StatusOK, &turn, "GET", "/v1/sessions/"+id+"/turns/1", "")
		return turn.Done(), nil
	})
	var v protocol.SessionView
	viewer.must(http.StatusOK, &v, "GET", "/v1/sessions/"+id, "")
	if turn.Status != "completed" || len(v.Files) != 1 || v.Files[0].Name != "notes.txt" {
		t.Errorf("turn %+v, files %+v", turn, v.Files)
	}

	// The work folder of the host, and the snapshot of it.
	data, resp := viewer.file(http.StatusOK, "/v1/sessions/"+id+"/work/archive?path=sub/brought.txt")
	if got := fileIn(t, data, "sub/brought.txt"); got != text || resp.Trailer.Get("Repr-Digest") != digest(string(data)) {
		t.Errorf("the work folder has %.60q, trailer %v", got, resp.Trailer)
	}
	var diff protocol.WorkDiff
	viewer.must(http.StatusOK, &diff, "GET", "/v1/sessions/"+id+"/work/diff", "")
	var acc protocol.SnapshotAccepted
	operator.must(http.StatusAccepted, &acc, "POST", "/v1/sessions/"+id+"/snapshots", "", "Idempotency-Key", "files-snapshot")
	var list httpapi.Page[snapshots.Manifest]
	e2e.Until(t, "the snapshot", func() (bool, error) {
		viewer.must(http.StatusOK, &list, "GET", "/v1/sessions/"+id+"/snapshots", "")
		return len(list.Items) > 1 && list.Items[len(list.Items)-1].Complete, nil
	})
	at := "/v1/sessions/" + id + "/snapshots/" + list.Items[len(list.Items)-1].ID + "/archive"
	whole, resp := viewer.file(http.StatusOK, at)
	if fileIn(t, whole, "work/sub/brought.txt") != text || resp.Header.Get("Repr-Digest") != digest(string(whole)) || resp.ContentLength != int64(len(whole)) {
		t.Errorf("the snapshot: %v", resp.Header)
	}
	half := len(whole) / 2
	rest, resp := viewer.file(http.StatusPartialContent, at, "Range", fmt.Sprintf("bytes=%d-", half), "If-Range", resp.Header.Get("ETag"))
	if !bytes.Equal(rest, whole[half:]) || resp.Header.Get("Repr-Digest") != digest(string(whole)) {
		t.Errorf("the second half: %d bytes, %v", len(rest), resp.Header)
	}
}

// fileIn returns a file of an archive.
func fileIn(t *testing.T, archive []byte, name string) string {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err != nil {
			t.Errorf("no %s in the archive: %v", name, err)
			return ""
		}
		if h.Name == name {
			text, err := io.ReadAll(r)
			if err != nil {
				t.Error(err)
			}
			return string(text)
		}
	}
}
