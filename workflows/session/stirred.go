package session

import (
	"fairlead.dev/fairlead/activities/pumps"
)

// stirred takes the signal of a watch. The signal causes a pump only if it is about the
// present process and the watch knows more than the session. The pump then finds out what
// happened.
func (s *processPart) stirred(m pumps.Stirred) {
	switch {
	case !s.st.Alive || m.Incarnation != s.st.Incarnation || s.st.Lease == nil || m.Host != s.st.Lease.Spec.Name:
	case m.Gone == "" && m.Offset <= s.st.Pump.Cursor.Offset:
	default:
		s.st.Stirred = true
		s.stir = m
	}
}

// stirredBehind is called when a pump has returned. The pump has seen what happened before
// it attached. What happened after that needs another pump. Signals about both may have
// come while the pump ran. A turn that codex has begun by itself also needs another pump.
func (s *processPart) stirredBehind(begun bool) {
	m := s.stir
	s.st.Stirred, s.stir = begun && s.st.Alive, pumps.Stirred{}
	s.stirred(m)
}

func (s *processPart) drainStirred() {
	for {
		var m pumps.Stirred
		if !s.stirs.ReceiveAsync(&m) {
			return
		}
		s.stirred(m)
	}
}

// looks reports whether the next pump only looks what happened to a process. If that pump
// learns nothing, this does not count against codex.
func (s *processPart) looks() bool {
	if !s.st.Stirred {
		return false
	}
	s.st.Stirred, s.st.Fruitless, s.stir = false, 0, pumps.Stirred{}
	return true
}
