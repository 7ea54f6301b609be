package console

import (
	"net/http"
	"net/url"
	"time"

	"fairlead.dev/fairlead/internal/access"
)

// A snapshotRow is what the page shows of a snapshot.
type snapshotRow struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	Turn      int       `json:"turn"`
	Running   bool      `json:"running"`
	Host      string    `json:"host"`
	Files     int64     `json:"files"`
	Bytes     int64     `json:"bytes"`
	Added     int64     `json:"added_bytes"`
	LeftOut   int64     `json:"left_out_count"`
	Complete  bool      `json:"complete"`
}

type snapshotList struct {
	Session   string
	Snapshots []snapshotRow
	Next      string // query of the next page
	Takes     bool
	Key       string
}

// snapshots lists what is kept of a session, the oldest first.
func (v *visit) snapshots() error {
	id := v.r.PathValue("id")
	q := url.Values{"limit": {"100"}}
	if c := v.r.URL.Query().Get("cursor"); c != "" {
		q.Set("cursor", c)
	}
	var page struct {
		Items  []snapshotRow `json:"items"`
		Cursor string        `json:"cursor"`
	}
	at := "/sessions/" + url.PathEscape(id) + "/snapshots"
	if err := v.get("/v1"+at+"?"+q.Encode(), &page); err != nil {
		return err
	}
	list := snapshotList{Session: id, Snapshots: page.Items, Takes: v.may(access.SnapshotWrite, id), Key: newKey()}
	if page.Cursor != "" {
		list.Next = at + "?" + url.Values{"cursor": {page.Cursor}}.Encode()
	}
	return v.show(http.StatusOK, "snapshots", "Snapshots of "+id, "sessions", "/live?"+url.Values{"of": {"snapshots"}, "id": {id}}.Encode(), list)
}
