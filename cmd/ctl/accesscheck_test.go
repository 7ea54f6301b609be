package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A valid file exits 0, also with warnings. A broken one exits 2 and shows each mistake with its line.
func TestAnAccessFileIsCheckedWithLineNumbers(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const key, other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMb+8dYbbHYbqXnx0+vQ3y3xW3Yx5b4p6bqGkqkqv2bC", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ"
	good := file("good.yaml", "people:\n  - {name: ann, keys: [\""+key+"\"]}\nbindings:\n  - {name: all, roles: [admin], to: [ann]}\n")
	broken := file("broken.yaml", "people:\n  - {name: ann, keys: [\"no key\"]}\nbindings:\n  - {name: all, roles: [king], to: [ann]}\n")
	worker := file("worker.pub", other+"\n")
	if code, out, errs := ctl(t, "", "access", "check", good); code != 0 || !strings.Contains(out, "ann") || strings.Contains(errs, "error") {
		t.Errorf("a good file: exit %d: %s%s", code, out, errs)
	}
	code, out, errs := ctl(t, "", "access", "check", broken)
	if lines := regexp.MustCompile(`line [24]`).FindAllString(errs, -1); code != 2 || out != "" || len(lines) != 2 || lines[0] == lines[1] {
		t.Errorf("a broken file: exit %d: %s%s", code, out, errs)
	}
	if code, _, errs := ctl(t, "", "access", "check", good, "--worker-key", worker); code != 0 || !strings.Contains(errs, "warning: "+good+": workers: the key of the worker is not listed") {
		t.Errorf("a worker's key that is not listed: exit %d: %s", code, errs)
	}
	config := file("worker.yaml", "worker_key: "+worker+"\n")
	if code, _, errs := ctl(t, config, "access", "check", good); code != 0 || !strings.Contains(errs, "the key of the worker is not listed") {
		t.Errorf("the worker's key of a config: exit %d: %s", code, errs)
	}
}
