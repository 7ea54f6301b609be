package workflows

import (
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// excerpt cuts s to at most n bytes, at a character's border, and marks the cut.
func excerpt(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// A text is something that a person wrote, and the greatest length it may have, in bytes.
type text struct {
	what, is string
	max      int
}

func short(texts []text) error {
	for _, t := range texts {
		if len(t.is) > t.max {
			return fmt.Errorf("its %s is %d bytes long, at most %d", t.what, len(t.is), t.max)
		}
	}
	return nil
}

// Bounds of short texts, in bytes. All texts that people write are carried in the
// workflow's state, which must stay below Temporal's 2 MiB for one value.
const (
	maxWord   = 200     // names of people, models
	maxReason = 2 << 10 // why somebody decided or interrupted
	maxPath   = 4 << 10
)

// checkOrigin accepts an empty origin, batch/NAME and schedule/NAME, and refuses
// any other.
func checkOrigin(origin string) error {
	if origin == "" {
		return nil
	}
	name, ok := strings.CutPrefix(origin, protocol.BatchOrigins)
	if !ok {
		name, ok = strings.CutPrefix(origin, protocol.ScheduleOrigins)
	}
	if !ok || !protocol.NamePattern.MatchString(name) {
		return fmt.Errorf("origin %q is neither batch/NAME nor schedule/NAME", excerpt(origin, maxWord))
	}
	return nil
}
