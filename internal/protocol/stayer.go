package protocol

import "fmt"

// A Stayer is a session still on a draining host.
type Stayer struct {
	Session string        `json:"session"`
	State   SessionStatus `json:"state,omitempty"`
	Why     string        `json:"why,omitempty"` // if known
}

func (s Stayer) String() string {
	if s.Why == "" {
		return s.Session
	}
	return fmt.Sprintf("%s (%s)", s.Session, s.Why)
}

// A DrainView is the JSON of `ctl host drain`.
type DrainView struct {
	HostView
	Left []Stayer `json:"left"`
}
