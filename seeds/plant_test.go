package seeds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
)

// A ground is a host with a session's folder. The host is the test's own machine, so
// the test can read the files.
type ground struct {
	hostexec.Host
	dir string // the session's folder
}

// everyHost runs a test on this machine and on real sshds, as root and as an
// ordinary user.
func everyHost(t *testing.T, test func(t *testing.T, g ground)) {
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	run := func(name string, spec protocol.HostSpec, home string) {
		t.Run(name, func(t *testing.T) {
			h, err := pool.Host(spec)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(home, "a 'quoted\" ü root", "sessions", strings.ToLower(fmt.Sprintf("s%p", t)))
			if _, err := h.Run(t.Context(), hostexec.Command{Script: `umask 077; mkdir -p -- "$1"`, Args: []string{dir}}); err != nil {
				t.Fatal(err)
			}
			test(t, ground{Host: h, dir: dir})
		})
	}
	run("local", protocol.HostSpec{Name: protocol.LocalHost}, t.TempDir())
	same := hosttest.StartSSHD(t, hosttest.Options{})
	run("sshd", same.Spec(), t.TempDir())
	user := hosttest.StartSSHD(t, hosttest.Options{NewUser: true, Shell: "/bin/sh"})
	run("user", user.Spec(), user.Home)
}

func (g ground) spec(b *Bundle) PlantSpec {
	return PlantSpec{
		CodexHome: g.dir + "/codex-home", Within: g.dir, WorkDir: g.dir + "/work", Bundle: b, Sandbox: protocol.WorkspaceWrite,
		Fence: &hostexec.Fence{Dir: g.dir, Epoch: hostexec.Epoch{Generation: 1}},
	}
}

func (g ground) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(g.dir, "codex-home", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var wholeSeed = map[string]string{
	"auth.json": apiKeyJSON, "config.toml": "model = 'x'\n[tui]\na = 1", "AGENTS.md": "be kind", "skills/a/run.sh": "#!/bin/sh\n", "rules/default.rules": "",
}

func TestPlantedFilesAreThereForTheUserAlone(t *testing.T) {
	everyHost(t, func(t *testing.T, g ground) {
		b := pack(t, wholeSeed)
		planted, err := Plant(t.Context(), g, g.spec(b))
		if err != nil {
			t.Fatal(err)
		}
		if planted.Permissions != "fairlead" || planted.Permissions != Profile(protocol.WorkspaceWrite) || len(planted.Skipped) != 0 || planted.Kept {
			t.Errorf("planted %+v", planted)
		}
		for _, f := range planted.Files {
			info, err := os.Lstat(filepath.Join(g.dir, "codex-home", f.Path))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%04o", info.Mode()); got != f.Mode || digest([]byte(g.read(t, f.Path))) != f.Digest || info.Size() != f.Size {
				t.Errorf("%s: mode %s, %d bytes; said %+v", f.Path, got, info.Size(), f)
			}
			if f.Path == configFile {
				if owner, err := StripConfig([]byte(g.read(t, f.Path))); err != nil || string(owner) != wholeSeed[configFile] {
					t.Errorf("the owner's config became %q, %v", owner, err)
				}
			} else if g.read(t, f.Path) != wholeSeed[f.Path] {
				t.Errorf("%s is %q", f.Path, g.read(t, f.Path))
			}
		}
		if len(planted.Files) != len(wholeSeed) {
			t.Errorf("planted %v", planted.Files)
		}
		if info, err := os.Stat(g.dir + "/codex-home"); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("CODEX_HOME: %v, %v", info.Mode(), err)
		}
	})
}

func TestPlantingAgainTouchesNothingThatIsRight(t *testing.T) {
	everyHost(t, func(t *testing.T, g ground) {
		b := pack(t, wholeSeed)
		first, err := Plant(t.Context(), g, g.spec(b))
		if err != nil {
			t.Fatal(err)
		}
		home := filepath.Join(g.dir, "codex-home")
		before := map[string]fs.FileInfo{}
		for _, f := range first.Files {
			before[f.Path], err = os.Stat(filepath.Join(home, f.Path))
			if err != nil {
				t.Fatal(err)
			}
		}
		// These are changes that may have happened meanwhile, and a file of somebody
		// else.
		if err := os.WriteFile(filepath.Join(home, "AGENTS.md"), []byte("be rude"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(home, "rules/default.rules"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, "history.jsonl"), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		second, err := Plant(t.Context(), g, g.spec(b))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(first.Files, second.Files) {
			t.Errorf("first %v, then %v", first.Files, second.Files)
		}
		for name, was := range before {
			info, err := os.Stat(filepath.Join(home, name))
			if err != nil {
				t.Fatal(err)
			}
			mended := name == "AGENTS.md" || name == "rules/default.rules"
			if os.SameFile(was, info) == mended {
				t.Errorf("%s: written anew is %v; want %v", name, !os.SameFile(was, info), mended)
			}
			if info.Mode() != was.Mode() {
				t.Errorf("%s: mode %v; want %v", name, info.Mode(), was.Mode())
			}
		}
		if g.read(t, "AGENTS.md") != "be kind" || g.read(t, "history.jsonl") != "mine" {
			t.Error("AGENTS.md was not mended, or a file of somebody else's was touched")
		}
	})
}

func TestRotatedLoginOnTheHostIsNotOverwritten(t *testing.T) {
	everyHost(t, func(t *testing.T, g ground) {
		b := pack(t, map[string]string{"auth.json": chatgptJSON("r-1", "2026-11-01T00:00:00Z")})
		if _, err := Plant(t.Context(), g, g.spec(b)); err != nil {
			t.Fatal(err)
		}
		auth := filepath.Join(g.dir, "codex-home", "auth.json")
		rotated := chatgptJSON("r-2", "2026-11-02T00:00:00Z")
		for name, c := range map[string]struct {
			there string
			kept  bool
		}{
			"rotated":       {rotated, true},
			"half written":  {rotated[:100], false},
			"older":         {chatgptJSON("r-0", "2026-10-01T00:00:00Z"), false},
			"another login": {strings.Replace(rotated, "acct-1", "acct-2", 1), false},
			"logged out":    {"{}", false},
		} {
			if err := os.WriteFile(auth, []byte(c.there), 0o600); err != nil {
				t.Fatal(err)
			}
			planted, err := Plant(t.Context(), g, g.spec(b))
			if err != nil || planted.Kept != c.kept {
				t.Errorf("%s: kept %v, %v; want %v", name, planted.Kept, err, c.kept)
			}
			if got := g.read(t, "auth.json") == c.there; got != c.kept {
				t.Errorf("%s: it is as it was: %v; want %v", name, got, c.kept)
			}
			for _, f := range planted.Files {
				if f.Path == authFile && f.Digest != digest([]byte(g.read(t, "auth.json"))) {
					t.Errorf("%s: the digest is not that of the file", name)
				}
			}
		}
	})
}

func TestPlantRefusesWhatItCannotKeep(t *testing.T) {
	everyHost(t, func(t *testing.T, g ground) {
		b := pack(t, wholeSeed)
		provider := pack(t, map[string]string{"config.toml": providerTOML})
		outside := filepath.Dir(filepath.Dir(g.dir)) + "/outside"
		if _, err := g.Run(t.Context(), hostexec.Command{
			Script: `mkdir -p -- "$1" "$2/other" && ln -s -- "$1" "$2/link" && : >"$2/other/auth.json"`, Args: []string{outside, g.dir},
		}); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			change func(*PlantSpec)
			want   string
		}{
			"not below the session":   {func(s *PlantSpec) { s.CodexHome = outside }, "does not lie in"},
			"relative":                {func(s *PlantSpec) { s.CodexHome = "codex-home" }, "not a clean absolute path"},
			"climbing":                {func(s *PlantSpec) { s.CodexHome = g.dir + "/../x" }, "not a clean absolute path"},
			"a link that leads out":   {func(s *PlantSpec) { s.CodexHome = g.dir + "/link" }, "leads out of"},
			"work in CODEX_HOME":      {func(s *PlantSpec) { s.WorkDir = s.CodexHome + "/w" }, "lies in CODEX_HOME"},
			"work in session folder":  {func(s *PlantSpec) { s.WorkDir = s.Within }, "session's own folder"},
			"a wildcard in the name":  {func(s *PlantSpec) { s.CodexHome = g.dir + "/codex[1]" }, "cannot protect"},
			"no sandbox":              {func(s *PlantSpec) { s.Sandbox = "none" }, "not a sandbox"},
			"somebody else is there":  {func(s *PlantSpec) { s.CodexHome = g.dir + "/other"; s.Bundle = provider }, "codex would use that other login"},
			"an older holder's fence": {func(s *PlantSpec) { s.Fence = &hostexec.Fence{Dir: g.dir} }, "fenced off"},
		} {
			spec := g.spec(b)
			if name == "an older holder's fence" {
				if _, err := Plant(t.Context(), g, spec); err != nil {
					t.Fatal(err)
				}
			}
			c.change(&spec)
			if planted, err := Plant(t.Context(), g, spec); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %+v, %v; want …%s…", name, planted, err, c.want)
			} else if remote := name == "a link that leads out" || name == "an older holder's fence"; errors.Is(err, ErrNotPlanted) == remote {
				t.Errorf("%s: %v: ErrNotPlanted must be %v", name, err, !remote)
			} else if strings.Contains(err.Error(), "marked") {
				t.Errorf("%s: shows a secret: %v", name, err)
			}
		}
		if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
			t.Errorf("outside of the session: %v, %v", entries, err)
		}
	})
}

func TestWorkDirectoryWithACodexFolderIsNotTrusted(t *testing.T) {
	if testing.Short() {
		t.Skip("runs hundreds of shells")
	}
	everyHost(t, func(t *testing.T, g ground) {
		for name, c := range map[string]struct {
			script  string
			trusted bool
		}{
			"not there yet":             {`:`, true},
			"empty":                     {`mkdir -p "$1/work"`, true},
			"leftover mount point":      {`mkdir -p "$1/work/.codex"`, true},
			"config of its own":         {`mkdir -p "$1/work/.codex"; : >"$1/work/.codex/config.toml"`, false},
			"a link":                    {`mkdir -p "$1/work"; ln -s /etc "$1/work/.codex"`, false},
			"in the repository's root":  {`mkdir -p "$1/work/.git" "$1/work/.codex/rules"`, false},
			"above the repository":      {`mkdir -p "$1/.codex/rules" "$1/work/.git"`, true},
			"above, in the same one":    {`mkdir -p "$1/.codex/rules" "$1/.git" "$1/work"`, false},
			"reached by another name":   {`mkdir -p "$1/real/.codex/rules"; ln -s real "$1/work"`, false},
			"other name, nothing there": {`mkdir -p "$1/real"; ln -s real "$1/work"`, true},
		} {
			spec := g.spec(pack(t, wholeSeed))
			sub := g.dir + "/" + strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name)
			spec.WorkDir = sub + "/work"
			if _, err := g.Run(t.Context(), hostexec.Command{Script: `mkdir -p -- "$1"; ` + c.script, Args: []string{sub}}); err != nil {
				t.Fatal(err)
			}
			planted, err := Plant(t.Context(), g, spec)
			if err != nil || planted.Trusted != c.trusted {
				t.Errorf("%s: trusted %v, %v; want %v", name, planted.Trusted, err, c.trusted)
			}
			word := map[bool]string{true: `trust_level = "trusted"`, false: `trust_level = "untrusted"`}[c.trusted]
			if !strings.Contains(g.read(t, configFile), "[projects."+tomlString(spec.WorkDir)+"]\n"+word) {
				t.Errorf("%s: config.toml says\n%s", name, g.read(t, configFile))
			}
		}
	})
}

func TestWipeProvesThatNothingIsLeft(t *testing.T) {
	everyHost(t, func(t *testing.T, g ground) {
		spec := g.spec(pack(t, wholeSeed))
		if _, err := Plant(t.Context(), g, spec); err != nil {
			t.Fatal(err)
		}
		home := spec.CodexHome
		for _, name := range []string{".fl-CUTSHORT", "auth.json.lock", ".tmpA1b2C3", ".credentials.json", "keep.jsonl"} {
			if err := os.WriteFile(filepath.Join(home, name), []byte("marked"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // even if nothing is left
			if err := Wipe(t.Context(), g, home, g.dir, spec.Fence); err != nil {
				t.Fatal(err)
			}
		}
		var left []string
		entries, err := os.ReadDir(home)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if want := []string{"AGENTS.md", "keep.jsonl", "rules", "skills"}; !slices.Equal(left, want) {
			t.Errorf("left %v; want %v", left, want)
		}
		if err := Wipe(t.Context(), g, g.dir+"/never-made", g.dir, spec.Fence); err != nil {
			t.Errorf("a folder that never was: %v", err)
		}
	})
}

func TestWipeThatCannotProveItIsAnError(t *testing.T) {
	everyHost(t, func(t *testing.T, g ground) {
		spec := g.spec(pack(t, wholeSeed))
		if _, err := Plant(t.Context(), g, spec); err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for name, err := range map[string]error{
			"ended context":  Wipe(ended, g, spec.CodexHome, g.dir, spec.Fence),
			"older fence":    Wipe(t.Context(), g, spec.CodexHome, g.dir, &hostexec.Fence{Dir: g.dir}),
			"outside":        Wipe(t.Context(), g, "/etc", g.dir, spec.Fence),
			"not clean":      Wipe(t.Context(), g, g.dir+"/x/../codex-home", g.dir, spec.Fence),
			"the whole host": Wipe(t.Context(), g, "/", "/", spec.Fence),
		} {
			if !errors.Is(err, ErrNotWiped) {
				t.Errorf("%s: %v; want ErrNotWiped", name, err)
			}
		}
		if g.read(t, "auth.json") != apiKeyJSON {
			t.Error("it was removed all the same")
		}
		elsewhere := t.TempDir()
		if err := os.WriteFile(filepath.Join(elsewhere, "auth.json"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, filepath.Join(g.dir, "link")); err != nil {
			t.Fatal(err)
		}
		if err := Wipe(t.Context(), g, g.dir+"/link", g.dir, spec.Fence); !errors.Is(err, ErrNotWiped) {
			t.Errorf("through a link that leads out: %v", err)
		}
		if _, err := os.Stat(filepath.Join(elsewhere, "auth.json")); err != nil {
			t.Errorf("a file outside of the session was removed: %v", err)
		}
	})
}
