package sessions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A session's long instructions and base instructions go by the store, reach the model once
// each, also after the session was parked and in a fork, and are shown with their authors. The
// repository's own AGENTS.md stays as it is.
func TestInstructionsOfASessionReachTheModelAndStay(t *testing.T) {
	const id = "told"
	e2e.Scripted(t, `rules: [{reply: yes}]`)
	dir := t.TempDir()
	name := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	own := "OWNFIRST\n" + strings.Repeat("Keep to the rules of the team.\n", 1000) + "OWNLAST\n"
	work := t.TempDir()
	if err := os.WriteFile(filepath.Join(work, "AGENTS.md"), []byte("REPOSITORY\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	e2e.Session(t, id, "--dir", work, "--instructions", name("own.md", own), "--developer-instructions", "DEVELOPER says so", "--base-instructions", name("base.md", "BASEFIRST You are a clerk.\n"))
	fork := false
	told := func(when string) {
		t.Helper()
		all := e2e.Lab.Model.Requests()
		body := string(all[len(all)-1].Body)
		for _, word := range []string{"OWNFIRST", "OWNLAST", "DEVELOPER", "BASEFIRST"} {
			// codex repeats AGENTS.md if the work folder is another one, as that of a fork is.
			if n := strings.Count(body, word); n != 1 && !(fork && n == 2 && strings.HasPrefix(word, "OWN")) {
				t.Errorf("%s: the model is told %s %d times", when, word, n)
			}
		}
	}
	e2e.Turn(t, id, "go")
	told("at first")
	all := e2e.Lab.Model.Requests()
	if body := string(all[len(all)-1].Body); strings.Index(body, "REPOSITORY") < strings.Index(body, "OWNLAST") {
		t.Error("the repository's AGENTS.md is not told after the session's instructions")
	}
	shown := func(id string) {
		t.Helper()
		var in protocol.Instructions
		if err := e2e.Lab.JSON(e2e.Within(t), &in, "session", "show", id, "--instructions"); err != nil {
			t.Fatal(err)
		}
		last := len(in.Parts) - 1
		if last < 0 || in.Parts[last].Of != protocol.OfSession || in.Parts[last].Text != own || in.File != "AGENTS.md" || !strings.HasSuffix(in.Text, own) ||
			in.Base != "BASEFIRST You are a clerk.\n" || in.Developer != "DEVELOPER says so" || in.Host == "" {
			t.Errorf("%s: shown is %+v…", id, in)
		}
	}
	shown(id)
	e2e.OK(t, "session", "park", id)
	e2e.Turn(t, id, "go on")
	told("after it was parked")

	e2e.OK(t, "session", "fork", id, "--id", id+"-fork")
	fork = true
	e2e.Turn(t, id+"-fork", "go elsewhere")
	told("in a fork")
	shown(id + "-fork")
	if text := e2e.OK(t, "session", "show", id, "--instructions"); !strings.Contains(text, "# session, in AGENTS.md of CODEX_HOME\n<!--") && !strings.Contains(text, "# session, in AGENTS.md of CODEX_HOME\nOWNFIRST\n") {
		t.Errorf("a person is shown %.200q", text)
	}
	if data, err := os.ReadFile(filepath.Join(work, "AGENTS.md")); string(data) != "REPOSITORY\n" {
		t.Errorf("the work folder's own AGENTS.md is %q, %v", data, err)
	}
	if g := e2e.Show(t, id).Given; g == nil || g.Agents == nil || g.Agents.Text != "" || g.Agents.Blob == "" {
		t.Errorf("the long instructions do not go by the store: %.300v", g)
	}
	e2e.OK(t, "session", "close", id+"-fork")
	e2e.OK(t, "session", "close", id)
	e2e.Refused(t, 2, "has more than 65536 bytes", "session", "start", "--host", "web-1", "--instructions", name("long.md", strings.Repeat("x", protocol.MaxGiven+1)))
}
