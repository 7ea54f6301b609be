package seeds

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"

	"fairlead.dev/fairlead/internal/protocol"
)

func ours(home, work string) []setting {
	s, err := sessionSettings(PlantSpec{CodexHome: home, WorkDir: work, Sandbox: protocol.WorkspaceWrite},
		[]string{configFile, authFile}, trustLevel{dirs: []string{work}, trusted: true}, nil)
	if err != nil {
		panic(err)
	}
	return s
}

func TestOwnersConfigSurvivesByteForByte(t *testing.T) {
	for name, owner := range map[string]string{
		"empty":                    "",
		"newline":                  "\n",
		"no end":                   "model = 'x'",
		"table":                    "model = 'x'\n[tui]\ntheme = 'dark'\n",
		"table with no end":        "[tui]\ntheme = 'dark'",
		"header with no end":       "[features]",
		"features table":           "[features]\nshell_tool = true\n\n[tui]\na = 1\n",
		"features header comment":  "[features] # mine\n# more\nshell_tool = true",
		"features dotted":          "features.shell_tool = true\nanalytics.x = 1",
		"features sub-table":       "[features.multi_agent]\nenabled = true\n",
		"features last":            "a = 1\n[features]\n",
		"quoted header":            "[ \"features\" ]\nx = true\n",
		"projects table":           "[projects]\n\"/x\".trust_level = 'trusted'\n",
		"projects dotted":          "projects.\"/x\".trust_level = 'trusted'\n[projects.\"/y\"]\ntrust_level = 'untrusted'\n",
		"other profiles":           "default_permissions = 'mine'\n[permissions.mine]\nextends = ':workspace'\n",
		"array of tables":          "[[mcp]]\na = 1\n[[mcp]]\na = 2\n",
		"CRLF":                     "model = 'x'\r\n[features]\r\na = true\r\n[tui]\r\n",
		"text that quotes a mark":  "a = '''\n" + markBegin + "\nx\n" + markEnd + "\n'''\n[tui]\nb = \"fairlead\"\n",
		"comments and blank lines": "\n\n# hello\n\n  [tui]   # x\n\n   a = 1 # y\n\n\n",
		"odd values":               "a = nan\nb = [1, {c = 2}, 'x']\nd = 1979-05-27T07:32:00Z\ne = +inf\n",
	} {
		merged, skipped, err := mergeConfig([]byte(owner), ours("/r/s/codex-home", "/r/s/work"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		back, err := StripConfig(merged)
		if err != nil || string(back) != owner {
			t.Errorf("%s: stripped %q, %v; want %q", name, back, err, owner)
		}
		again, _, err := mergeConfig(merged, ours("/r/s/codex-home", "/r/s/work"))
		if err != nil || !bytes.Equal(again, merged) {
			t.Errorf("%s: merging again gave other bytes, %v:\n%s", name, err, again)
		}
		for i, kept := 0, 0; ; i++ { // all lines of the owner must be there, in order
			lines := strings.Split(owner, "\n")
			if i == len(lines) {
				break
			}
			at := strings.Index(string(merged[kept:]), lines[i])
			if at < 0 {
				t.Errorf("%s: line %q is lost", name, lines[i])
				break
			}
			kept += at + len(lines[i])
		}
		if len(skipped) > 1 || len(skipped) == 1 && skipped[0] != "default_permissions" {
			t.Errorf("%s: skipped %v", name, skipped)
		}
	}
}

func TestOwnersSettingStands(t *testing.T) {
	owner := `check_for_update_on_startup = true
features = { plugins = true }
analytics.enabled = true
[projects."/r/s/work"]
trust_level = "untrusted"
`
	merged, skipped, err := mergeConfig([]byte(owner), ours("/r/s/codex-home", "/r/s/work"))
	if err != nil {
		t.Fatal(err)
	}
	want := "check_for_update_on_startup analytics.enabled features.plugins features.apps features.remote_plugin " +
		`features.skill_search features.goals projects."/r/s/work".trust_level`
	if got := strings.Join(skipped, " "); got != want {
		t.Errorf("skipped %s; want %s", got, want)
	}
	var c struct {
		Check    bool                      `toml:"check_for_update_on_startup"`
		Projects map[string]map[string]any `toml:"projects"`
	}
	if err := toml.Unmarshal(merged, &c); err != nil || !c.Check || c.Projects["/r/s/work"]["trust_level"] != "untrusted" {
		t.Errorf("%v:\n%s", err, merged)
	}
}

func TestOwnersOwnFairleadProfileIsRefused(t *testing.T) {
	for _, owner := range []string{
		"[permissions.fairlead]\nextends = ':danger'\n",
		"permissions = { x = { extends = ':workspace' } }\n",
		"[permissions.fairlead.filesystem]\n\"/r/s/codex-home\" = 'write'\n",
	} {
		if merged, _, err := mergeConfig([]byte(owner), ours("/r/s/codex-home", "/r/s/work")); err == nil {
			t.Errorf("%s was taken:\n%s", owner, merged)
		}
	}
}

func TestTornMarksAreRefused(t *testing.T) {
	for _, doc := range []string{
		markBegin + "\na = 1\n", markEnd + "\n", markBegin + "\n" + markBegin + "\n" + markEnd + "\n", "fairlead = ",
	} {
		if out, err := StripConfig([]byte(doc)); err == nil {
			t.Errorf("%q became %q", doc, out)
		}
	}
}

func TestConfigErrorsShowNoContent(t *testing.T) {
	_, _, err := mergeConfig([]byte("x = 1\nexperimental_bearer_token = \"marked-secret\n"), ours("/h", "/w"))
	if err == nil || strings.Contains(err.Error(), "marked") || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v", err)
	}
}

// TestAnyPathMakesValidTOML also decodes the result.
func TestAnyPathMakesValidTOML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Filter(func(s string) bool { return writable(s) && !strings.ContainsAny(s, "*?[]") }).Draw(t, "name")
		owner := rapid.SampledFrom([]string{"", "[features]", "projects.x.y = 1", "a='''\n'''"}).Draw(t, "owner")
		home, work := path.Clean("/r/"+name+"/codex-home"), path.Clean("/r/"+name+"/work")
		merged, _, err := mergeConfig([]byte(owner), ours(home, work))
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Projects    map[string]any `toml:"projects"`
			Permissions map[string]struct {
				Filesystem map[string]string `toml:"filesystem"`
			} `toml:"permissions"`
		}
		if err := toml.Unmarshal(merged, &c); err != nil {
			t.Fatalf("%v:\n%s", err, merged)
		}
		if c.Projects[work] == nil {
			t.Errorf("no project %q in\n%s", work, merged)
		}
		for _, id := range []string{profileRead, profileWrite} {
			rules := c.Permissions[id].Filesystem
			if rules[home] != "read" || rules[home+"/auth.json"] != "deny" || rules[home+"/config.toml"] != "deny" {
				t.Errorf("rules of %s: %v", id, rules)
			}
		}
	})
}

func FuzzMergeKeepsTheOwnersBytes(f *testing.F) {
	for _, doc := range []string{
		"", "a = 1", "[features]\nx = 1", "features.a = 1\n[features.b]\nc = 1", "[a.b]\n[a]\nfeatures = 1", "[projects]\nx.y = 1",
		"[[features]]\na = 1", "a = \"\"\"\n" + markBegin + "\n\"\"\"", "permissions.x.y = 1\r\n", "[permissions]\nfairlead.x = 1",
		"# c\n[analytics]# d", "\ufeffa = 1", "[projects.'/w']\n[projects.'/w'.z]", markBegin + "\n" + markEnd, "x.features.y = 1",
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, owner []byte) {
		bare, err := StripConfig(owner)
		if err != nil {
			return
		}
		merged, _, err := mergeConfig(owner, ours("/h", "/w"))
		if err != nil {
			return
		}
		back, err := StripConfig(merged)
		if err != nil || !bytes.Equal(back, bare) {
			t.Fatalf("stripped %q, %v; want %q", back, err, bare)
		}
		again, _, err := mergeConfig(merged, ours("/h", "/w"))
		if err != nil || !bytes.Equal(again, merged) {
			t.Fatalf("merging again: %v\n%q\nbecame\n%q", err, merged, again)
		}
		var a, b map[string]any
		if err := toml.Unmarshal(merged, &b); err != nil {
			t.Fatalf("not valid: %v\n%s", err, merged)
		}
		if err := toml.Unmarshal(bare, &a); err != nil {
			t.Fatal(err)
		}
		for k, v := range a {
			if _, table := v.(map[string]any); !table && fmt.Sprint(b[k]) != fmt.Sprint(v) {
				t.Fatalf("%q was %v and became %v", k, v, b[k])
			}
		}
	})
}
