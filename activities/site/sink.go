package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// SinkOf returns a pump's sink. It stores entries, requests and diffs, publishes entries
// and deltas, and hides secrets.
func SinkOf(ctx context.Context, s *Site, t *records.Transcript, hide *seeds.Redactor) conversation.Sink {
	topic := records.SessionTopic(t.Session)
	return sink{
		entry: func(e protocol.Entry) error {
			kit.HideIn(hide, &e)
			if err := t.Add(ctx, e); err != nil {
				return err
			}
			Publish(s, topic, records.LiveEntry, e.Seq, e)
			return nil
		},
		request: func(r protocol.Request) error {
			return keepRequest(ctx, s, t.Session, r, hide)
		},
		delta: func(d protocol.Delta) {
			Publish(s, topic, records.LiveDelta, 0, d) // redacted by the pump
		},
		diff: func(d protocol.TurnDiff) error { return KeepDiff(ctx, s, t.Session, d, hide) },
	}
}

// keepRequest stores a request with nothing cut, for those who decide it.
func keepRequest(ctx context.Context, s *Site, session string, r protocol.Request, hide *seeds.Redactor) error {
	r.Whole = nil
	kit.HideIn(hide, &r)
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode request %s: %w", r.Digest, err)
	}
	err = s.Store.Create(ctx, requestKey(session, r.Digest), data)
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("store request %s: %w", r.Digest, err)
	}
	return nil
}

func requestKey(session, digest string) string { return "requests/" + session + "/" + digest }

// ReadRequest returns a request with nothing cut. If codex repeated it, RPC and the times
// are the first ones.
func ReadRequest(ctx context.Context, st *store.Store, session, digest string) (protocol.Request, error) {
	if err := kit.CheckID("session", session); err != nil {
		return protocol.Request{}, err
	}
	data, err := st.Get(ctx, requestKey(session, digest))
	if err != nil {
		return protocol.Request{}, fmt.Errorf("read request %s of %s: %w", digest, session, err)
	}
	var r protocol.Request
	if err := json.Unmarshal(data, &r); err != nil {
		return protocol.Request{}, fmt.Errorf("read request %s of %s: %w", digest, session, err)
	}
	return r, nil
}

type sink struct {
	entry   func(protocol.Entry) error
	request func(protocol.Request) error
	delta   func(protocol.Delta)
	diff    func(protocol.TurnDiff) error
}

func (s sink) Entry(e protocol.Entry) error     { return s.entry(e) }
func (s sink) Request(r protocol.Request) error { return s.request(r) }
func (s sink) Delta(d protocol.Delta)           { s.delta(d) }
func (s sink) Diff(d protocol.TurnDiff) error   { return s.diff(d) }
