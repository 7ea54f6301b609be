package flows

import (
	"sync"
	"time"
)

// Silence records that workers do not answer.
type Silence struct {
	sync.Mutex
	asked time.Time // when ctl last asked in vain
	since time.Time // zero if workers answer
	told  bool
}

func (s *Silence) again() bool {
	s.Lock()
	defer s.Unlock()
	return time.Since(s.asked) > silenceLasts
}

func (s *Silence) heard(answered bool) {
	s.Lock()
	defer s.Unlock()
	if answered {
		s.asked, s.since = time.Time{}, time.Time{}
		return
	}
	s.asked = time.Now()
	if s.since.IsZero() {
		s.since = s.asked
	}
}

// Lasted returns how long no worker has answered.
func (s *Silence) Lasted() time.Duration {
	s.Lock()
	defer s.Unlock()
	if s.since.IsZero() {
		return 0
	}
	return time.Since(s.since)
}

// Once reports true at its first call only.
func (s *Silence) Once() bool {
	s.Lock()
	defer s.Unlock()
	was := s.told
	s.told = true
	return !was
}
