package session

import (
	"fairlead.dev/fairlead/activities/pumps"
)

// stirred takes the signal of a watch. Only news about the present process causes a pump.
func (s *processPart) stirred(m pumps.Stirred) {
	switch {
	case !s.st.Alive || m.Incarnation != s.st.Incarnation || s.st.Lease == nil || m.Host != s.st.Lease.Spec.Name:
	case m.Gone == "" && m.Offset <= s.st.Pump.Cursor.Offset:
	default:
		s.st.Stirred = true
		s.stir = m
	}
}

// stirredBehind is called when a pump has returned. Another pump is needed if codex has
// begun a turn by itself, or if a signal that came meanwhile tells more than the pump has
// read.
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

// looks reports whether the next pump only looks what happened. If it learns nothing, this
// does not count against codex.
func (s *processPart) looks() bool {
	if !s.st.Stirred {
		return false
	}
	s.st.Stirred, s.st.Fruitless, s.stir = false, 0, pumps.Stirred{}
	return true
}
