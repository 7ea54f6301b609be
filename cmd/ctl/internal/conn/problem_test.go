package conn

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/api"
	keepers "fairlead.dev/fairlead/internal/authority"
)

func TestAWorkerWithABrokenAccessFileHasAProblem(t *testing.T) {
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for want, st := range map[string]api.Status{
		"":             {Ready: true, Access: &keepers.Standing{Digest: "d"}},
		"Temporal":     {Waits: "Temporal", Access: &keepers.Standing{Broken: "line 3"}},
		"line 3: king": {Ready: true, Access: &keepers.Standing{Broken: "line 3: king"}},
		"since 2026-05-04T12:00:00Z, and the last good one stays in force (digest d,": {Ready: true, Access: &keepers.Standing{Digest: "d", Broken: "line 3", BrokenSince: noon}},
	} {
		if got := problemOf(st); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", st, got, want)
		}
	}
}
