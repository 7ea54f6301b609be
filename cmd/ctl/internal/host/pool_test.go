package host

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/protocol"
)

// A pool that cannot list the sessions says what it waits for, and for how long.
func TestAPoolThatGrantsNoSlotSaysWhy(t *testing.T) {
	if got := poolWaitText(nil); got != "" {
		t.Errorf("a pool that waits for nothing says %q", got)
	}
	now := time.Now()
	got := poolWaitText(&protocol.WaitingView{Doing: "look for sessions", Since: now.Add(-2 * time.Hour), Attempt: 9, Kind: "internal",
		Error: "the store is away", NextAt: now.Add(5 * time.Minute)})
	for _, want := range []string{"look for sessions", "the store is away", "9 failed", "internal"} {
		if !strings.Contains(got, want) {
			t.Errorf("it says %q, which lacks %q", got, want)
		}
	}
}

// Reasons come from hosts, stores and other people, so they are cleaned before they reach a
// terminal.
func TestReasonsOfAPoolAreHarmless(t *testing.T) {
	evil := "\x1b[31mred\x07"
	for what, text := range map[string]string{
		"wait":  poolWaitText(&protocol.WaitingView{Doing: "look", Error: evil}),
		"pause": show.PauseText(&protocol.PoolPause{By: evil, Reason: evil}),
	} {
		if strings.ContainsAny(text, "\x1b\x07") || !strings.Contains(text, "red") {
			t.Errorf("%s: %q", what, text)
		}
	}
}
