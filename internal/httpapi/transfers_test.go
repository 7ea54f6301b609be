package httpapi

import (
	"errors"
	"net/http"
	"testing"
)

// A principal has a bounded number of archives on their way, because each reads the store or a host to
// its end, also for a request for one byte of it.
func TestArchivesOnTheirWayAreBounded(t *testing.T) {
	var x transfers
	var leaves []func()
	for i := range mostTransfers {
		leave, err := x.enter(t.Context())
		if err != nil {
			t.Fatalf("archive %d: %v", i, err)
		}
		leaves = append(leaves, leave)
	}
	var p *Problem
	if _, err := x.enter(t.Context()); !errors.As(err, &p) || p.Status != http.StatusTooManyRequests {
		t.Errorf("one too many: %v", err)
	}
	leaves[0]()
	leaves[0]() // counts once
	if _, err := x.enter(t.Context()); err != nil {
		t.Errorf("after the end of one: %v", err)
	}
	if _, err := x.enter(t.Context()); err == nil {
		t.Error("an end counted twice")
	}
}
