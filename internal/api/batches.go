package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
)

// StoredPage names a page of a batch's items in the store.
type StoredPage struct {
	Blob string `json:"blob"`
}

func (s *Server) batchPage(w http.ResponseWriter, r *http.Request) {
	folder, err := folderOf(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	data, err := readBody(w, r, batches.MaxBatchPage, "a page of a batch")
	if err != nil {
		s.fail(w, err)
		return
	}
	var page protocol.BatchPage
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&page); err != nil {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "the page is no JSON of a batch's items: %v", err))
		return
	}
	if err := batches.CheckBatchPage(page); err != nil {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "%v", err))
		return
	}
	key, err := s.putOwned(r.Context(), folder, owned.Pages, data)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, StoredPage{Blob: key})
}

func (s *Server) batchResults(w http.ResponseWriter, r *http.Request) {
	data, err := batches.ReadResults(r.Context(), s.opts.Store, owned.In(r.PathValue("folder"), owned.Results)+"/"+r.PathValue("part"))
	switch {
	case errors.Is(err, batches.ErrNoResults):
		s.fail(w, problem(http.StatusNotFound, ErrNotFound, "there is no such part of a batch's results"))
	case err != nil:
		s.fail(w, storeProblem(err, "the results are gone"))
	default:
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = w.Write(data) // after a lost connection the caller asks again
	}
}

// PutBatchPage stores a page of a batch's items in its owner's folder. It is idempotent.
func (c *Client) PutBatchPage(ctx context.Context, folder string, page protocol.BatchPage) (StoredPage, error) {
	var st StoredPage
	body, err := json.Marshal(page)
	if err == nil {
		err = c.call(ctx, http.MethodPost, "/v1/batches?"+inFolder(folder), body, &st)
	}
	return st, err
}

// BatchResults returns a part of the results as JSON lines.
func (c *Client) BatchResults(ctx context.Context, blob string) ([]byte, error) {
	folder, _, _ := owned.Parse(blob)
	resp, err := c.send(ctx, http.MethodGet, "/v1/batches/results/"+url.PathEscape(folder)+"/"+url.PathEscape(path.Base(blob)), nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, batches.MaxBatchPage))
	if err != nil {
		return nil, fmt.Errorf("read the answer of the worker at %s: %w", c.endpoint, err)
	}
	return data, nil
}
