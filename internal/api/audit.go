package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
)

// maxWorkflowID bounds the id of a workflow whose records are asked for.
const maxWorkflowID = 512

// audit streams the audit records of a session or of another workflow, and those of all
// workers, or all there are. With a schedule's id, those of all firings come, too.
// Nothing of them is verified: the caller does that.
func (s *Server) audit(w http.ResponseWriter, r *http.Request) {
	of := ""
	if session := r.URL.Query().Get("session"); session != "" {
		if !namePattern.MatchString(session) {
			s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "%q is not a session id", session))
			return
		}
		of = protocol.SessionID(session)
	}
	if workflow := r.URL.Query().Get("workflow"); workflow != "" {
		if len(workflow) > maxWorkflowID {
			s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "the workflow id has %d bytes, and %d at most are allowed", len(workflow), maxWorkflowID))
			return
		}
		of = workflow
	}
	st := newStream(w)
	for line, err := range (&Records{s}).AuditLines(r.Context(), of) {
		if err != nil {
			s.finish(st, err, Event{Kind: KindEnd})
			return
		}
		if st.emit(Event{Kind: KindAudit, Audit: line}) != nil {
			return
		}
	}
	s.finish(st, nil, Event{Kind: KindEnd})
}

// maxAuditEvent bounds the JSON of an event with a record. JSON writes a byte as six at most.
const maxAuditEvent = 6*(audit.MaxLine+1) + 1<<10

// Audit returns the lines of the audit records that the store has: those of a workflow and of
// workers, or all if workflow is empty. Some may come twice, and some may be of others.
func (c *Client) Audit(ctx context.Context, workflow string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		path := "/v1/audit"
		if session, is := strings.CutPrefix(workflow, protocol.SessionID("")); is {
			path += "?session=" + url.QueryEscape(session)
		} else if workflow != "" {
			path += "?workflow=" + url.QueryEscape(workflow)
		}
		resp, err := c.send(ctx, http.MethodGet, path, nil)
		if err != nil {
			yield("", err)
			return
		}
		defer resp.Body.Close()
		lines := bufio.NewReaderSize(resp.Body, maxAuditEvent)
		for {
			line, err := lines.ReadSlice('\n')
			if err != nil {
				yield("", fmt.Errorf("read the answer of the worker at %s: %w", c.endpoint, cut(err)))
				return
			}
			var ev Event
			switch err := json.Unmarshal(line, &ev); {
			case err != nil:
				yield("", fmt.Errorf("read the answer of the worker at %s: %w", c.endpoint, err))
				return
			case ev.Kind == KindEnd:
				return
			case ev.Kind == KindError && ev.Error != nil:
				yield("", ev.Error)
				return
			case ev.Kind == KindAudit:
				if !yield(ev.Audit, nil) {
					return
				}
			}
		}
	}
}
