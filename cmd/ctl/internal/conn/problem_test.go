package conn

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/api"
	keepers "fairlead.dev/fairlead/internal/authority"
)

func TestAWorkerWithABrokenAccessFileHasAProblem(t *testing.T) {
	for want, st := range map[string]api.Status{
		"":             {Ready: true, Access: &keepers.Standing{Digest: "d"}},
		"Temporal":     {Waits: "Temporal", Access: &keepers.Standing{Broken: "line 3"}},
		"line 3: king": {Ready: true, Access: &keepers.Standing{Broken: "line 3: king"}},
	} {
		if got := problemOf(st); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", st, got, want)
		}
	}
}
