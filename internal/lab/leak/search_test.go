package leak

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A search that cannot find anything proves nothing.
func TestTheSearcherFindsAMarkInEveryForm(t *testing.T) {
	mark := `mk-5f "\+/=%&ü-e1d2c3`
	s := NewSearcher(Marks{"it": mark})
	quoted, err := json.Marshal("before " + mark + " after")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"raw": "before " + mark + " after", "json": string(quoted), "url": "?q=" + url.QueryEscape("a"+mark+"b"),
		"path": "/" + url.PathEscape(mark) + "/", "hex": hex.EncodeToString([]byte("x" + mark)),
		"HEX": strings.ToUpper(hex.EncodeToString([]byte("x" + mark))), "percent": percent(mark),
	}
	for n := range 9 {
		around := strings.Repeat("~", n) + mark + strings.Repeat("~", 9-n)
		texts[fmt.Sprint("base64 after ", n)] = base64.StdEncoding.EncodeToString([]byte(around))
		texts[fmt.Sprint("base64url after ", n)] = base64.RawURLEncoding.EncodeToString([]byte(around))
	}
	for form, text := range texts {
		if len(s.In([]byte(text))) == 0 {
			t.Errorf("not found in %s: %s", form, text)
		}
	}
	if found := s.In([]byte("mk-5f and e1d2c3 apart, [redacted:it]")); len(found) > 0 {
		t.Errorf("found where it is not: %v", found)
	}
}

func TestTheSearcherFindsAMarkOnDiskAndInProcesses(t *testing.T) {
	s := NewSearcher(Marks{"it": "mark-of-the-searchers-own-test"})
	dir := t.TempDir()
	if found, _, _, err := s.Below(dir, filepath.Join(dir, "none")); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "db-wal"), []byte("\x00\x01mark-of-the-searchers-own-test\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, files, _, err := s.Below(dir); err != nil || len(found) != 1 || files != 1 {
		t.Errorf("found %v in %d files, %v", found, files, err)
	}
	w := s.Sample()
	c := exec.Command("sleep", "60")
	c.Env = []string{"TOKEN=mark-of-the-searchers-own-test"}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	select {
	case <-w.any:
	case <-time.After(time.Minute):
		t.Error("it never looked at the process")
	}
	if found, samples, procs := w.Stop(); len(found) == 0 || samples == 0 || procs == 0 {
		t.Errorf("found %v in %d samples of %d processes", found, samples, procs)
	}
}
