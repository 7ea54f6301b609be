package console

import (
	"net/http"
	"net/url"
	"strings"
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
	Forks     bool
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
	list := snapshotList{Session: id, Snapshots: page.Items, Takes: v.may(access.SnapshotWrite, id), Forks: v.may(access.SessionStart, ""), Key: newKey()}
	if page.Cursor != "" {
		list.Next = at + "?" + url.Values{"cursor": {page.Cursor}}.Encode()
	}
	return v.show(http.StatusOK, "snapshots", "Snapshots of "+id, "sessions", "/live?"+url.Values{"of": {"snapshots"}, "id": {id}}.Encode(), list)
}

// fork asks for a session that goes on from where another one is, or from one of its snapshots.
func (v *visit) fork() error {
	id, snapshot := v.r.PathValue("id"), v.r.PathValue("snapshot")
	at := "/sessions/" + url.PathEscape(id)
	c := change{Title: "Fork session " + id, Verb: access.SessionStart, Path: "/v1" + at + "/fork", Begins: true,
		Body: func(f url.Values) any {
			body := map[string]string{}
			for _, name := range []string{"id", "host"} {
				if text := strings.TrimSpace(f.Get(name)); text != "" {
					body[name] = text
				}
			}
			return body
		},
		Question: question{Action: at + "/fork", Back: at + "/snapshots", Button: "Start it",
			Text:   []string{"Another session begins with the conversation and the work folder of " + id + " as they are now. A snapshot of a session on a host is taken first.", id + " stays as it is."},
			Fields: []textField{{Name: "id", Label: "Id", Hint: "made for you"}, {Name: "host", Label: "Host", Hint: "as before"}}}}
	if snapshot != "" {
		c.Title = "Go on from " + snapshot
		c.Path, c.Question.Action = "/v1"+at+"/snapshots/"+url.PathEscape(snapshot)+"/restore", at+"/snapshots/"+url.PathEscape(snapshot)+"/restore"
		c.Question.Text[0] = "Another session begins with the conversation and the work folder of this snapshot."
	}
	return v.confirm("sessions", c)
}
