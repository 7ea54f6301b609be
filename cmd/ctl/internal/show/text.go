package show

import (
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// RoundTime shortens 2h0m0s to 2h.
func RoundTime(d string) string { return flows.RoundTime(d) }

// PauseText says who paused a pool, when and why.
func PauseText(p *protocol.PoolPause) string {
	if p == nil {
		return ""
	}
	text := "since " + p.Since.UTC().Format("2006-01-02 15:04 MST")
	if p.By != "" {
		text += " by " + p.By
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return core.Clean(text)
}

func When(t *time.Time) string {
	if t == nil {
		return ""
	}
	return core.Age(*t)
}

// WorkText says what a snapshot has of the work folder.
func WorkText(m snapshots.Manifest) string {
	if m.WorkWhy != "" {
		return m.Work + ", though git was asked for: " + m.WorkWhy
	}
	return m.Work
}
