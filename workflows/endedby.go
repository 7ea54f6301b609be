package workflows

import (
	"cmp"

	"fairlead.dev/fairlead/internal/protocol"
)

// Who or what ended a turn before its end.
const (
	EndedByPerson   = "person"   // an interrupt, or the cancel of a request
	EndedByClose    = "close"    // the session was closed
	EndedByBudget   = "budget"   // the budget is used up
	EndedByWatchdog = "watchdog" // codex or the model took too long
	EndedByProcess  = "process"  // codex's process ended
	EndedByHost     = "host"     // the host was lost
	EndedByCodex    = "codex"    // codex itself, unasked
)

var endedByKind = map[string]string{
	protocol.EndBudget: EndedByBudget, protocol.EndHostLost: EndedByHost, "process_exit": EndedByProcess,
	"start_timeout": EndedByWatchdog, "request_timeout": EndedByWatchdog, protocol.EndTurnTimeout: EndedByWatchdog,
	"silent": EndedByWatchdog, "quiet_after_tool": EndedByWatchdog,
}

func (s *turnsPart) endedBy(status string, f *Failure) string {
	if status != "interrupted" && status != "unknown" {
		return ""
	}
	if f != nil && endedByKind[f.Kind] != "" && endedByKind[f.Kind] != EndedByProcess {
		return endedByKind[f.Kind]
	}
	switch {
	case s.st.Close != nil && (s.st.Interrupt == nil || s.st.Interrupt.Reason == closedReason):
		return EndedByClose
	case s.st.Interrupt != nil || s.cancelled() != nil:
		return EndedByPerson
	case f != nil && endedByKind[f.Kind] != "":
		return endedByKind[f.Kind]
	}
	return EndedByCodex
}

// closedReason is why a closing session interrupts its turn.
const closedReason = "the session was closed"

// cancelled returns the decision that was to end the running turn.
func (s *turnsPart) cancelled() *Decision {
	for _, a := range s.st.Approvals {
		if a.Turn == s.st.TurnN && a.Decision != nil && a.Decision.Outcome == string(protocol.Cancel) {
			return a.Decision
		}
	}
	return nil
}

func (s *turnsPart) whyInterrupted() *Failure {
	f := &Failure{Kind: protocol.EndInterrupted, Hint: protocol.HintOf(protocol.EndInterrupted)}
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
