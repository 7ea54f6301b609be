package flows

import "fairlead.dev/fairlead/internal/protocol"

// FindTurn returns the turn that a message began or steered.
func FindTurn(d protocol.SessionDetail, acc protocol.MessageAccepted) (found protocol.TurnView, ok bool) {
	for _, turn := range d.Turns {
		if turn.MessageID == acc.MessageID {
			return turn, true
		}
		if turn.N == acc.N {
			found, ok = turn, true
		}
	}
	return found, ok
}

// OpenApprovals returns the approvals that wait for a decision.
func OpenApprovals(d protocol.SessionDetail) []protocol.Approval {
	var out []protocol.Approval
	for _, ap := range d.Approvals {
		if ap.State == protocol.ApprovalOpen {
			out = append(out, ap)
		}
	}
	return out
}
