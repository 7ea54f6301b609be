package httpapi

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

// PagedSession names a session in a path, and a page of its data.
type PagedSession struct {
	OfSession
	Paged
}

type entriesInput struct {
	PagedSession
	From int64 `query:"from" minimum:"1" default:"1" doc:"seq of the first entry, without a cursor"`
}

// OfDeliverable names a deliverable in a path.
type OfDeliverable struct {
	OfSession
	Call string `path:"call" pattern:"^i[0-9]{1,9}[.][0-9]{1,18}$" doc:"the deliverable's call"`
}

type deliveredInput struct {
	OfDeliverable
	Ranged
}

func (a *API) addRecords() {
	read := func(path, id, summary string) spot {
		return spot{method: http.MethodGet, path: sessionPath + path, id: id, summary: summary, verb: access.SessionRead, session: ofSession}
	}
	add(a, read("/entries", "listEntries", "Read the transcript"), a.entries)
	add(a, read("/delivered", "listDeliverables", "List what the agent delivered, the oldest first"),
		func(ctx context.Context, in *PagedSession) (*Body[Page[protocol.Deliverable]], error) {
			list, err := a.records.Deliverables(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			return answer(pageOf(in.Paged, "delivered "+in.ID, list, func(d protocol.Deliverable) string { return d.Call }))
		})
	add(a, read("/delivered/{call}", "readDeliverable", "Download a deliverable, whole or in part"), a.delivered)
	a.describeDownload("readDeliverable", "application/octet-stream")
	add(a, read("/events", "followSession", "Follow a session"), a.events)
	a.describe("followSession", "text/event-stream", &huma.Schema{Type: huma.TypeString, Description: eventsText})
}

// describe sets what a streaming operation answers.
func (a *API) describe(id, kind string, of *huma.Schema) {
	for _, item := range a.huma.OpenAPI().Paths {
		if item.Get != nil && item.Get.OperationID == id {
			item.Get.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{kind: {Schema: of}}}
		}
	}
}

// entries pages through a transcript. The entries of the last seconds may be missing while a
// pump is attached; events has them.
func (a *API) entries(ctx context.Context, in *entriesInput) (*Body[Page[protocol.Entry]], error) {
	of := "entries " + in.ID
	after, err := in.after(of)
	if err != nil {
		return nil, err
	}
	from := in.From
	if after != nil {
		if from, err = strconv.ParseInt(string(after), 10, 64); err != nil {
			return nil, badInput("cursor: it is none that this API gave")
		}
	}
	list, err := a.records.Entries(ctx, in.ID, from, in.Limit)
	if err != nil {
		return nil, err
	}
	page, size := Page[protocol.Entry]{Items: []protocol.Entry{}}, 0
	for _, e := range list {
		if size += len(e.Text); size > mostText && len(page.Items) > 0 {
			break
		}
		page.Items = append(page.Items, e)
	}
	if n := len(page.Items); n > 0 && (n == in.Limit || n < len(list)) {
		page.Cursor = cursor{of, strconv.AppendInt(nil, page.Items[n-1].Seq+1, 10)}.String()
	}
	return answer(page, nil)
}

// mostText bounds the texts of one page of entries, in bytes.
const mostText = 8 << 20

// delivered sends a file.
func (a *API) delivered(ctx context.Context, in *deliveredInput) (*huma.StreamResponse, error) {
	d, file, err := a.records.Deliverable(ctx, in.ID, in.Call)
	if err != nil {
		return nil, err
	}
	_ = file.Close() // it is opened where it is read from
	return download{name: d.Name, kind: "application/octet-stream", bytes: d.Bytes, digest: d.Digest, open: func() (io.ReadCloser, error) {
		_, file, err := a.records.Deliverable(ctx, in.ID, in.Call)
		return file, err
	}}.send(), nil
}

// A deadlined writer drops a client that does not read.
type deadlined struct {
	w  io.Writer
	rc *http.ResponseController
}

func (d deadlined) Write(p []byte) (int, error) {
	if err := d.rc.SetWriteDeadline(soon()); err != nil {
		return 0, err
	}
	return d.w.Write(p)
}
