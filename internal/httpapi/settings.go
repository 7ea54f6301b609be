package httpapi

import (
	"context"
	"net/http"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

// SessionSettings changes what a session works with, and what it may use. What is left out stays.
type SessionSettings struct {
	Name     *string          `json:"name,omitempty" maxLength:"200" doc:"a name for people; empty takes it away"`
	Model    string           `json:"model,omitempty" doc:"model from the next turn on"`
	Effort   string           `json:"effort,omitempty" doc:"reasoning effort from the next turn on"`
	AnyModel bool             `json:"any_model,omitempty" doc:"also a model that codex does not list"`
	Budget   *protocol.Budget `json:"budget,omitempty" doc:"bounds of the whole session; 0 removes one"`
}

// Archiving puts a session away, or takes it out again.
type Archiving struct{ Away bool }

// Unsending names the message that is taken back.
type Unsending struct {
	Message string `json:"message" minLength:"1" maxLength:"200" doc:"id of the message, whose turn has not begun"`
}

// Reviewing says what codex reviews; by default what is not committed.
type Reviewing struct {
	Base         string `json:"base,omitempty" maxLength:"255" doc:"what differs from this branch"`
	Commit       string `json:"commit,omitempty" maxLength:"255" doc:"this commit"`
	Instructions string `json:"instructions,omitempty" maxLength:"32768" doc:"what this text says"`
}

// Pushing says where the work of a session is pushed to.
type Pushing struct {
	Branch  string `json:"branch" minLength:"1" maxLength:"255" doc:"branch of the repository that the session was given; it is made if it is not there, and never forced"`
	Message string `json:"message,omitempty" maxLength:"8192" doc:"of the commit"`
}

// Pushed says what was pushed.
type Pushed struct {
	Branch  string   `json:"branch"`
	Commit  string   `json:"commit"`
	Already bool     `json:"already,omitempty" doc:"the branch had the commit"`
	Refused []string `json:"refused,omitempty" doc:"what the host asked a lent agent for in vain"`
}

func (a *API) addSettings() {
	at := func(path, id, summary string, verb access.Verb, status int) spot {
		return spot{method: http.MethodPost, path: sessionPath + path, id: id, summary: summary, verb: verb, session: ofSession, status: status}
	}
	add(a, at("/settings", "setSession", "Change what a session works with, and what it may use", access.SessionSet, http.StatusAccepted),
		func(ctx context.Context, in *struct {
			OfSession
			Keyed
			Body SessionSettings
		}) (*Body[Session], error) {
			if in.Body == (SessionSettings{}) {
				return nil, badInput("there is nothing to set: give name, model, effort or budget")
			}
			v, err := a.sessions.SetSession(ctx, in.of(ctx), in.ID, in.Body)
			return answer(Session{v}, err)
		})
	tell(a, "archive", "Put a session away: it parks, and lists leave it out", access.SessionPark, func(Nothing) any { return Archiving{Away: true} })
	tell(a, "unarchive", "Take a session out again", access.SessionPark, func(Nothing) any { return Archiving{} })
	tell(a, "unsend", "Take back a message whose turn has not begun", access.SessionMessage, func(b Unsending) any { return protocol.Unsend{Message: b.Message} })
	add(a, at("/compact", "compactSession", "Have codex make its history shorter, as a turn of its own", access.SessionMessage, http.StatusAccepted),
		func(ctx context.Context, in *struct {
			OfSession
			Keyed
		}) (*Body[protocol.MessageAccepted], error) {
			return answer(a.sessions.Act(ctx, in.of(ctx), in.ID, protocol.ActCompact, nil))
		})
	add(a, at("/review", "reviewSession", "Have codex review changes, as a turn of its own, whose last message is the review", access.SessionMessage, http.StatusAccepted),
		func(ctx context.Context, in *tellInput[Reviewing]) (*Body[protocol.MessageAccepted], error) {
			var r protocol.Review
			if in.Body != nil {
				r = protocol.Review(*in.Body)
			}
			if err := r.Check(); err != nil {
				return nil, badInput("%v", err)
			}
			return answer(a.sessions.Act(ctx, in.of(ctx), in.ID, protocol.ActReview, &r))
		})
	add(a, at("/push", "pushSession", "Commit the work of a session with a repository, and push it between two turns", access.SessionExec, http.StatusOK),
		func(ctx context.Context, in *struct {
			OfSession
			Keyed
			Body Pushing
		}) (*Body[Pushed], error) {
			return answer(a.sessions.Push(ctx, in.of(ctx), in.ID, in.Body))
		})
	add(a, spot{method: http.MethodGet, path: sessionPath + "/models", id: "listModels", summary: "List the models that the session's codex listed last", verb: access.SessionRead, session: ofSession},
		func(ctx context.Context, in *OfSession) (*Body[protocol.ModelsView], error) {
			return answer(a.sessions.Models(ctx, in.ID))
		})
}
