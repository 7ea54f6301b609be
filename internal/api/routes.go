package api

import (
	"net/http"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// A route is one place of the API: what it does, and what its caller must be allowed.
type route struct {
	pattern string
	serve   func(*Server, http.ResponseWriter, *http.Request)
	needs   func(*http.Request) (need, error)
	// open routes also answer callers without a principal. The status tells them less, and the
	// other routes need a proof of their own.
	open bool
	// worker routes also answer to who has the key of a worker, such as the supervisor of a stack.
	worker bool
	// head says that the signed digest is of the first line of the body only, which has the
	// digests of the rest.
	head bool
	// strict routes are refused where openToAll says so, as those for programs are.
	strict bool
	// program is a place of Options.Programs, or nil.
	program *Place
}

// A need is the verb that a request needs, and what it is about. Without a verb, any
// principal may ask.
type need struct {
	verb    access.Verb
	object  access.Object // what the request itself says
	session string        // whose object counts
	batch   string        // the same
	command string        // which must have run on the host of object
	host    bool          // the labels of the host of object count
	// begins is the verb that is needed instead if the session does not exist yet. Conditions
	// are left out then: the start of the session is judged with them.
	begins access.Verb
}

// routes are all places of the API.
var routes = []route{
	{pattern: "GET /v1/status", serve: (*Server).status, needs: anybody, open: true, worker: true},
	{pattern: "GET /v1/login", serve: (*Server).loginSettings, needs: anybody, open: true},
	{pattern: "POST /v1/login", serve: (*Server).logIn, needs: anybody, open: true},
	{pattern: "POST /v1/whoami", serve: (*Server).whoami, needs: anybody, open: true},
	{pattern: "GET /v1/sessions/{id}/feed", serve: (*Server).feed, needs: session(access.SessionRead)},
	{pattern: "GET /v1/sessions/{id}/transcript", serve: (*Server).transcript, needs: session(access.SessionRead)},
	{pattern: "GET /v1/sessions/{id}/live", serve: (*Server).live, needs: session(access.SessionRead)},
	{pattern: "GET /v1/sessions/{id}/requests/{digest}", serve: (*Server).request, needs: session(access.SessionRead)},
	{pattern: "POST /v1/sessions/{id}/requests/{digest}/answers", serve: (*Server).answers, needs: session(access.ApprovalDecide)},
	{pattern: "GET /v1/sessions/{id}/deliverables", serve: (*Server).deliverables, needs: session(access.SessionRead)},
	{pattern: "GET /v1/sessions/{id}/deliverables/{call}", serve: (*Server).deliverable, needs: session(access.SessionRead)},
	{pattern: "GET /v1/sessions/{id}/instructions", serve: instructions, needs: session(access.SessionRead)},
	{pattern: "GET /v1/sessions/{id}/model-bodies", serve: modelBodyList, needs: session(access.SessionExec)},
	{pattern: "GET /v1/sessions/{id}/model-bodies/{body}", serve: modelBody, needs: session(access.SessionExec)},
	{pattern: "GET /v1/sessions/{id}/diffs/{turn}", serve: turnDiff, needs: session(access.SessionRead)},
	{pattern: "GET /v1/sessions/{id}/diff", serve: (*Server).workDiff, needs: session(access.SessionRead)},
	{pattern: "GET /v1/sessions/{id}/files", serve: (*Server).files, needs: session(access.SessionRead)},
	{pattern: "GET /v1/exec/{id}", serve: (*Server).exec, needs: hostCommand},
	{pattern: "POST /v1/tunnels/{host}/{port}", serve: (*Server).tunnel, needs: ofTunnel, strict: true},
	{pattern: "POST /v1/messages", serve: (*Server).message, needs: folder},
	{pattern: "POST /v1/inputs/{kind}", serve: (*Server).input, needs: folder},
	{pattern: "POST /v1/batches", serve: (*Server).batchPage, needs: folder},
	{pattern: "POST /v1/tokens", serve: (*Server).gitToken, needs: tokenOwner},
	{pattern: "GET /v1/batches/results/{folder}/{part}", serve: (*Server).batchResults, needs: results},
	{pattern: "POST /v1/uploads/missing", serve: (*Server).missing, needs: some(access.SessionStart)},
	{pattern: "POST /v1/uploads", serve: (*Server).upload, needs: uploaded, head: true},
	{pattern: "POST /v1/seeds/{name}", serve: (*Server).seed, needs: ofSeed(access.SeedWrite)},
	{pattern: "POST /v1/seeds/{name}/export", serve: (*Server).export, needs: ofSeed(access.SeedExport)},
	{pattern: "GET /v1/snapshots", serve: (*Server).snapshots, needs: ofSnapshots},
	{pattern: "GET /v1/snapshots/{id}", serve: (*Server).snapshot, needs: ofSnapshot(access.SessionRead)},
	{pattern: "GET /v1/snapshots/{id}/export", serve: (*Server).exportSnapshot, needs: ofSnapshot(access.SessionRead)},
	{pattern: "DELETE /v1/snapshots/{id}", serve: (*Server).deleteSnapshot, needs: ofSnapshot(access.SnapshotWrite)},
	{pattern: "GET /v1/audit", serve: (*Server).audit, needs: ofAudit},
	{pattern: "POST /v1/access/why", serve: why, needs: anybody},
	{pattern: "GET /v1/access/versions", serve: accessVersions, needs: ofAccess},
	{pattern: "GET /v1/access/versions/{digest}", serve: accessVersion, needs: ofAccess},
	{pattern: "GET /v1/api-tokens", serve: (*Server).apiTokens, needs: ofTokens},
	{pattern: "POST /v1/api-tokens", serve: (*Server).createToken, needs: ofTokens},
	{pattern: "DELETE /v1/api-tokens/{name}", serve: (*Server).revokeToken, needs: ofTokens},
	{pattern: "POST /v1/api-tokens/certificate", serve: (*Server).certifyToken, needs: anybody},
	{pattern: "POST /v1/slack/codes", serve: slackCode, needs: some(access.ApprovalDecide), strict: true},
	{pattern: "GET /v1/slack/accounts", serve: slackAccounts, needs: anybody},
	{pattern: "DELETE /v1/slack/accounts/{team}/{user}", serve: unlinkSlack, needs: anybody},
	{pattern: "/", serve: nowhere, needs: anybody},
}

func (s *Server) routes() http.Handler {
	s.mux = http.NewServeMux()
	for _, r := range slices.Concat(routes, programRoutes(s)) {
		s.mux.HandleFunc(r.pattern, s.locked(r))
	}
	return s.mux
}

// isOpen reports whether a request goes to an open route.
func isOpen(r *http.Request) bool {
	return slices.ContainsFunc(routes, func(to route) bool { return to.open && to.pattern == r.Method+" "+r.URL.Path })
}

func nowhere(s *Server, w http.ResponseWriter, _ *http.Request) {
	s.fail(w, problem(http.StatusNotFound, ErrNotFound, "no such place in this version of the API"))
}

func anybody(*http.Request) (need, error) { return need{}, nil }

func ofTokens(*http.Request) (need, error) { return need{verb: access.TokenWrite}, nil }

func ofAccess(*http.Request) (need, error) { return need{verb: access.AccessRead}, nil }

// ofAudit is about all records, because the answer for one session also has the workers' records. A
// condition holds for none of what it asks about, also a negative one.
func ofAudit(*http.Request) (need, error) {
	return need{verb: access.AuditRead, object: access.Object{Unknown: true}}, nil
}

// some needs a verb for an object that does not exist yet.
func some(verb access.Verb) func(*http.Request) (need, error) {
	return func(*http.Request) (need, error) { return need{begins: verb}, nil }
}

func session(verb access.Verb) func(*http.Request) (need, error) {
	return func(r *http.Request) (need, error) {
		id, err := named(r, "session id", "id")
		return need{verb: verb, session: id}, err
	}
}

// hostCommand is about a command on a host, which the caller names. A login shows a code.
// Whoever enters the code decides whose login the seed gets, so it is for those who may
// write that seed.
func hostCommand(r *http.Request) (need, error) {
	id, err := named(r, "id of a command", "id")
	host := r.URL.Query().Get("host")
	if err == nil && host != "" && !namePattern.MatchString(host) {
		err = problem(http.StatusBadRequest, ErrBadInput, "host=%.100q is not the name of a host", host)
	}
	if strings.HasPrefix(id, protocol.LoginPrefix) {
		return need{verb: access.SeedWrite, command: id, object: access.Object{Host: host}}, err
	}
	return need{verb: access.HostExec, command: id, object: access.Object{Host: host}}, err
}

// folder is about the owner of the folder that the request stores something in.
func folder(r *http.Request) (need, error) {
	name, err := folderOf(r)
	if err != nil {
		return need{}, err
	}
	owner, _ := owned.OwnerOf(name)
	return ownerOf(owner), nil
}

// ownerOf is what a file for a session, batch or schedule needs.
func ownerOf(owner owned.Owner) need {
	switch owner.Kind {
	case owned.Batch:
		return need{begins: access.BatchRun}
	case owned.Schedule:
		return need{begins: access.ScheduleWrite}
	}
	return need{verb: access.SessionMessage, session: owner.ID, begins: access.SessionStart}
}

func tokenOwner(r *http.Request) (need, error) {
	q := r.URL.Query()
	if q.Get("folder") != "" {
		return folder(r)
	}
	id := q.Get("session")
	if !namePattern.MatchString(id) {
		return need{}, problem(http.StatusBadRequest, ErrBadInput, "%.100q is not a session id", id)
	}
	return need{verb: access.SessionSet, session: id, begins: access.SessionStart}, nil
}

// results are those of a batch, which its viewers may read.
func results(r *http.Request) (need, error) {
	name := r.PathValue("folder")
	owner, ok := owned.OwnerOf(name)
	if !ok || owner.Kind != owned.Batch {
		return need{}, problem(http.StatusNotFound, ErrNotFound, "there is no such part of a batch's results")
	}
	return need{verb: access.SessionRead, batch: owner.ID}, nil
}

// uploaded is a tree that a session begins with, or that is pushed to it.
func uploaded(r *http.Request) (need, error) {
	id := r.URL.Query().Get("session")
	if !namePattern.MatchString(id) {
		return need{}, problem(http.StatusBadRequest, ErrBadInput, "%.100q is not a session id", id)
	}
	return need{verb: access.SnapshotWrite, session: id, begins: access.SessionStart}, nil
}

func ofSeed(verb access.Verb) func(*http.Request) (need, error) {
	return func(r *http.Request) (need, error) {
		name, err := named(r, "seed name", "name")
		return need{verb: verb, object: access.Object{Seed: name}}, err
	}
}

// ofSnapshots is about the snapshots of a session, or those of all sessions that the caller may read,
// which the handler asks for.
func ofSnapshots(r *http.Request) (need, error) {
	id := r.URL.Query().Get("session")
	switch {
	case id == "":
		return need{}, nil
	case !namePattern.MatchString(id):
		return need{}, problem(http.StatusBadRequest, ErrBadInput, "%.100q is not a session id", id)
	}
	return need{verb: access.SessionRead, session: id}, nil
}

func ofSnapshot(verb access.Verb) func(*http.Request) (need, error) {
	return func(r *http.Request) (need, error) {
		session, err := snapshots.SessionOf(r.PathValue("id"))
		if err != nil {
			return need{}, snapshotProblem(err)
		}
		return need{verb: verb, session: session}, nil
	}
}
