package kit

import (
	"testing"
	"time"
)

func TestPausesGrowAndAreBounded(t *testing.T) {
	was := time.Duration(0)
	for n := 1; n < 100; n++ {
		d := PauseAfter(n)
		if d < was || d > longestPause || d < firstPause {
			t.Fatalf("after %d attempts: %v, before that %v", n, d, was)
		}
		was = d
	}
	if was != longestPause {
		t.Errorf("at last it waits %v", was)
	}
}
