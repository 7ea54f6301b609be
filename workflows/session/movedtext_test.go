package session

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

// If nothing kept the work, codex is never told that the work was brought to the new host.
func TestCodexIsToldWhatDidNotComeAlong(t *testing.T) {
	for _, work := range []string{protocol.WorkNone, protocol.WorkFull} {
		for _, lost := range []bool{false, true} {
			s := assembled(&core{st: &State{placeState: placeState{Lease: &HostLease{Spec: protocol.HostSpec{Name: "b"}}, Layout: &protocol.Layout{WorkDir: "/w"}}}})
			s.opt.Snapshot.Work = work
			got := s.moving.movedText(moved{From: []string{"a"}, Lost: lost})
			empty, whole := strings.Contains(got, "/w, is a new and empty one"), strings.Contains(got, "and its working directory, which is /w") || strings.Contains(got, "and the working directory, /w, are as they were")
			if empty != (work == protocol.WorkNone) || whole == empty || !strings.Contains(got, "ost a") || !strings.Contains(got, "host b") {
				t.Errorf("%s, lost %v: %q", work, lost, got)
			}
		}
	}
}
