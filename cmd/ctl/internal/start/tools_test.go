package start

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

func TestToolsAreNamesAndAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tools.yaml")
	if err := os.WriteFile(name, []byte("tools: [{name: ping, description: Says pong., webhook: 'https://tools.example.com/ping'}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]struct {
		ours []string
		team string
	}{
		"none": {}, "": {}, "all": {protocol.Tools, ""}, name: {nil, "ping"}, "none," + name: {nil, "ping"}, "all," + name: {protocol.Tools, "ping"},
		"report_progress, ask_human": {[]string{"ask_human", "report_progress"}, ""}, name + ",deliver": {[]string{"deliver"}, "ping"},
	} {
		var opt session.Options
		err := (&toolFlags{names: given}).set(&opt)
		team := ""
		if opt.TeamTools != nil {
			team = opt.TeamTools.Names[0]
		}
		if err != nil || !slices.Equal(opt.Tools, want.ours) || team != want.team {
			t.Errorf("--tools %s: %v, %q, %v", given, opt.Tools, team, err)
		}
		if err := opt.Check(); err != nil {
			t.Errorf("--tools %s: the session refuses it: %v", given, err)
		}
	}
	for _, bad := range []string{"everything", "all,deliver", name + "," + name, name + "x/y.yaml", "/dev/null"} {
		var opt session.Options
		if err := (&toolFlags{names: bad}).set(&opt); core.ExitCode(err) != core.ExitUsage {
			t.Errorf("--tools %s: %v", bad, err)
		}
	}
}
