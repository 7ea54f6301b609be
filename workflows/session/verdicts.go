package session

import (
	"fmt"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// A file that codex delivered waits for a verdict as an approval of its own kind. The pump
// that asks cannot write that into the transcript, so the session does.

// expiredBy is who declines if nobody decides.
const expiredBy = "expiry"

func delivered(r protocol.Request) (f protocol.DeliveredFile, ok bool) {
	if r.Kind != protocol.KindDeliverable {
		return f, false
	}
	//workflowcheck:ignore // JSON is a pure function
	f, err := protocol.Delivered(r.Args)
	return f, err == nil
}

func (s *approvalsPart) noteDelivered(a *approvalState) {
	if f, ok := delivered(a.Request); ok {
		id := s.approvalID(a.N)
		s.note(conversation.Note{Type: protocol.EntryState, Turn: a.Turn, Text: fmt.Sprintf("%s waits for a verdict: %s", f, id),
			Data: map[string]string{"approval": id, "file": f.Name, "sha256": f.SHA256, "digest": a.Request.Digest}})
	}
}

// verdict returns what a decision says of a delivered file; nil if the approval is about
// something else.
func (s *approvalsPart) verdict(a *approvalState, d protocol.Decision) *protocol.FileVerdict {
	f, ok := delivered(a.Request)
	if !ok {
		return nil
	}
	v := &protocol.FileVerdict{Approval: s.approvalID(a.N), Call: a.Request.Call, Turn: a.Turn, Name: f.Name, SHA256: f.SHA256,
		Outcome: protocol.Outcome(d.Outcome), Reason: d.Reason, By: d.By, At: d.At, Expired: a.State == protocol.ApprovalExpired}
	if v.Outcome == protocol.Revise {
		v.Comments, _ = protocol.Comments(d.Answers) // which checkDecide has checked
	}
	return v
}

// verdictViews returns the newest verdicts, the oldest first. If the state no longer has an
// approval, its verdict is in the store, beside the deliverable.
func (s *approvalsPart) verdictViews() (all []protocol.FileVerdict) {
	for i := range s.st.Approvals {
		if a := &s.st.Approvals[i]; a.Decision != nil {
			if v := s.verdict(a, *a.Decision); v != nil {
				all = append(all, *v)
			}
		}
	}
	return all
}
