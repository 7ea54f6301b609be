package main

import "testing"

// Accepted means kept, through a power cut too: SQLite syncs each commit to the
// disk before the server acknowledges it (synchronous=FULL, which is 2), unless
// somebody asks for less.
func TestWhatIsAcknowledgedIsOnTheDisk(t *testing.T) {
	if got := sqlConfig("/db", nil).ConnectAttributes; got["synchronous"] != "2" || got["journal_mode"] != "wal" {
		t.Errorf("the file is opened with %v", got)
	}
	if got := sqlConfig("/db", map[string]string{"synchronous": "1"}).ConnectAttributes["synchronous"]; got != "1" {
		t.Errorf("with --sqlite-pragma synchronous=1 it is %q", got)
	}
}
