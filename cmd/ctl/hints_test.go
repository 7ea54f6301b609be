package main

import "testing"

// Who names something that is not there is told how to find what there is.
func TestWhatIsNotThereComesWithWhereToLook(t *testing.T) {
	for message, want := range map[string]string{
		`zone default has no host "web-9"`:      "`ctl host list` shows what there is",
		"cancel batch nightly":                  "`ctl batch list` shows what there is",
		"show session s1":                       "`ctl session list` shows what there is",
		"create schedule nightly: no seed team": "`ctl seed list` shows what there is",
		"look at approval s.1":                  "",
	} {
		if got := whatThereIs(message); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}
