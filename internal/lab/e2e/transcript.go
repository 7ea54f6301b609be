package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
)

// LastText returns codex's last message in a session.
func LastText(t *testing.T, id string) string {
	t.Helper()
	said := Texts(Transcript(t, id), protocol.EntryAssistant)
	if len(said) == 0 {
		t.Fatalf("%s said nothing", id)
	}
	return said[len(said)-1]
}

// Payloads returns the decoded base64 strings in an event's JSON.
func Payloads(event []byte) string {
	var out strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		case string:
			var b []byte
			if json.Unmarshal([]byte(`"`+v+`"`), &b) == nil {
				out.Write(b)
				out.WriteByte('\n')
			}
		}
	}
	var v any
	if json.Unmarshal(event, &v) == nil {
		walk(v)
	}
	return out.String()
}

// Transcript returns a session's entries. It checks that seq rises by one from
// 1, and that no entry is repeated.
func Transcript(t *testing.T, id string) []protocol.Entry {
	t.Helper()
	list, err := lab.Lines[protocol.Entry](Within(t), Lab, "transcript", id)
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

// Texts returns the texts of the entries of one type.
func Texts(list []protocol.Entry, kind protocol.EntryType) []string {
	var out []string
	for _, e := range list {
		if e.Type == kind {
			out = append(out, e.Text)
		}
	}
	return out
}
