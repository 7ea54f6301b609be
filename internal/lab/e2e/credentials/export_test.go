package credentials

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A seed is exported encrypted for one key and imported again, and a session
// runs with it.
func TestASeedIsExportedEncryptedAndTakenBack(t *testing.T) {
	dir := t.TempDir()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "me.txt")
	if err := os.WriteFile(key, []byte(id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "team.seed.age")
	to := id.Recipient().String()
	text := e2e.OK(t, "seed", "export", "team", "--recipient", to, "--out", file, "-o", "json")
	var v struct {
		Kind, Recipient, File string
		Generation            int64
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil || v.Kind != "provider" || v.Recipient != to || v.File != file || v.Generation < 1 {
		t.Errorf("exported %+v, %v", v, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || bytes.Contains(data, []byte(e2e.Lab.Token)) || strings.Contains(text, e2e.Lab.Token) {
		t.Errorf("the file has mode %v, %v, or shows its secret", info.Mode(), err)
	}
	var seed protocol.SeedView
	if err := e2e.Lab.JSON(e2e.Within(t), &seed, "seed", "show", "team"); err != nil || seed.Exported == nil || seed.Exported.Recipient != to || seed.Exported.By == "" {
		t.Errorf("on record: %+v, %v", seed.Exported, err)
	}
	log, err := os.ReadFile(filepath.Join(e2e.Lab.State, "logs", "worker.log"))
	if err != nil || !bytes.Contains(log, []byte(`"msg":"seed exported"`)) || !bytes.Contains(log, []byte(to)) {
		t.Errorf("the worker's log does not tell of it (%v)", err)
	}
	e2e.OK(t, "seed", "import", "back", "--from", file, "--identity", key)
	e2e.OK(t, "session", "start", "--host", "web-1", "--seed", "back", "--id", "exported")
	e2e.Turn(t, "exported", "hello")
	e2e.OK(t, "session", "close", "exported")
	e2e.OK(t, "seed", "delete", "back", "--purge")

	other := filepath.Join(dir, "other.txt")
	stranger, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte(stranger.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	free := filepath.Join(dir, "free")
	for name, c := range map[string]struct {
		code int
		says string
		args []string
	}{
		"no recipient":         {2, "--recipient is missing", []string{"seed", "export", "team", "--out", free}},
		"an identity":          {2, "not one age recipient", []string{"seed", "export", "team", "--recipient", id.String(), "--out", free}},
		"a file that is there": {2, "is there already", []string{"seed", "export", "team", "--recipient", to, "--out", file}},
		"no such seed":         {3, "", []string{"seed", "export", "unheard-of", "--recipient", to, "--out", free}},
		"no identity":          {2, "--identity", []string{"seed", "import", "x", "--from", file}},
		"another identity":     {2, "another key", []string{"seed", "import", "x", "--from", file, "--identity", other}},
		"no export":            {2, "", []string{"seed", "import", "x", "--from", key, "--identity", key}},
	} {
		r := e2e.Lab.Ctl(e2e.Within(t), nil, c.args...)
		if r.Code != c.code || !strings.Contains(r.Stderr, c.says) || strings.Contains(r.Stderr, "SECRET-KEY-1") {
			t.Errorf("%s: %v; want exit %d", name, r, c.code)
		}
	}
	if _, err := os.Stat(free); err == nil {
		t.Error("a refused export left a file")
	}
}
