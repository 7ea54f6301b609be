package kit

import (
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// Cut cuts s to at most n bytes, at a character's border. It marks a cut with "…", which
// does not count.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

// Dash returns s, or a dash if s is empty.
func Dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// Clock returns a time in UTC as people read it.
func Clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// A Text is what a person wrote; Max is in bytes.
type Text struct {
	What, Is string
	Max      int
}

// Short returns an error that names the first text that is too long, or nil.
func Short(texts []Text) error {
	for _, t := range texts {
		if len(t.Is) > t.Max {
			return fmt.Errorf("its %s is %d bytes long, at most %d", t.What, len(t.Is), t.Max)
		}
	}
	return nil
}

// Bounds of people's texts, in bytes. The state carries them: Temporal takes 2 MiB for one
// value.
const (
	MaxWord   = 200     // names of people, models
	MaxReason = 2 << 10 // why somebody decided or interrupted
	MaxPath   = 4 << 10
)

// CheckOrigin accepts only an empty origin, batch/NAME, schedule/NAME, session/NAME and
// parent/NAME.
func CheckOrigin(origin string) error {
	if origin == "" {
		return nil
	}
	for _, prefix := range []string{protocol.BatchOrigins, protocol.ScheduleOrigins, protocol.SessionOrigins, protocol.ParentOrigins} {
		if name, ok := strings.CutPrefix(origin, prefix); ok && protocol.NamePattern.MatchString(name) {
			return nil
		}
	}
	return fmt.Errorf("origin %q is none of batch/NAME, schedule/NAME, session/NAME and parent/NAME", Cut(origin, MaxWord))
}
