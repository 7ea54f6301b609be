package main

import (
	"strings"
)

// waitingText says what a session waits for, and what may help where all slots
// are in use.
func waitingText(waits string) string {
	text := "waiting for " + clean(waits)
	if strings.Contains(waits, "slots in use") {
		text += " (an idle session keeps its slot: `ctl session list` shows them, `ctl session park ID` frees one)"
	}
	return text
}
