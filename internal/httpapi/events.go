package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"fairlead.dev/fairlead/internal/api"
)

// The events of a stream.
const (
	EventEntry   = "entry"   // an Entry of the transcript; its id is the seq
	EventDelta   = "delta"   // text of an unfinished item, which its entry will have
	EventState   = "state"   // what the worker at the session's process knows
	EventResumed = "resumed" // Place: the entry that the client has, as the session has it
	EventResync  = "resync"  // Place: entries from this seq on are void; others follow
	EventEnd     = "end"     // the session has closed
	EventError   = "error"   // a Problem; nothing follows
)

const eventsText = "Server-sent events: entry (data: an Entry, id: its seq), delta (data: a Delta), state, resumed and resync (data: seq), end, error (data: a Problem). " +
	"After end nothing follows; after any other end of the stream, connect again with Last-Event-ID."

// A Place is where a stream goes on.
type Place struct {
	Seq int64  `json:"seq"`
	ID  string `json:"id,omitempty"` // of the entry
}

// writeWait is how long a client may not read.
const writeWait = 30 * time.Second

func soon() time.Time { return time.Now().Add(writeWait) }

type eventsInput struct {
	OfSession
	From int64  `query:"from" minimum:"1" default:"1" doc:"seq of the first entry, without Last-Event-ID"`
	Last string `header:"Last-Event-ID" maxLength:"20" doc:"the id of the last event that came: the stream goes on after it"`
}

// events streams a session until it has closed.
func (a *API) events(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	from, last := in.From, int64(0)
	if in.Last != "" {
		n, err := strconv.ParseInt(in.Last, 10, 64)
		if err != nil || n < 1 {
			return nil, badInput("Last-Event-ID %.20q is not the id of an event: a whole number from 1 on", in.Last)
		}
		from, last = n, n
	}
	if err := a.records.Known(ctx, in.ID); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		r, w := humago.Unwrap(c)
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // of proxies
		s := &sse{rc: http.NewResponseController(w), buf: bufio.NewWriterSize(w, 8<<10), last: last}
		if s.raw("retry: %d\n\n", retryAfter.Milliseconds()) != nil || s.flush() != nil {
			return
		}
		err := a.records.Follow(r.Context(), in.ID, from, s.emit, s.flush)
		var told *api.Error
		switch {
		case err == nil:
			err = s.event(EventEnd, 0, struct{}{})
		case errors.As(err, &told):
			err = s.event(EventError, 0, problemOf(told))
		default:
			return // the client connects again
		}
		if err == nil {
			_ = s.flush()
		}
	}}, nil
}

// retryAfter tells clients when to connect again.
const retryAfter = time.Second

// An sse writes server-sent events.
type sse struct {
	rc   *http.ResponseController
	buf  *bufio.Writer
	last int64 // the seq of the entry that the client has, until it is shown
}

func (s *sse) emit(ev api.Event) error {
	switch ev.Kind {
	case api.KindAlive:
		return s.raw(": alive\n\n")
	case api.KindEntry:
		if has := s.last; has > 0 && ev.Entry.Seq == has {
			s.last = 0
			return s.event(EventResumed, 0, Place{Seq: has, ID: ev.Entry.ID})
		}
		s.last = 0
		return s.event(EventEntry, ev.Entry.Seq, ev.Entry)
	case api.KindDelta:
		return s.event(EventDelta, 0, ev.Delta)
	case api.KindState:
		return s.event(EventState, 0, ev.State)
	case api.KindVoid:
		s.last = 0
		return s.event(EventResync, 0, Place{Seq: ev.Void})
	}
	return nil
}

// event writes one event. Its data is JSON, which has no line breaks.
func (s *sse) event(name string, id int64, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id > 0 {
		return s.raw("event: %s\nid: %d\ndata: %s\n\n", name, id, raw)
	}
	return s.raw("event: %s\ndata: %s\n\n", name, raw)
}

func (s *sse) raw(format string, args ...any) error {
	if err := s.rc.SetWriteDeadline(soon()); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.buf, format, args...)
	return err
}

func (s *sse) flush() error {
	if err := s.rc.SetWriteDeadline(soon()); err != nil {
		return err
	}
	if err := s.buf.Flush(); err != nil {
		return err
	}
	return s.rc.Flush()
}
