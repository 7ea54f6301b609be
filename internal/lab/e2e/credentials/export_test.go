package credentials

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
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

// Whoever calls the worker's API without ctl gets a login only if its seed permits it. The
// seed refuses while a session holds it, and otherwise records who asked.
func TestAHeldLoginIsNotExportedByTheAPIEither(t *testing.T) {
	loginSeed(t, "sought")
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	worker, err := api.NewClient("unix://"+filepath.Join(e2e.Lab.State, "api.sock"), api.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	ask := api.ExportSeed{Recipient: id.Recipient().String(), By: "mallory"}
	e2e.Session(t, "holds-it", "--seed", "sought")
	if v := e2e.Turn(t, "holds-it", "hello"); v.Status != "completed" {
		t.Fatalf("turn %+v", v)
	}
	var refused *api.Error
	ask.Digest = seed(t, "sought").Ref.Digest
	if got, err := worker.ExportSeed(e2e.Within(t), "sought", ask); !errors.As(err, &refused) || refused.Kind != api.ErrRefused || !strings.Contains(err.Error(), "holds-it") || len(got.Data) > 0 {
		t.Errorf("while it is held: %d bytes, %v", len(got.Data), err)
	}
	if n := exportsOnRecord(t, audit.Refused); n != 1 {
		t.Errorf("%d refused exports are on the audit record", n)
	}
	if v := seed(t, "sought"); v.Exported != nil || v.Health == protocol.Suspect {
		t.Errorf("after the refusal: %+v", v)
	}
	e2e.OK(t, "session", "close", "holds-it")
	ask.Digest = ""
	got, err := worker.ExportSeed(e2e.Within(t), "sought", ask)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := seeds.OpenExport(bytes.NewReader(got.Data), id); err != nil {
		t.Errorf("the export: %v", err)
	}
	if v := seed(t, "sought"); v.Exported == nil || v.Exported.By != "mallory" || v.Exported.Recipient != ask.Recipient || v.Exported.At.IsZero() || v.Health != protocol.Suspect {
		t.Errorf("on record: %+v", v)
	}
	if n := exportsOnRecord(t, audit.Accepted); n != 1 {
		t.Errorf("%d exports are on the audit record", n)
	}
	if _, err := worker.ExportSeed(e2e.Within(t), "unheard-of", ask); !errors.As(err, &refused) || refused.Kind != api.ErrNotFound {
		t.Errorf("a seed that does not exist: %v", err)
	}
}

// exportsOnRecord counts the records of exports of the seed sought.
func exportsOnRecord(t *testing.T, outcome string) (n int) {
	t.Helper()
	all, err := lab.Lines[audit.Record](e2e.Within(t), e2e.Lab, "audit", "list")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Verb == "seed.export" && strings.Contains(r.Object, "sought") && r.Outcome == outcome {
			n++
		}
	}
	return n
}
