package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/config"
)

// A worker whose key the access file does not list would take work, and fail each batch.
func TestAWorkerWhoseKeyTheAccessFileDoesNotListRefusesToStart(t *testing.T) {
	p := place{dir: t.TempDir()}
	ours, others := writeKey(t, filepath.Join(p.dir, "worker")), writeKey(t, filepath.Join(p.dir, "other"))
	conf, err := config.Parse(filepath.Join(p.dir, "worker.yaml"), []byte("authority: required\naccess: access.yaml\nworker_key: worker\n"))
	if err != nil {
		t.Fatal(err)
	}
	p.writeAccess(t, ours)
	if err := checkAuthority(conf); err != nil {
		t.Errorf("a listed key: %v", err)
	}
	p.writeAccess(t, others)
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(ours))
	if err != nil {
		t.Fatal(err)
	}
	err = checkAuthority(conf)
	for _, want := range []string{ssh.FingerprintSHA256(public), conf.Access, conf.WorkerKey, "workers:\n  - " + ours} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not told: %s in %v", want, err)
		}
	}
	if err := os.WriteFile(conf.Access, []byte("people: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkAuthority(conf); err == nil || !strings.Contains(err.Error(), "read the access file") {
		t.Errorf("a broken access file: %v", err)
	}
	conf.Access = ""
	if err := checkAuthority(conf); err == nil || !strings.Contains(err.Error(), "set access in the config") {
		t.Errorf("no access file: %v", err)
	}
}
