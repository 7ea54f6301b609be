package e2e

import (
	"testing"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/deploy/lab"
)

// transcript reads a session's entries and checks what holds for every one:
// seq rises by one from 1, and no entry comes twice.
func transcript(t *testing.T, id string) []activities.Entry {
	t.Helper()
	list, err := lab.Lines[activities.Entry](within(t), shared, "transcript", id)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int64{}
	for i, e := range list {
		if e.Seq != int64(i+1) {
			t.Errorf("entry %d of %s has seq %d", i+1, id, e.Seq)
		}
		if first, twice := seen[e.ID]; twice {
			t.Errorf("entry %s of %s stands at %d and at %d", e.ID, id, first, e.Seq)
		}
		seen[e.ID] = e.Seq
	}
	return list
}

// texts picks the texts of one type.
func texts(list []activities.Entry, kind activities.EntryType) []string {
	var out []string
	for _, e := range list {
		if e.Type == kind {
			out = append(out, e.Text)
		}
	}
	return out
}
