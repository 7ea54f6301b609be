package scriptedmodel

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"
)

// errOver means that a failure of the script ended the response.
var errOver = errors.New("the response is over")

// answer sends the planned answer. A returned error says why the response was
// not completed; errCut asks the caller to close the connection.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, p plan, entry *Request, response string) error {
	said := func(how string) { s.record.update(func() { entry.Answer = how }) }
	st := &stream{w: w, flush: http.NewResponseController(w).Flush, id: response, model: p.view.Model, pace: p.pace}

	if p.poll != nil {
		said("poll")
		return p.askAgain(st)
	}
	fail := s.due(p)
	if fail >= 0 && p.actions[fail].Fail.beforeStream() {
		said(string(p.actions[fail].Fail.Kind))
		return s.refuse(ctx, w, p, fail)
	}
	said("stream")
	return p.perform(ctx, st, func(i int) error {
		if a := p.actions[i]; a.Wait != nil {
			return s.gates.wait(ctx, a.Wait.Gate, p.view.Conversation)
		} else if i == fail {
			said(string(a.Fail.Kind))
			return st.fail(ctx, a.Fail)
		}
		return nil
	})
}

// due returns the index of the step's first failure that is to happen this
// time, or -1, and counts it. It is called before anything is sent, so that an
// overlapping retry sees the count.
func (s *Server) due(p plan) int {
	for i, a := range p.actions {
		key := failureKey{p.view.Conversation, p.view.Turn, p.rule, p.step, i}
		if a.Fail != nil && s.failures.take(key, a.Fail.Times) {
			return i
		}
	}
	return -1
}

// perform streams the actions of the step. It calls interrupt with the index of
// each wait or failure, in place or after the number of deltas that the script
// says.
func (p plan) perform(ctx context.Context, st *stream, interrupt func(int) error) error {
	var usage *Usage
	for i, a := range p.actions {
		switch n := a.deltas(); {
		case n > 0:
			st.after = append(st.after, interruption{n, func() error { return interrupt(i) }})
		case a.Usage != nil:
			usage = a.Usage
		case a.Served != "":
			st.served = a.Served
		case a.Limits != nil:
			st.limits = a.Limits
		}
	}
	slices.SortStableFunc(st.after, func(a, b interruption) int { return a.deltas - b.deltas })

	if err := st.begin(); err != nil {
		return err
	}
	for i, a := range p.actions {
		var err error
		switch {
		case a.Say != nil:
			err = st.say(ctx, a.Say)
		case a.Think != nil:
			err = st.think(ctx, a.Think)
		case a.isTool():
			err = st.callAll(p.calls[i])
		case a.Pause != 0:
			err = pause(ctx, a.Pause)
		case (a.Wait != nil || a.Fail != nil) && a.deltas() == 0:
			err = interrupt(i)
		}
		if err != nil {
			return err
		}
	}
	for _, late := range st.after {
		if err := late.do(); err != nil {
			return err
		}
	}
	if usage == nil {
		usage = p.estimate(st)
	}
	return st.complete(*usage)
}

func (p plan) askAgain(st *stream) error {
	if err := st.begin(); err != nil {
		return err
	}
	if err := st.callAll(p.poll); err != nil {
		return err
	}
	return st.complete(*p.estimate(st))
}

// refuse answers with the failure of action n instead of a stream, after the
// waits and pauses before it.
func (s *Server) refuse(ctx context.Context, w http.ResponseWriter, p plan, n int) error {
	for _, a := range p.actions[:n] {
		var err error
		switch {
		case a.Wait != nil:
			err = s.gates.wait(ctx, a.Wait.Gate, p.view.Conversation)
		case a.Pause != 0:
			err = pause(ctx, a.Pause)
		}
		if err != nil {
			return err
		}
	}
	f := p.actions[n].Fail
	if f.Kind == Drop {
		return errCut
	}
	writeError(w, statuses[f.Kind].status, f.error(time.Now()))
	return nil
}

// fail ends a stream that has begun, as f says.
func (s *stream) fail(ctx context.Context, f *Failure) error {
	switch f.Kind {
	case Stall:
		<-ctx.Done()
		return ctx.Err()
	case Failed:
		r := s.response("failed")
		r["error"] = f.error(time.Now())
		return errors.Join(errOver, s.event("response.failed", map[string]any{"response": r}))
	case Incomplete:
		r := s.response("incomplete")
		reason := f.Code
		if reason == "" {
			reason = "max_output_tokens"
		}
		r["incomplete_details"] = map[string]any{"reason": reason}
		return errors.Join(errOver, s.event("response.incomplete", map[string]any{"response": r}))
	default:
		return errCut
	}
}

func writeError(w http.ResponseWriter, status int, e apiError) {
	writeJSON(w, status, map[string]any{"error": e})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // if the client has gone, nobody can be told
}
