package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/protocol"
)

func inputOfBytes(kind protocol.InputKind, name string, data []byte) protocol.Input {
	sum := sha256.Sum256(data)
	return protocol.Input{Kind: kind, Name: name, Digest: hex.EncodeToString(sum[:]), Bytes: int64(len(data))}
}

func TestAFileOfAMessageIsKeptOnceUnderANameThatTellsNothing(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	data := bytes.Repeat([]byte("some text that packs well\n"), 100_000)
	in := inputOfBytes(protocol.InputFile, "notes.txt", data)
	first, err := c.PutInput(t.Context(), aFolder, in, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	in.Name = "other.txt"
	again, err := c.PutInput(t.Context(), aFolder, in, bytes.NewReader(data))
	if err != nil || again.Blob != first.Blob || strings.Contains(first.Blob, in.Digest) {
		t.Errorf("%+v and %+v, %v", first, again, err)
	}
	if err := activities.CheckInputs([]protocol.Input{first, again}); err != nil {
		t.Errorf("what the API gives is refused: %v", err)
	}
	all, err := b.store.List(t.Context(), "owned/")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d blobs, %v", len(all), err)
	}
	got, err := b.store.Get(t.Context(), first.Blob)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("kept %d bytes, %v", len(got), err)
	}
}

func TestAFileThatIsNotWhatItIsSaidToBeIsNotKept(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	data := []byte("hello, this is no picture")
	good := inputOfBytes(protocol.InputFile, "a.txt", data)
	for what, change := range map[string]func(*protocol.Input) io.Reader{
		"other content": func(*protocol.Input) io.Reader { return bytes.NewReader(bytes.ToUpper(data)) },
		"no image":      func(i *protocol.Input) io.Reader { i.Kind = protocol.InputImage; return bytes.NewReader(data) },
		"a path":        func(i *protocol.Input) io.Reader { i.Name = "../a"; return bytes.NewReader(data) },
		"another kind":  func(i *protocol.Input) io.Reader { i.Kind = "audio"; return bytes.NewReader(data) },
		"no digest":     func(i *protocol.Input) io.Reader { i.Digest = "x"; return bytes.NewReader(data) },
		"too big":       func(i *protocol.Input) io.Reader { i.Bytes = 65 << 20; return io.LimitReader(zeros{}, 65<<20) },
		"nothing":       func(i *protocol.Input) io.Reader { i.Bytes = 0; return strings.NewReader("") },
	} {
		in := good
		r := change(&in)
		_, err := c.PutInput(t.Context(), aFolder, in, r)
		var e *Error
		// A refusal may come before the whole file was sent. Then the connection breaks.
		if err == nil || what != "too big" && (!errors.As(err, &e) || e.Status != http.StatusBadRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if all, err := b.store.List(t.Context(), "owned/"); err != nil || len(all) != 0 {
		t.Errorf("%d blobs, %v", len(all), err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestADiffThatIsNotThereIsNotFound(t *testing.T) {
	c := serve(t, nil).client("")
	for _, turn := range []int{0, 3} {
		_, err := c.Diff(t.Context(), "s1", turn)
		var e *Error
		if !errors.As(err, &e) || e.Kind != ErrNotFound {
			t.Errorf("turn %d: %v", turn, err)
		}
	}
}
