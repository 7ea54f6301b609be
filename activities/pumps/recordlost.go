package pumps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// A pump that loses its wire returns no result, and the next pump reads the journal again.
// After the loss of a host there is no next pump, only the stored entries, and one blob
// with everything else that the last pump knew.

// Heard is what the newest pump of a session knew when its wire was lost.
type Heard struct {
	Generation int64             `json:"generation"`
	Pump       int64             `json:"pump"`
	Since      int64             `json:"since"` // the newest entry before that pump's
	Lost       conversation.Lost `json:"lost"`
}

func heardKey(session string) string { return "heard/" + session }

// KeepHeard stores what this attempt knew, unless another one of the same pump knew more.
func KeepHeard(ctx context.Context, s *site.Site, in RunPumpInput, lost conversation.Lost, hide site.Secrets) {
	now := Heard{Generation: in.Claim.Generation, Pump: in.Claim.Pump, Since: in.Pump.State.Seq, Lost: lost}
	kit.HideIn(hide.All, &now)
	was, err := ReadHeard(ctx, s, in.Claim.Session)
	if err == nil && was != nil && was.Generation == now.Generation && was.Pump == now.Pump &&
		was.Lost.Result.State.Cursor.Offset > lost.Result.State.Cursor.Offset {
		return
	}
	var data []byte
	if err == nil {
		data, err = json.Marshal(now)
	}
	if err == nil {
		err = s.Store.Put(ctx, heardKey(in.Claim.Session), data)
	}
	if err != nil {
		s.Logger.Warn("what was heard of codex last is not kept", "session", in.Claim.Session, "error", err)
	}
}

// ReadHeard returns nil if nothing is stored.
func ReadHeard(ctx context.Context, s *site.Site, session string) (*Heard, error) {
	data, err := s.Store.Get(ctx, heardKey(session))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	var h Heard
	if err == nil {
		err = json.Unmarshal(data, &h)
	}
	if err != nil {
		return nil, fmt.Errorf("read the last recorded state of session %s: %w", session, err)
	}
	return &h, nil
}

// ForgetHeard deletes a record of generation upTo or earlier. It only logs errors; a later
// call retries.
func ForgetHeard(ctx context.Context, s *site.Site, session string, upTo int64) {
	h, err := ReadHeard(ctx, s, session)
	if err == nil && h != nil && h.Generation <= upTo {
		err = s.Store.Delete(ctx, heardKey(session))
	}
	if err != nil {
		s.Logger.Warn("what was heard of codex last stays in the store", "session", session, "error", err)
	}
}

// RecordLostInput is for a process without further pumps. State is that of the newest pump
// that returned one. The Claim's epoch is above every pump's.
type RecordLostInput struct {
	Claim protocol.Claim         `json:"claim"`
	Seed  *protocol.SeedRef      `json:"seed,omitempty"` // for redaction
	State conversation.PumpState `json:"state"`
	Sends []conversation.Send    `json:"sends,omitempty"` // that codex may have
	Notes []conversation.Note    `json:"notes,omitempty"` // that may be on record
	Turn  int                    `json:"turn"`
}

// RecordLostResult is what is known of pumps that returned no result.
type RecordLostResult struct {
	Seq int64 `json:"seq"`
	// Said are the Sends that codex has.
	Said []string `json:"said,omitempty"`
	// Noted are the Notes on record.
	Noted []string `json:"noted,omitempty"`
	// Last is the newest state; nil if no pump stored one.
	Last  *conversation.PumpState `json:"last,omitempty"`
	Ended *conversation.TurnEnd   `json:"ended,omitempty"`
}

// RecordLost completes a transcript after the loss of a host: with the entries that pumps
// stored without returning them, the messages that codex may have had, and what the agent
// had begun to say.
func (s *Activities) RecordLost(ctx context.Context, in RecordLostInput) (RecordLostResult, error) {
	var f kit.Failing
	what := "record what session " + in.Claim.Session + " had said"
	hide, err := site.HidingIn(ctx, s.Site, in.Claim, in.Seed)
	if err != nil {
		return RecordLostResult{}, f.Failure(ctx, what, err)
	}
	f.Hide = hide.All
	out, err := RecordLost(ctx, s.Site, in, hide)
	return out, f.Failure(ctx, what, err)
}

// RecordLost does the activity's work.
func RecordLost(ctx context.Context, s *site.Site, in RecordLostInput, hide site.Secrets) (RecordLostResult, error) {
	out := RecordLostResult{Seq: in.State.Seq}
	h, err := ReadHeard(ctx, s, in.Claim.Session)
	if err != nil {
		return out, err
	}
	if h != nil && (h.Generation != in.Claim.Generation || h.Since != in.State.Seq || h.Lost.Result.State.Cursor.Incarnation != in.State.Cursor.Incarnation ||
		h.Lost.Result.State.Cursor.Offset < in.State.Cursor.Offset) {
		h = nil // a later pump returned a result
	}
	entries, err := sinceOf(ctx, s, in)
	if err != nil {
		return out, err
	}
	for _, e := range entries {
		out.Seq = e.Seq
		if slices.ContainsFunc(in.Notes, func(n conversation.Note) bool { return n.ID == e.ID }) {
			out.Noted = append(out.Noted, e.ID)
		}
	}
	if err := FillTexts(ctx, s, in.Sends); err != nil {
		return out, err
	}
	var behind []protocol.Entry
	for _, send := range in.Sends {
		reached := protocol.Sent
		switch {
		case send.Kind != conversation.SendTurn && send.Kind != conversation.SendSteer:
			continue
		case slices.ContainsFunc(entries, func(e protocol.Entry) bool {
			return e.Type == protocol.EntryUser && e.Data["message"] == send.ID && e.ID != lostID(send)
		}):
			out.Said = append(out.Said, send.ID)
			continue
		case h.settled(send.ID):
			out.Said, reached = append(out.Said, send.ID), protocol.Acknowledged
		}
		behind = append(behind, protocol.Entry{ID: lostID(send), At: saidAt(s, in, h), Turn: max(send.Turn, in.Turn), Type: protocol.EntryUser, Text: send.Text,
			Data: map[string]string{"message": send.ID, "delivery": string(reached)}})
	}
	if h != nil {
		out.Last, out.Ended = &h.Lost.Result.State, h.Lost.Result.Turn
		if out.Seq == out.Last.Seq { // else another attempt has read further and died
			behind = append(behind, h.Lost.Unfinished...)
		}
	}
	out.Seq, err = addBehind(ctx, s, in, out.Seq, behind, hide)
	return out, err
}

// lostID is the entry id of a message that codex never confirmed.
func lostID(s conversation.Send) string { return "lost." + s.ID }

func (h *Heard) settled(id string) bool {
	return h != nil && slices.ContainsFunc(h.Lost.Result.Deliveries, func(d protocol.Delivery) bool { return d.ID == id && d.State == protocol.Acknowledged })
}

// saidAt returns the last event's time, equal for every attempt.
func saidAt(s *site.Site, in RecordLostInput, h *Heard) time.Time {
	at := in.State.AtMS
	if h != nil {
		at = max(at, h.Lost.Result.State.AtMS)
	}
	return time.UnixMilli(at).UTC()
}

// sinceOf returns stored entries that no pump returned, without those of an earlier
// RecordLost.
func sinceOf(ctx context.Context, s *site.Site, in RecordLostInput) ([]protocol.Entry, error) {
	segs, err := records.ListSegments(ctx, s.Store, in.Claim.Session)
	if err != nil {
		return nil, err
	}
	own := lostOwner(in.Claim)
	mine := slices.IndexFunc(segs, func(g records.Segment) bool { return g.Owner == own })
	var entries []protocol.Entry
	for e, err := range records.ReadTranscript(ctx, s.Store, in.Claim.Session, in.State.Seq+1) {
		var gap *records.GapError
		switch {
		case errors.As(err, &gap):
			return entries, nil // those after the gap will be overwritten
		case err != nil:
			return nil, err
		case mine >= 0 && e.Seq >= segs[mine].First:
			return entries, nil
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func lostOwner(c protocol.Claim) records.Owner {
	return records.Owner{Generation: c.Generation, Pump: c.Pump, Part: 1}
}

// addBehind adds entries after those of an earlier attempt.
func addBehind(ctx context.Context, s *site.Site, in RecordLostInput, seq int64, behind []protocol.Entry, hide site.Secrets) (int64, error) {
	t := &records.Transcript{Store: s.Store, Session: in.Claim.Session, Owner: lostOwner(in.Claim), Now: s.Now, Stored: seq}
	for i := range behind {
		behind[i].Seq = seq + int64(i) + 1
		kit.HideIn(hide.All, &behind[i])
		if err := t.Add(ctx, behind[i]); err != nil {
			return seq, err
		}
	}
	if err := t.Flush(ctx); err != nil {
		return seq, err
	}
	for _, e := range behind {
		site.Publish(s, records.SessionTopic(in.Claim.Session), records.LiveEntry, e.Seq, e)
	}
	return seq + int64(len(behind)), nil
}
