package session

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

func checkWatchdogs(w protocol.Watchdogs) error {
	for _, d := range []struct {
		what string
		is   time.Duration
	}{{"startup", w.StartUp}, {"request", w.Request}, {"silence", w.Silence}, {"quiet", max(w.Quiet, 0)}, {"retry", max(w.Retry, 0)}} {
		if d.is != 0 && (d.is < protocol.LeastWatch || d.is > protocol.MostWatch) {
			return fmt.Errorf("watchdogs.%s %s is not between %s and %s", d.what, d.is, protocol.LeastWatch, protocol.MostWatch)
		}
	}
	return nil
}

// limits returns the next pump's limits. All pumps of a turn share one deadline.
func (s *processPart) limits() conversation.Limits {
	w := s.opt.Watchdogs
	return conversation.Limits{
		StartUp: w.StartUp, Request: w.Request, Silence: w.Silence, Quiet: w.Quiet, Retry: w.Retry,
		Turn: max(s.opt.TurnTimeout-s.st.TurnSpent, time.Second), Budget: s.opt.Bounds,
	}
}
