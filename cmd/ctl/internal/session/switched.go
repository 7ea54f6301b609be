package session

import (
	"fmt"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// switchedText tells of the newest change to another seed at the end of a quota.
func switchedText(s *protocol.SwitchedView) string {
	switch {
	case s == nil:
		return ""
	case s.To == "":
		return fmt.Sprintf("%s, from seed %s, whose quota ended: it waits for another one of pool %s", core.Age(s.At), s.From, s.Pool)
	}
	return fmt.Sprintf("%s, from seed %s, whose quota ended, to %s, for turn %d (attempt %d); %d in all", core.Age(s.At), s.From, s.To, s.Turn, s.Attempt, s.N)
}
