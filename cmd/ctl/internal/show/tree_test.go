package show

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

var update = flag.Bool("update", false, "renew the files of testdata")

// TestTheTextOfATranscriptIsATree shows what real versions of codex said as `ctl transcript` does:
// the entries of a sub-agent are together, behind a margin and its name. The entries are those that
// package conversation makes of its recordings.
func TestTheTextOfATranscriptIsATree(t *testing.T) {
	for _, name := range []string{"agents-0.125.0", "agents-0.169.0", "says-0.140.0", "says-0.169.0"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "conversation", "testdata", name+".entries.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		var all []protocol.Entry
		for line := range bytes.Lines(text) {
			var e protocol.Entry
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		var got bytes.Buffer
		r := &Renderer{P: core.NewPrinter(&got, false)}
		for _, e := range records.TranscriptTree(all) {
			r.TreeEntry(e)
		}
		file := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s is\n%s, want\n%s", name, got.Bytes(), want)
		}
	}
}
