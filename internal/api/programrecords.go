package api

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// Records gives Programs what the store and this worker's memory have of sessions. Except in
// MayRead, it does not check who calls.
type Records struct{ s *Server }

// Principal returns who makes a request of a Program, and the groups that their certificate
// names. known is false if the worker has no authority.
func Principal(ctx context.Context) (who string, groups []string, known bool) {
	c := callerOf(ctx)
	if c == nil {
		return "", nil, false
	}
	return c.principal, c.groups, true
}

// MayRead reports whether the caller may read a session.
func (p *Records) MayRead(ctx context.Context, session string) bool {
	return p.s.opts.Authority == nil || p.s.callers.may(ctx, access.SessionRead, session)
}

// Follow shows a session from the seq from until it has closed. emit gets each event and
// flush follows the last one that is known, as the package's doc says for a viewer.
func (p *Records) Follow(ctx context.Context, session string, from int64, emit func(Event) error, flush func() error) error {
	return p.view(ctx, session, from, true, emit, flush)
}

func (p *Records) view(ctx context.Context, session string, from int64, follow bool, emit func(Event) error, flush func() error) error {
	s := p.s
	name := records.SessionTopic(session)
	t := s.opts.Hub.enter(name)
	defer s.opts.Hub.leave(name, t, nil)
	v := &viewer{
		session: session, topic: t, runs: s.opts.Sessions, follow: follow, next: from, emit: emit, flush: flush, hub: s.opts.Hub,
		read: func(ctx context.Context, session string, from int64) iter.Seq2[protocol.Entry, error] {
			return records.ReadTranscript(ctx, s.opts.Store, session, from)
		},
	}
	return v.run(ctx, s.opts.Alive)
}

// Known refuses a session that neither Temporal nor the store knows.
func (p *Records) Known(ctx context.Context, session string) error { return p.s.known(ctx, session) }

// errEnough ends a view.
var errEnough = errors.New("enough entries")

// Entries returns at most limit entries of a transcript, from the seq from on, up to the
// newest.
func (p *Records) Entries(ctx context.Context, session string, from int64, limit int) ([]protocol.Entry, error) {
	if err := p.s.known(ctx, session); err != nil {
		return nil, err
	}
	list := []protocol.Entry{}
	err := p.view(ctx, session, from, false, func(ev Event) error {
		switch ev.Kind {
		case KindEntry:
			if list = append(list, *ev.Entry); len(list) == limit {
				return errEnough
			}
		case KindVoid:
			for len(list) > 0 && list[len(list)-1].Seq >= ev.Void {
				list = list[:len(list)-1]
			}
		}
		return nil
	}, func() error { return nil })
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return list, nil
}

// Deliverables lists a session's deliverables, oldest first.
func (p *Records) Deliverables(ctx context.Context, session string) ([]protocol.Deliverable, error) {
	list, err := records.ListDeliverables(ctx, p.s.opts.Store, session)
	switch {
	case err != nil:
		return nil, storeProblem(err, "session %s delivered nothing", session)
	case len(list) == 0:
		return []protocol.Deliverable{}, p.s.known(ctx, session)
	}
	return list, nil
}

// Deliverable opens one file. What it reads is to be compared with the digest.
func (p *Records) Deliverable(ctx context.Context, session, call string) (protocol.Deliverable, io.ReadCloser, error) {
	d, in, err := records.OpenDeliverable(ctx, p.s.opts.Store, session, call)
	if err != nil {
		return d, nil, storeProblem(err, "session %s delivered nothing by call %.40q", session, call)
	}
	return d, in, nil
}

// Snapshots lists a session's snapshots, oldest first, or, if session is empty, those of all
// sessions that the caller may read.
func (p *Records) Snapshots(ctx context.Context, session string) ([]snapshots.Manifest, error) {
	list, err := snapshots.List(ctx, p.s.opts.Store, session)
	if err == nil && len(list) == 0 && session != "" {
		err = p.s.known(ctx, session)
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			err = snapshotProblem(err)
		}
		return nil, err
	}
	if session == "" {
		list = p.s.readable(ctx, list)
	}
	for i := range list {
		list[i] = forPeople(list[i])
	}
	return list, nil
}

// DeleteSnapshot deletes a snapshot from which no session goes on.
func (p *Records) DeleteSnapshot(ctx context.Context, id string) (snapshots.Manifest, error) {
	m, err := dropSnapshot(ctx, p.s, id)
	return forPeople(m), err
}

// Snapshot returns a manifest, also of an incomplete snapshot.
func (p *Records) Snapshot(ctx context.Context, id string) (snapshots.Manifest, error) {
	m, err := p.s.manifest(ctx, id)
	if err != nil {
		return m, snapshotProblem(err)
	}
	return forPeople(m), nil
}

// Whole returns what an approval of a session asks for, in full.
func (p *Records) Whole(ctx context.Context, session, digest string) (protocol.Request, error) {
	r, err := site.ReadRequest(ctx, p.s.opts.Store, session, digest)
	if err != nil {
		return r, storeProblem(err, "no request %.12s… of session %s is in the store", digest, session)
	}
	return r, nil
}

func foreignFolder(folder, principal string) error {
	return problem(http.StatusForbidden, ErrForbidden, "folder %.200q belongs to another principal than %s", folder, principal)
}

func badInput(format string, args ...any) error {
	return problem(http.StatusBadRequest, ErrBadInput, format, args...)
}
