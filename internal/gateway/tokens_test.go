package gateway

import (
	"testing"
	"time"
)

// A token that could not be written to the host must not take the one away that codex has.
func TestTokensThatNobodyGotLeaveTheFormerOneItsTime(t *testing.T) {
	now := time.Now()
	var all Tokens
	first := all.Issue(now, time.Minute)
	for n := range 3 {
		all.Issue(now.Add(time.Duration(n)*5*time.Second), time.Minute)
	}
	if !all.accepts(first, now.Add(59*time.Second)) {
		t.Error("the token that codex has is refused before its time is over")
	}
	if all.accepts(first, now.Add(61*time.Second)) {
		t.Error("later tokens lengthen the time of an earlier one")
	}
	last := all.Issue(now.Add(20*time.Second), 0)
	if all.accepts(first, now.Add(21*time.Second)) || !all.accepts(last, now.Add(21*time.Second)) {
		t.Error("without an overlap, the newest token alone is valid")
	}
	for range 100 {
		all.Issue(now.Add(30*time.Second), time.Minute)
	}
	if n := len(all.valid); n > mostTokens {
		t.Errorf("%d tokens are valid", n)
	}
}
