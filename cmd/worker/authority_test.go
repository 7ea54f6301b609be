package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/config"
)

func TestAWorkerSaysThatTheAccessFileDoesNotListItsKey(t *testing.T) {
	conf := &config.Config{Access: "access.yaml", WorkerKey: filepath.Join(t.TempDir(), "worker")}
	own, other := writeKey(t, conf.WorkerKey), writeKey(t, filepath.Join(t.TempDir(), "other"))
	for listed, want := range map[string]string{own: "", other: own} {
		a, err := access.Parse(fmt.Appendf(nil, "people: [{name: ann}]\nworkers: [%q]\nbindings: [{name: a, roles: [admin], to: [ann]}]\n", listed))
		if err != nil {
			t.Fatal(err)
		}
		if got := unlisted(conf, a); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("with %s listed: %q", listed, got)
		}
	}
}
