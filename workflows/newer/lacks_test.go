package newer

import "testing"

func TestWhatAWorkerLacksIsReadFromItsFailure(t *testing.T) {
	for message, want := range map[string]string{
		"session/s1" + needs + "version v1) does not know: follow_ups" + waits + ": bring all workers up to date": "a worker (version v1) does not know: follow_ups",
		"session/s1 needs more":                    "",
		"[TMPRL1100] nondeterministic":             "",
		"x" + needs + "version v1) does not know:": "",
		"": "",
	} {
		if got := Lacks(message); got != want {
			t.Errorf("%q: %q", message, got)
		}
	}
}
