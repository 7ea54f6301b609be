package workflows

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/conversation"
)

// Watchdogs bound how long codex and the model may take. Zero means the default
// named beside a field. Time in which only a person is waited for never counts.
type Watchdogs struct {
	StartUp time.Duration `json:"startup,omitempty"` // until codex answers after its start; 60 s
	Request time.Duration `json:"request,omitempty"` // until it answers a request or takes a message; 60 s
	Silence time.Duration `json:"silence,omitempty"` // of codex, before it is asked for a sign of life; 2 min
	Quiet   time.Duration `json:"quiet,omitempty"`   // of the model after a tool has ended; 30 min, negative means no limit
}

// Bounds of a watchdog: less than a second is a mistake, and more than a week is
// not waiting.
const (
	LeastWatch = time.Second
	MostWatch  = 7 * 24 * time.Hour
)

func (w Watchdogs) check() error {
	for _, d := range []struct {
		what string
		is   time.Duration
	}{{"startup", w.StartUp}, {"request", w.Request}, {"silence", w.Silence}, {"quiet", max(w.Quiet, 0)}} {
		if d.is != 0 && (d.is < LeastWatch || d.is > MostWatch) {
			return fmt.Errorf("watchdogs.%s %s is not between %s and %s", d.what, d.is, LeastWatch, MostWatch)
		}
	}
	return nil
}

// limits returns the limits of the next pump. A turn has one deadline, however many
// pumps serve it.
func (s *processPart) limits() conversation.Limits {
	w := s.opt.Watchdogs
	return conversation.Limits{
		StartUp: w.StartUp, Request: w.Request, Silence: w.Silence, Quiet: w.Quiet,
		Turn: max(s.opt.TurnTimeout-s.st.TurnSpent, time.Second), Budget: s.opt.Bounds,
	}
}
