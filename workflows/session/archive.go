package session

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

type archived struct {
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
}

func (s *parkingPart) checkArchive(a protocol.Archive) error {
	if s.st.Archived != nil {
		return nil
	}
	if s.st.Parked == nil && s.st.Lease == nil {
		if err := s.ends(); err != nil {
			return err
		}
		return kit.Refuse(protocol.RefusedState, "session %s is %s: it can be archived when it is idle or parked", s.id, s.st.Status)
	}
	if len(s.st.Queue) > 0 {
		return kit.Refuse(protocol.RefusedState, "session %s has %d messages queued: take them back, or let them have their turns, then archive it", s.id, len(s.st.Queue))
	}
	return s.checkPark(protocol.Park{By: a.By})
}

// takeArchive parks and archives a session. It does not use codex's own thread/archive,
// which moves the rollout to a folder from which codex refuses to resume.
func (s *parkingPart) takeArchive(a protocol.Archive) (protocol.SessionView, error) {
	if err := s.checkArchive(a); err != nil {
		return protocol.SessionView{}, err
	}
	if s.st.Archived == nil {
		s.st.Archived = &archived{At: workflow.Now(s.ctx), By: a.By}
		s.note(conversation.Note{Type: protocol.EntryState, Text: "archived", Data: map[string]string{"by": a.By}})
		s.st.UpdatedAt = workflow.Now(s.ctx)
		s.forgetTrouble()
	}
	return s.view(), nil
}

func (s *parkingPart) checkUnarchive(a protocol.Archive) error {
	if err := s.ends(); err != nil {
		return err
	}
	if err := kit.Short([]kit.Text{{What: "by", Is: a.By, Max: kit.MaxWord}}); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "unarchive session %s: %v", s.id, err)
	}
	if s.st.Archived == nil {
		return kit.Refuse(protocol.RefusedState, "session %s is not archived", s.id)
	}
	return nil
}

func (s *parkingPart) takeUnarchive(a protocol.Archive) (protocol.SessionView, error) {
	if err := s.checkUnarchive(a); err != nil {
		return protocol.SessionView{}, err
	}
	s.st.Archived = nil
	s.note(conversation.Note{Type: protocol.EntryState, Text: "unarchived", Data: map[string]string{"by": a.By}})
	s.st.UpdatedAt = workflow.Now(s.ctx)
	return s.view(), nil
}

func (s *core) putAway() error {
	if s.st.Archived == nil {
		return nil
	}
	return kit.Refuse(protocol.RefusedState, "session %s is archived: `ctl session unarchive %s` takes it out first", s.id, s.id)
}

// stillHere unarchives a session that could not park.
func (s *parkingPart) stillHere() {
	if s.st.Archived == nil || s.st.Parked != nil || s.st.Close != nil || s.full() || s.st.Park != nil {
		return
	}
	s.st.Archived = nil
	why := "it could not park"
	if s.st.Error != nil {
		why = s.st.Error.Message
	}
	s.note(conversation.Note{Type: protocol.EntryError, Text: "not archived: " + why})
}
