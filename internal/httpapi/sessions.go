package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"unicode/utf8"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

type startInput struct {
	Keyed
	Body StartSession
}

type startOutput struct {
	Location string `header:"Location"`
	Body     Started
}

type listInput struct {
	Filter
	Paged
}

// OfSession names a session in a path.
type OfSession struct {
	ID string `path:"id" doc:"session"`
}

type sendInput struct {
	OfSession
	Keyed
	Body NewMessage
}

type turnInput struct {
	OfSession
	N int `path:"n" minimum:"1" doc:"number of the turn"`
}

type tellInput[T any] struct {
	OfSession
	Keyed
	Body *T
}

// Reasoned is the body of an interrupt.
type Reasoned struct {
	Reason string `json:"reason,omitempty" doc:"why, for the record"`
}

// Closing is the body of a close.
type Closing struct {
	Discard bool `json:"discard,omitempty" doc:"give up what cannot be saved"`
}

// Resuming is the body of a resume.
type Resuming struct {
	Host string `json:"host,omitempty" doc:"host to go on at; by default the former one, or any suitable one"`
}

// Nothing is an empty body.
type Nothing struct{}

const sessionPath = "/v1/sessions/{id}"

func (a *API) addSessions() {
	add(a, spot{method: http.MethodPost, path: "/v1/sessions", id: "startSession", summary: "Start a session", verb: access.SessionStart, begins: true, status: http.StatusCreated, body: maxMessage},
		func(ctx context.Context, in *startInput) (*startOutput, error) {
			if err := in.Body.Message.check(); err != nil {
				return nil, err
			}
			if in.Body.CloseAfter && in.Body.Message == nil {
				return nil, badInput("close_after needs a message: the session closes after its turn")
			}
			started, err := a.sessions.Start(ctx, in.of(ctx), in.Body)
			if err != nil {
				return nil, err
			}
			return &startOutput{Location: "/v1/sessions/" + started.ID, Body: started}, nil
		})
	add(a, spot{method: http.MethodGet, path: "/v1/sessions", id: "listSessions", summary: "List sessions, newest first"}, a.list)
	add(a, spot{method: http.MethodGet, path: sessionPath, id: "showSession", summary: "Show what a session does and waits for", verb: access.SessionRead, session: ofSession},
		func(ctx context.Context, in *OfSession) (*Body[Session], error) {
			v, err := a.sessions.Show(ctx, in.ID)
			return answer(Session{v}, err)
		})
	add(a, spot{method: http.MethodPost, path: sessionPath + "/messages", id: "sendMessage", summary: "Send a message", verb: access.SessionMessage, session: ofSession, status: http.StatusAccepted, body: maxMessage},
		func(ctx context.Context, in *sendInput) (*Body[protocol.MessageAccepted], error) {
			if err := in.Body.check(); err != nil {
				return nil, err
			}
			return answer(a.sessions.Send(ctx, in.of(ctx), in.ID, in.Body))
		})
	add(a, spot{method: http.MethodGet, path: sessionPath + "/turns/{n}", id: "showTurn", summary: "Show a turn", verb: access.SessionRead, session: ofSession},
		func(ctx context.Context, in *turnInput) (*Body[protocol.TurnView], error) {
			return answer(a.sessions.Turn(ctx, in.ID, in.N))
		})
	tell(a, "interrupt", "End the running turn", access.SessionInterrupt, func(b Reasoned) any { return protocol.Interrupt{Reason: b.Reason} })
	tell(a, "close", "End a session and leave its host as it was", access.SessionClose, func(b Closing) any { return protocol.Close{Discard: b.Discard} })
	tell(a, "park", "Give back an idle session's host and seed until its next message", access.SessionPark, func(Nothing) any { return protocol.Park{} })
	tell(a, "resume", "Bring back a parked session, or move an idle one", access.SessionPark, func(b Resuming) any { return protocol.Resume{Host: b.Host} })
	add(a, spot{method: http.MethodPost, path: sessionPath + "/snapshots", id: "takeSnapshot", summary: "Take a snapshot", verb: access.SnapshotWrite, session: ofSession, status: http.StatusAccepted},
		func(ctx context.Context, in *struct {
			OfSession
			Keyed
		}) (*Body[protocol.SnapshotAccepted], error) {
			return answer(a.sessions.TakeSnapshot(ctx, in.of(ctx), in.ID))
		})
}

// tell adds an operation that tells a session one thing, and answers with its view.
func tell[T any](a *API, name, summary string, verb access.Verb, msg func(T) any) {
	add(a, spot{method: http.MethodPost, path: sessionPath + "/" + name, id: name + "Session", summary: summary, verb: verb, session: ofSession, status: http.StatusAccepted},
		func(ctx context.Context, in *tellInput[T]) (*Body[Session], error) {
			var said T
			if in.Body != nil {
				said = *in.Body
			}
			v, err := a.sessions.Tell(ctx, in.of(ctx), in.ID, msg(said))
			return answer(Session{v}, err)
		})
}

// list leaves out the sessions that the caller may not read, so a page may have fewer than
// limit.
func (a *API) list(ctx context.Context, in *listInput) (*Body[Page[Session]], error) {
	of := fmt.Sprintf("sessions %+v", in.Filter)
	after, err := in.after(of)
	if err != nil {
		return nil, err
	}
	leave, err := a.lists.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	list, next, err := a.sessions.List(ctx, in.Filter, in.Limit, after)
	if err != nil {
		return nil, err
	}
	page := Page[Session]{Items: []Session{}, Cursor: cursor{of, next}.String()}
	for _, l := range list {
		if a.records.MayRead(ctx, l.ID) {
			page.Items = append(page.Items, Session{l.View})
		}
		if ctx.Err() != nil { // what was not looked at must not count as forbidden
			return nil, errkind.TimedOut("list sessions: not known in %s which of them you may read", listTime).Hinted("ask for fewer with limit")
		}
	}
	return answer(page, nil)
}

func (m *NewMessage) check() error {
	switch {
	case m == nil:
		return nil
	case utf8.RuneCountInString(m.Text) > protocol.MaxChars:
		return badInput("the message has more than the %d characters that codex takes", protocol.MaxChars)
	case m.Turn > 0 && m.Mode != "steer":
		return badInput("turn names the turn to steer: set mode to steer, too")
	}
	return nil
}
