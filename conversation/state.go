package conversation

import (
	"encoding/json"
	"slices"

	"fairlead.dev/fairlead/conversation/wire"
)

// ours reports whether a notice is about the session's thread. Other threads belong to
// sub-agents: they are recorded, but are no part of the turn's answer.
func (s *PumpState) ours(n wire.Notice) bool {
	return n.ThreadID == "" || s.ThreadID == "" || n.ThreadID == s.ThreadID
}

// An itemKey identifies an item. Two threads may use the same id, because a model may
// choose it.
type itemKey struct{ thread, id string }

func (it *OpenItem) key() itemKey { return itemKey{it.Thread, it.ID} }

func (s *PumpState) keyOf(thread, id string) itemKey {
	if s.ours(wire.Notice{ThreadID: thread}) {
		thread = ""
	}
	return itemKey{thread, id}
}

func (s *PumpState) openItem(key itemKey) *OpenItem {
	for i := range s.Items {
		if s.Items[i].key() == key {
			return &s.Items[i]
		}
	}
	return nil
}

func (s *PumpState) itemOf(d wire.Piece) *OpenItem {
	other := len(d.Thread) > 0 && s.ThreadID != "" && string(d.Thread) != s.ThreadID
	for i := range s.Items {
		it := &s.Items[i]
		if it.ID == string(d.Item) && (it.Thread != "") == other && (!other || it.Thread == string(d.Thread)) {
			return it
		}
	}
	return nil
}

func (s *PumpState) oldestIdle() itemKey {
	for _, it := range s.Items {
		if !s.asksFor(it.key()) {
			return it.key()
		}
	}
	return s.Items[0].key()
}

func (s *PumpState) asksFor(item itemKey) bool {
	for _, o := range s.Open {
		if o.item() == item {
			return true
		}
	}
	return false
}

func (s *PumpState) heldUp(item itemKey) bool {
	for _, o := range s.Open {
		if o.item() == item && o.Judged == nil {
			return true
		}
	}
	return false
}

// running counts the items that wait for no person, including background ones.
func (s *PumpState) running() (n int) {
	for _, it := range s.Items {
		if !s.heldUp(it.key()) {
			n++
		}
	}
	return n
}

// working reports whether the turn goes on although requests wait. Background commands do
// not count: the pump would stay as long as a development server runs.
func (s *PumpState) working() bool {
	for _, it := range s.Items {
		if it.Turn == s.Turn && !it.Background && !s.heldUp(it.key()) {
			return true
		}
	}
	return false
}

func (o *OpenRequest) item() itemKey { return itemKey{o.Thread, o.Item} }

func (s *PumpState) openAt(rpc json.RawMessage) int {
	key := wire.IDKey(rpc)
	for i, o := range s.Open {
		if wire.IDKey(o.RPC) == key {
			return i
		}
	}
	return -1
}

func (s *PumpState) bulk() (n int) {
	for _, o := range s.Open {
		n += o.Bulk
	}
	return n
}

func (s *PumpState) waiting() (n int) {
	for _, o := range s.Open {
		if o.Judged == nil {
			n++
		}
	}
	return n
}

// waits reports whether the turn waits only for people.
func (s *PumpState) waits() bool { return s.waiting() > 0 && !s.working() }

// Owes reports whether a policy answered a request and codex is not known to have the
// answer.
func (s PumpState) Owes() bool {
	return slices.ContainsFunc(s.Open, func(o OpenRequest) bool { return o.Judged != nil })
}

// active returns the turn that an interrupt must name: for a review, the reviewer's turn
// (measured on 0.130 to 0.169).
func (s *PumpState) active() string { return orWord(s.Inner, s.TurnID) }

func (s *PumpState) rewind() int64 { return s.needs(func(OpenRequest) bool { return true }) }

// needs returns the offset of the oldest line that a later pump must read, for open items
// and requests that satisfy counts.
func (s PumpState) needs(counts func(OpenRequest) bool) int64 {
	at := s.Cursor.Offset
	for i := range s.Items {
		it := &s.Items[i]
		if _, ok := it.spoken(); ok && it.Pos > 0 {
			at = min(at, it.Kept)
		}
		if it.Type == "fileChange" {
			at = min(at, it.Offset)
		}
	}
	for _, o := range s.Open {
		if o.At > 0 && counts(o) {
			at = min(at, o.At)
		}
	}
	return at
}

func (s *PumpState) forgetProcess() {
	s.Items, s.TurnID, s.Idle, s.Budget = nil, "", false, ""
	s.ToolEnded, s.Retrying, s.RetryingMS = false, "", 0
	s.Spent.Over, s.Spent.CountedMS, s.Spent.Stopped = "", 0, false
	s.Trimmed, s.Untrimmable = 0, false
	s.TokenAsks, s.Login, s.Calls = nil, 0, nil
	s.Notices = Noticed{Mark: s.Notices.Mark}
	s.Begins, s.Named, s.Inner = "", "", ""
	s.Foreign, s.Unsaid, s.Restless, s.Interrupted = false, false, false, false
}
