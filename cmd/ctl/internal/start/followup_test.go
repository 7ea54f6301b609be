package start

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

func TestRulesForFollowUpsAreReadFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("follow_ups:\n  - {name: first, prompt: p, after: {turns: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if rules, err := readFollowUps(file); err != nil || len(rules) != 1 || rules[0].Name != "first" {
		t.Errorf("%+v, %v", rules, err)
	}
	if err := os.WriteFile(file, []byte("follow_ups:\n  - {name: first, prompt: p}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readFollowUps(file); core.ExitCode(err) != 2 || !strings.Contains(err.Error(), "--follow-up "+file+": follow-up 1: give one of") {
		t.Errorf("%v", err)
	}
}
