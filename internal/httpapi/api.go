package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// Bounds on requests, in bytes. A message has at most protocol.MaxChars characters, of which
// JSON may write each in six bytes.
const (
	maxBody    = 1 << 20
	maxMessage = 6*protocol.MaxChars + maxBody
	bodyWait   = 2 * time.Minute
)

// An API serves programs. It implements api.Programs.
type API struct {
	sessions Backend
	records  Records
	huma     huma.API
	mux      *http.ServeMux
	places   []api.Place
	lists    lists
	archives transfers
}

var _ api.Programs = (*API)(nil)

// New returns the API over its two sides.
func New(sessions Backend, records Records) *API {
	a := &API{sessions: sessions, records: records, mux: http.NewServeMux()}
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "Fairlead", Version: "v1", Description: "Durable codex sessions on remote hosts." +
			" Each error is a problem (RFC 9457) whose kind is the same word as ctl's."},
		Components: &huma.Components{
			Schemas: huma.NewMapRegistry("#/components/schemas/", nameOf),
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer", Description: "an API token (ctl token create), over a unix socket or TLS"},
			},
		},
		Security: []map[string][]string{{"token": {}}},
	}
	a.huma = humago.New(a.mux, huma.Config{
		OpenAPI: doc, OpenAPIPath: "/openapi", Formats: map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json", RejectUnknownQueryParameters: true,
	})
	a.places = append(a.places, api.Place{Pattern: "GET /openapi.json", Open: true})
	a.addSessions()
	a.addApprovals()
	a.addRecords()
	a.addWork()
	a.addSnapshots()
	a.addUploads()
	a.addSettings()
	a.addHosts()
	a.addFleetSettings()
	a.addSeeds()
	a.addBatches()
	a.addSchedules()
	a.addAudit()
	describeViews(doc.Components.Schemas)
	return a
}

// Document returns the OpenAPI document.
func (a *API) Document() *huma.OpenAPI { return a.huma.OpenAPI() }

// Places implements api.Programs.
func (a *API) Places() []api.Place { return a.places }

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	a.mux.ServeHTTP(w, r)
}

// Fail implements api.Programs.
func (a *API) Fail(w http.ResponseWriter, _ *http.Request, err *api.Error) { problemOf(err).write(w) }

// A spot is an operation with what its caller needs.
type spot struct {
	method, path string
	id, summary  string
	verb         access.Verb
	session      func(*http.Request) (string, error)
	batch        func(*http.Request) (string, error)
	owner        func(*http.Request) (owned.Owner, error)
	begins       bool
	whole        bool
	status       int // default 200
	body         int64
}

// add registers an operation. Handlers return errors of packages api and errkind.
func add[I, O any](a *API, s spot, handle func(context.Context, *I) (*O, error)) {
	a.places = append(a.places, api.Place{Pattern: s.method + " " + s.path, Verb: s.verb, Session: s.session, Batch: s.batch, Owner: s.owner, Begins: s.begins, Whole: s.whole})
	op := huma.Operation{
		OperationID: s.id, Method: s.method, Path: s.path, Summary: s.summary, DefaultStatus: s.status,
		MaxBodyBytes: s.body, BodyReadTimeout: bodyWait,
	}
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = maxBody
	}
	if s.verb != "" {
		op.Description = "Needs " + string(s.verb) + "."
	}
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, problemOf(err)
		}
		return out, nil
	})
}

// ofSession is for paths with a session's id.
func ofSession(r *http.Request) (string, error) { return sessionID(r.PathValue("id")) }

func sessionID(id string) (string, error) {
	if !protocol.NamePattern.MatchString(id) {
		return "", fmt.Errorf("%.100q is not a session id", id)
	}
	return id, nil
}

// ofApproval is for paths with an approval's id.
func ofApproval(r *http.Request) (string, error) {
	session, _, ok := protocol.CutApproval(r.PathValue("id"))
	if !ok {
		return "", fmt.Errorf("%.100q is not the id of an approval, which looks like SESSION.N", r.PathValue("id"))
	}
	return sessionID(session)
}

// ofSnapshot is for paths with the ids of a session and of one of its snapshots.
func ofSnapshot(r *http.Request) (string, error) {
	session, err := snapshots.SessionOf(r.PathValue("snapshot"))
	if err == nil && session != r.PathValue("id") {
		err = errors.New("the snapshot is of another session")
	}
	return session, err
}

// Keyed is a request that can be repeated.
type Keyed struct {
	Key string `header:"Idempotency-Key" maxLength:"200" doc:"the same key with the same content has the same result; with other content it is refused with status 422"`
}

// of returns the key for the caller of ctx, or "" without one. Keys of principals differ.
func (k Keyed) of(ctx context.Context) string {
	if k.Key == "" {
		return ""
	}
	who, _, _ := api.Principal(ctx)
	sum := sha256.Sum256([]byte(strings.Join([]string{"http", who, k.Key}, "\x00")))
	return "http-" + hex.EncodeToString(sum[:])
}

// Body is an answer with a body.
type Body[T any] struct{ Body T }

func answer[T any](v T, err error) (*Body[T], error) {
	if err != nil {
		return nil, err
	}
	return &Body[T]{v}, nil
}
