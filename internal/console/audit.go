package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
)

type auditView struct {
	Records []audit.Record
	Session string
	Find    string
	Outcome string
	More    int
}

// maxRecords bounds the records on a page: the newest.
const maxRecords = 300

// audit lists audit records, the newest first. It verifies nothing: ctl audit verify does.
func (v *visit) audit() error {
	q := v.r.URL.Query()
	view := auditView{Session: strings.TrimSpace(q.Get("session")), Find: strings.TrimSpace(q.Get("find")), Outcome: q.Get("outcome")}
	path := "/v1/audit"
	if view.Session != "" {
		if !protocol.NamePattern.MatchString(view.Session) {
			return &Problem{Status: http.StatusBadRequest, Detail: cut(view.Session, 80) + " is not the id of a session"}
		}
		path += "?session=" + url.QueryEscape(view.Session)
	}
	var raw []byte
	if err := v.get(path, &raw); err != nil {
		return err
	}
	seen := map[string]bool{}
	for line := range bytes.Lines(raw) {
		var ev api.Event
		var r audit.Record
		if json.Unmarshal(line, &ev) != nil || ev.Kind != api.KindAudit || seen[ev.Audit] || json.Unmarshal([]byte(ev.Audit), &r) != nil {
			continue
		}
		seen[ev.Audit] = true
		if view.matches(r) {
			view.Records = append(view.Records, r)
		}
	}
	slices.SortStableFunc(view.Records, func(a, b audit.Record) int { return strings.Compare(b.At, a.At) })
	if n := len(view.Records); n > maxRecords {
		view.Records, view.More = view.Records[:maxRecords], n-maxRecords
	}
	return v.show(http.StatusOK, "audit", "Audit", "audit", "", view)
}

func (a *auditView) matches(r audit.Record) bool {
	if a.Outcome != "" && r.Outcome != a.Outcome {
		return false
	}
	in := strings.ToLower(strings.Join([]string{r.Principal, r.Verb, r.Object, r.Reason}, "\n"))
	return strings.Contains(in, strings.ToLower(a.Find))
}
