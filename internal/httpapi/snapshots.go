package httpapi

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/snapshots"
)

// OfSnapshot names a snapshot in a path.
type OfSnapshot struct {
	OfSession
	Snapshot string `path:"snapshot" maxLength:"200" doc:"the snapshot's id"`
}

type goOnInput struct {
	OfSession
	Keyed
	Body *StartSession
}

type restoreInput struct {
	OfSnapshot
	Keyed
	Body *StartSession
}

type archiveInput struct {
	OfSnapshot
	Ranged
}

// archive sends a snapshot, whose digest is found out before.
func (a *API) archive(ctx context.Context, in *archiveInput) (*huma.StreamResponse, error) {
	leave, err := a.archives.enter(ctx)
	if err != nil {
		return nil, err
	}
	e, err := a.records.Archive(ctx, in.Snapshot)
	if err != nil {
		leave()
		return nil, err
	}
	return download{name: in.Snapshot + ".tar", kind: "application/x-tar", bytes: e.Bytes, digest: e.SHA256, leave: leave,
		forget: func() { a.records.ForgetArchive(in.Snapshot) },
		open:   func() (io.ReadCloser, error) { return a.records.OpenArchive(ctx, in.Snapshot) }}.send(), nil
}

// goesOnText describes the body of a fork and of a restore.
const goesOnText = ". What the body leaves out is as it was, as for `ctl snapshot restore`; it may not say what a work folder begins with, nor a first message"

func (a *API) addSnapshots() {
	add(a, spot{method: http.MethodGet, path: "/v1/session-snapshots", id: "listAllSnapshots", summary: "List the snapshots of all sessions, the oldest first"},
		func(ctx context.Context, in *Paged) (*Body[Page[snapshots.Manifest]], error) {
			return a.snapshots(ctx, *in, "")
		})
	at := func(method, path, id, summary string, verb access.Verb) spot {
		return spot{method: method, path: sessionPath + path, id: id, summary: summary, verb: verb, session: ofSession}
	}
	add(a, at(http.MethodGet, "/snapshots", "listSnapshots", "List a session's snapshots, the oldest first", access.SessionRead),
		func(ctx context.Context, in *PagedSession) (*Body[Page[snapshots.Manifest]], error) {
			return a.snapshots(ctx, in.Paged, in.ID)
		})
	one := at(http.MethodGet, "/snapshots/{snapshot}", "showSnapshot", "Show a snapshot", access.SessionRead)
	one.session = ofSnapshot
	add(a, one, func(ctx context.Context, in *OfSnapshot) (*Body[snapshots.Manifest], error) {
		return answer(a.records.Snapshot(ctx, in.Snapshot))
	})
	archive := at(http.MethodGet, "/snapshots/{snapshot}/archive", "downloadSnapshot", "Download a snapshot as a tar archive, whole or in part: manifest.json, and a folder for each tree", access.SessionRead)
	archive.session = ofSnapshot
	add(a, archive, a.archive)
	a.describeDownload("downloadSnapshot", "application/x-tar")
	drop := at(http.MethodDelete, "/snapshots/{snapshot}", "deleteSnapshot", "Delete a snapshot from which no session goes on", access.SnapshotWrite)
	drop.session = ofSnapshot
	add(a, drop, func(ctx context.Context, in *OfSnapshot) (*Body[snapshots.Manifest], error) {
		return answer(a.records.DeleteSnapshot(ctx, in.Snapshot))
	})
	begins := func(path, id, summary string) spot {
		return spot{method: http.MethodPost, path: sessionPath + path, id: id, summary: summary + goesOnText, verb: access.SessionStart, begins: true, status: http.StatusCreated, body: maxMessage}
	}
	add(a, begins("/snapshots/{snapshot}/restore", "restoreSnapshot", "Start a session that goes on from a snapshot"),
		func(ctx context.Context, in *restoreInput) (*startOutput, error) {
			if session, err := snapshots.SessionOf(in.Snapshot); err != nil || session != in.ID {
				return nil, badInput("%.100q is not a snapshot of session %.100s", in.Snapshot, in.ID)
			}
			return a.goOn(ctx, in.ID, in.Body, func(start StartSession) (Started, error) {
				return a.sessions.Restore(ctx, in.of(ctx), in.Snapshot, start)
			})
		})
	add(a, begins("/fork", "forkSession", "Start a session that goes on from where this one is: of a session on a host a snapshot is taken, else its newest one serves"),
		func(ctx context.Context, in *goOnInput) (*startOutput, error) {
			if _, err := sessionID(in.ID); err != nil {
				return nil, badInput("%v", err)
			}
			return a.goOn(ctx, in.ID, in.Body, func(start StartSession) (Started, error) { return a.sessions.Fork(ctx, in.of(ctx), in.ID, start) })
		})
}

// snapshots lists those of a session, or of all that the caller may read. Others may vanish
// between two pages.
func (a *API) snapshots(ctx context.Context, in Paged, session string) (*Body[Page[snapshots.Manifest]], error) {
	leave, err := a.lists.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	list, err := a.records.Snapshots(ctx, session)
	if err != nil {
		return nil, err
	}
	return answer(pageByTime(in, "snapshots "+session, list, func(m snapshots.Manifest) mark { return mark{m.CreatedAt, m.ID} }))
}

// goOn starts a session that goes on from one that the caller may read.
func (a *API) goOn(ctx context.Context, from string, in *StartSession, start func(StartSession) (Started, error)) (*startOutput, error) {
	if !a.records.MayRead(ctx, from) {
		return nil, problem(http.StatusForbidden, "forbidden", "session "+from+" does not exist, or you may not read it", "`ctl access why` says which bindings were looked at")
	}
	var said StartSession
	if in != nil {
		said = *in
	}
	started, err := start(said)
	if err != nil {
		return nil, err
	}
	return &startOutput{Location: "/v1/sessions/" + started.ID, Body: started}, nil
}
