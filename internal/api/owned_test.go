package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
)

const aFolder = "session.s-1.0123456789abcdef"

func TestWhatIsGivenNamesWhomItIsFor(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	page := protocol.BatchPage{Options: []protocol.BatchOptions{{}}, Items: []protocol.BatchItem{{ID: "i", First: []byte(`{}`)}}}
	in := inputOfBytes(protocol.InputFile, "a", []byte("x"))
	puts := map[string]func(folder string) error{
		"a message": func(f string) error { _, err := c.PutMessage(t.Context(), f, "x"); return err },
		"a page":    func(f string) error { _, err := c.PutBatchPage(t.Context(), f, page); return err },
		"a file":    func(f string) error { _, err := c.PutInput(t.Context(), f, in, strings.NewReader("x")); return err },
	}
	var e *Error
	for what, put := range puts {
		for _, folder := range []string{"", "s-1", "session.s-1", "seed.team.0123456789abcdef", "../" + aFolder} {
			if err := put(folder); !errors.As(err, &e) || e.Kind != ErrBadInput {
				t.Errorf("%s for %q: %v", what, folder, err)
			}
		}
		if err := put(aFolder); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	all, err := b.store.List(t.Context(), "owned/"+aFolder+"/")
	if err != nil || len(all) != 3 {
		t.Errorf("kept %v, %v", all, err)
	}
	for _, info := range all {
		if _, _, ok := owned.Parse(info.Key); !ok {
			t.Errorf("kept as %s", info.Key)
		}
	}

	// A caller that comes after the condemnation is told that the folder may be deleted.
	if err := b.store.Put(t.Context(), "owned/"+aFolder+"/condemned", nil); err != nil {
		t.Fatal(err)
	}
	for what, put := range puts {
		if err := put(aFolder); !errors.As(err, &e) || e.Status != http.StatusConflict || e.Kind != ErrRefused {
			t.Errorf("%s into a folder that was given up: %v", what, err)
		}
	}
}

func TestResultsOfABatchAreReadAndNothingElse(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	put := func(family, text string) string {
		key, err := b.store.PutContent(t.Context(), owned.In("batch.b.0123456789abcdef", family), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	if got, err := c.BatchResults(t.Context(), put(owned.Results, "{}\n")); err != nil || string(got) != "{}\n" {
		t.Errorf("read %q, %v", got, err)
	}
	var e *Error
	if got, err := c.BatchResults(t.Context(), put(owned.Tokens, "a-token")); !errors.As(err, &e) || e.Kind != ErrNotFound {
		t.Errorf("a token was read as results: %q, %v", got, err)
	}
}
