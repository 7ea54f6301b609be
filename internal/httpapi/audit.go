package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
)

// AboutRecords narrows audit records.
type AboutRecords struct {
	Session  string `query:"session" maxLength:"63" doc:"only records about this session"`
	Workflow string `query:"workflow" maxLength:"512" doc:"only records about this workflow or Schedule, as in pool/default, seed/team, batch/nightly or schedule/nightly"`
	Since    string `query:"since" maxLength:"40" doc:"only records from a time on: 2026-05-04T12:00:00Z, or 24h for the last day"`
}

func (in *AboutRecords) filter() (f audit.Filter, err error) {
	f.Workflow = in.Workflow
	if in.Session != "" {
		if _, err := sessionID(in.Session); err != nil {
			return f, badInput("session: %v", err)
		}
		if in.Workflow != "" {
			return f, badInput("session and workflow are both given")
		}
		f.Workflow = protocol.SessionID(in.Session)
	}
	if in.Since == "" {
		return f, nil
	}
	if d, err := time.ParseDuration(in.Since); err == nil && d >= 0 {
		f.From = time.Now().Add(-d)
		return f, nil
	}
	if f.From, err = time.Parse(time.RFC3339, in.Since); err != nil {
		return f, badInput("since: %.40q is neither a time as in 2026-05-04T12:00:00Z nor a duration as in 24h", in.Since)
	}
	return f, nil
}

type recordsInput struct {
	AboutRecords
	Paged
}

type verifyInput struct {
	AboutRecords
	Proofs bool `query:"proofs" doc:"also judge the evidence of each record by the access file that counts now"`
}

func (a *API) addAudit() {
	spotOf := func(path, id, summary string) spot {
		return spot{method: http.MethodGet, path: "/v1/audit/" + path, id: id, summary: summary, verb: access.AuditRead, whole: true}
	}
	add(a, spotOf("records", "listAuditRecords", "List who did what, and what was refused, in the order of time. Nothing is verified"), a.auditRecords)
	add(a, spotOf("verify", "verifyAudit", "Verify that no record was changed, removed or added"),
		func(ctx context.Context, in *verifyInput) (*Body[audit.Verified], error) {
			f, err := in.filter()
			if err != nil {
				return nil, err
			}
			leave, err := a.lists.enter(ctx)
			if err != nil {
				return nil, err
			}
			defer leave()
			return answer(a.sessions.VerifyAudit(ctx, f, in.Proofs))
		})
	add(a, spotOf("export", "exportAudit", "Export records as JSON lines that sha256sum can verify, chain by chain. The header Fairlead-Sha256 has the digest of all"), a.exportAudit)
	a.describe("exportAudit", "application/x-ndjson", &huma.Schema{Type: huma.TypeString, Description: "a record in each line"})
}

func idOfRecord(r audit.Record) string { return r.Entity + " " + strconv.FormatInt(r.Seq, 10) }

// auditLogs reads records, as one of the lists that a principal may read at a time.
func (a *API) auditLogs(ctx context.Context, f audit.Filter) ([]audit.Log, error) {
	leave, err := a.lists.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return a.sessions.AuditRecords(ctx, f)
}

func (a *API) auditRecords(ctx context.Context, in *recordsInput) (*Body[Page[audit.Record]], error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	logs, err := a.auditLogs(ctx, f)
	if err != nil {
		return nil, err
	}
	var all []audit.Record
	for _, l := range logs {
		for _, r := range l.Records {
			if f.Wants(r) {
				all = append(all, r)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y audit.Record) int {
		return cmp.Or(x.Time().Compare(y.Time()), strings.Compare(x.Entity, y.Entity), cmp.Compare(x.Seq, y.Seq))
	})
	// A duration moves on between two pages.
	of := fmt.Sprintf("audit %s %s", f.Workflow, in.Since)
	return answer(pageOf(in.Paged, of, all, idOfRecord))
}

func (a *API) exportAudit(ctx context.Context, in *AboutRecords) (*huma.StreamResponse, error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	logs, err := a.auditLogs(ctx, f)
	if err != nil {
		return nil, err
	}
	sum, size := sha256.New(), 0
	each := func(do func(line string) error) error {
		for _, l := range logs {
			for i, r := range l.Records {
				if f.Wants(r) {
					if err := do(l.Lines[i] + "\n"); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	_ = each(func(line string) error { // cannot fail
		size += len(line)
		_, err := sum.Write([]byte(line))
		return err
	})
	return &huma.StreamResponse{Body: func(c huma.Context) {
		_, w := humago.Unwrap(c)
		h := w.Header()
		h.Set("Content-Type", "application/x-ndjson")
		h.Set("Content-Length", strconv.Itoa(size))
		h.Set("Fairlead-Sha256", hex.EncodeToString(sum.Sum(nil)))
		out := deadlined{w, http.NewResponseController(w)}
		if err := each(func(line string) error { _, err := out.Write([]byte(line)); return err }); err != nil {
			panic(http.ErrAbortHandler) // the client must not take it for whole
		}
	}}, nil
}
