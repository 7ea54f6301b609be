package console

import (
	"net/http"
	"net/url"
	"strconv"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

type batchList struct {
	Batches []protocol.BatchView
	Next    string // query of the next page
	May     bool
}

// batches lists batches, the newest first.
func (v *visit) batches() error {
	q := url.Values{"limit": {strconv.Itoa(listed)}}
	if c := v.r.URL.Query().Get("cursor"); c != "" {
		q.Set("cursor", c)
	}
	var page struct {
		Items  []protocol.BatchView `json:"items"`
		Cursor string               `json:"cursor"`
	}
	if err := v.get("/v1/batches?"+q.Encode(), &page); err != nil {
		return err
	}
	list := batchList{Batches: page.Items, May: v.may(access.BatchRun, "")}
	if page.Cursor != "" {
		list.Next = "/batches?" + url.Values{"cursor": {page.Cursor}}.Encode()
	}
	return v.show(http.StatusOK, "batches", "Batches", "batches", "/live?of=batches", list)
}

type batchPage struct {
	protocol.BatchShown
	Results []protocol.BatchResult
	From    int
	Next    int // number of the first result of the next page; 0 if there is none
	May     bool
}

// Runs reports whether the batch can be cancelled.
func (b batchPage) Runs() bool { return b.EndedAt == nil }

func (v *visit) batch() error {
	id := v.r.PathValue("id")
	p := batchPage{From: 1}
	if err := v.get("/v1/batches/"+url.PathEscape(id), &p.BatchShown); err != nil {
		return err
	}
	if n, err := strconv.Atoi(v.r.URL.Query().Get("from")); err == nil && n > 0 {
		p.From = n
	}
	var page struct {
		Items []protocol.BatchResult `json:"items"`
	}
	q := url.Values{"limit": {strconv.Itoa(listed)}, "from": {strconv.Itoa(p.From)}}
	if err := v.get("/v1/batches/"+url.PathEscape(id)+"/results?"+q.Encode(), &page); err != nil {
		return err
	}
	p.Results = page.Items
	if n := len(p.Results); n == listed && p.Results[n-1].N < p.BatchShown.Results {
		p.Next = p.Results[n-1].N + 1
	}
	p.May = v.may(access.BatchRun, "")
	return v.show(http.StatusOK, "batch", "Batch "+p.ID, "batches", "/live?"+url.Values{"of": {"batch"}, "id": {p.ID}}.Encode(), p)
}

func (v *visit) cancelBatch() error {
	var b protocol.BatchShown
	at := "/batches/" + url.PathEscape(v.r.PathValue("id"))
	if err := v.get("/v1"+at, &b); err != nil {
		return err
	}
	return v.confirm("batches", change{Title: "Cancel batch " + b.ID, Verb: access.BatchRun, Path: "/v1" + at + "/cancel",
		Body: func(f url.Values) any { return map[string]bool{"discard": f.Get("discard") == "yes"} },
		Question: question{Action: at + "/cancel", Back: at, Button: "Cancel the batch", Grave: true,
			Text: []string{plural(b.Running, "session runs, and is closed.", "sessions run, and are closed."), plural(b.Queued+b.Retrying, "item is not begun.", "items are not begun."), "What has ended stays as it is."},
			Choices: []choice{{Name: "discard", Legend: "Work of the sessions that cannot be saved", Is: "no", Options: []option{
				{"no", "is kept: such a session waits"}, {"yes", "is given up"}}}}}})
}
