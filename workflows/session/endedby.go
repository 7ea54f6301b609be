package session

import (
	"cmp"

	"fairlead.dev/fairlead/internal/protocol"
)

var endedByKind = map[string]string{
	protocol.EndBudget: protocol.EndedByBudget, protocol.EndHostLost: protocol.EndedByHost, "process_exit": protocol.EndedByProcess,
	// What a process said before it ended, or before it was found mute.
	protocol.EndAuth: protocol.EndedByProcess, protocol.EndQuota: protocol.EndedByProcess, protocol.EndSandbox: protocol.EndedByProcess, protocol.EndVersion: protocol.EndedByProcess,
	"start_timeout": protocol.EndedByWatchdog, "request_timeout": protocol.EndedByWatchdog, protocol.EndTurnTimeout: protocol.EndedByWatchdog,
	"silent": protocol.EndedByWatchdog, "quiet_after_tool": protocol.EndedByWatchdog, protocol.EndNetwork: protocol.EndedByWatchdog,
}

func (s *turnsPart) endedBy(status string, f *protocol.Failure) string {
	if status != "interrupted" && status != "unknown" {
		return ""
	}
	if f != nil && endedByKind[f.Kind] != "" && endedByKind[f.Kind] != protocol.EndedByProcess {
		return endedByKind[f.Kind]
	}
	switch {
	case s.st.Close != nil && (s.st.Interrupt == nil || s.st.Interrupt.Reason == closedReason):
		return protocol.EndedByClose
	case s.st.Interrupt != nil || s.cancelled() != nil:
		return protocol.EndedByPerson
	case f != nil && endedByKind[f.Kind] != "":
		return endedByKind[f.Kind]
	}
	return protocol.EndedByCodex
}

// closedReason is the reason with which a closing session interrupts its turn.
const closedReason = "the session was closed"

// cancelled returns the decision that was to end the running turn, or nil.
func (s *turnsPart) cancelled() *protocol.Decision {
	for _, a := range s.st.Approvals {
		if a.Turn == s.st.TurnN && a.Decision != nil && a.Decision.Outcome == string(protocol.Cancel) {
			return a.Decision
		}
	}
	return nil
}

func (s *turnsPart) whyInterrupted() *protocol.Failure {
	f := &protocol.Failure{Kind: protocol.EndInterrupted, Hint: protocol.HintOf(protocol.EndInterrupted)}
	switch d := s.cancelled(); {
	case s.st.Interrupt != nil:
		f.Message = interruptedBy(s.st.Interrupt)
	case d != nil:
		f.Message = "a request of the turn was cancelled by " + cmp.Or(d.By, "somebody")
		if d.Reason != "" {
			f.Message += ": " + d.Reason
		}
	default:
		f.Message = "codex ended the turn by itself, and did not say why"
	}
	return f
}
