package sessions

import (
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func drawn(t *testing.T) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "a.png"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(png.Encode(f, image.NewGray(image.Rect(0, 0, 2, 2))), f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// A person's files reach the model, its JSON is returned, and its changes are
// shown. The files are deleted from the host with the session.
func TestFilesGoInAndJSONAndADiffComeOut(t *testing.T) {
	dir := t.TempDir()
	notes, picture, schema := filepath.Join(dir, "my notes.txt"), drawn(t), filepath.Join(dir, "schema.json")
	for name, text := range map[string]string{notes: "blue", schema: `{"type":"object"}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e2e.Session(t, "inputs", "--instructions", "be brief about it")
	var v protocol.TurnView
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "session", "send", "inputs", "--file", notes, "--image", picture, "--output-schema", schema, "tell me the colour as JSON"); err != nil {
		t.Fatal(err)
	}
	var out struct{ Colour string }
	if err := json.Unmarshal(v.Output, &out); err != nil || out.Colour != "blue" || v.OutputError != "" {
		t.Errorf("turn %+v, output %s, %v", v, v.Output, err)
	}
	if left, err := filepath.Glob(filepath.Join(e2e.Root, "sessions", "inputs", "inputs", "*", "*")); err != nil || len(left) != 2 {
		t.Errorf("on the host are %v, %v", left, err)
	}
	if s := e2e.Show(t, "inputs"); s.Usage.Context == nil || s.Usage.Context.Window == 0 || len(s.Files) != 1 {
		t.Errorf("session %+v", s)
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "send", "inputs", "--output-schema", schema, "--file", notes, "tell me the colour as JSON"); r.Code != 0 || strings.TrimSpace(r.Stdout) != `{"colour":"blue"}` {
		t.Error(r)
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "diff", "inputs", "--turn", "last"); r.Code != 3 {
		t.Error(r)
	}
	e2e.Turn(t, "inputs", "you need a small change of a file")
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "diff", "inputs", "--turn", "last"); r.Code != 0 || !strings.Contains(r.Stdout, "+small\n") {
		t.Error(r)
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "diff", "inputs"); r.Code != 0 || !strings.Contains(r.Stdout, "+small\n") {
		t.Error(r)
	}
	e2e.OK(t, "session", "close", "inputs")
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "diff", "inputs", "--turn", "3"); r.Code != 0 || !strings.Contains(r.Stdout, "+small\n") {
		t.Error(r)
	}
}
