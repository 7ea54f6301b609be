package seeds

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

// private makes what commands must not read: folders as those of keys, of a worker's state
// and of another session, a config file, and a socket. All text in it is marked.
func (h codexHost) private(t *testing.T) []string {
	t.Helper()
	home := filepath.Dir(filepath.Dir(filepath.Dir(h.dir)))
	h.sh(t, `umask 077; cd -- "$1" && mkdir -p .ssh state/store && for f in .ssh/id_ed25519 state/identity.txt state/payload.key state/store/blob worker.yaml; do echo "marked-$f" >"$f"; done
mkdir -p -- "$2/s2/work" "$2/s2/codex-home" && echo marked-work >"$2/s2/work/f" && echo marked-auth >"$2/s2/codex-home/auth.json"
python3 -c 'import socket, os; os.path.exists("api.sock") or socket.socket(socket.AF_UNIX).bind("api.sock")'`, home, filepath.Dir(h.dir))
	return []string{home + "/.ssh", home + "/api.sock", home + "/state", home + "/worker.yaml", filepath.Dir(h.dir) + "/s2"}
}

// tryPrivate runs the trial of private paths, as a session does.
func (a *appServer) tryPrivate(spec PlantSpec, profile string) []string {
	a.t.Helper()
	params := map[string]any{"command": PrivateCommand(spec.Private), "cwd": spec.WorkDir, "timeoutMs": trialPatience}
	if profile != "" {
		params["permissionProfile"] = profile
	} else {
		params["sandboxPolicy"] = map[string]any{"type": "workspaceWrite"}
	}
	var r struct{ Stdout, Stderr string }
	if err := json.Unmarshal(a.call("command/exec", params), &r); err != nil {
		a.t.Fatal(err)
	}
	open, err := ReadPrivate(r.Stdout, spec.Private)
	if err != nil {
		a.t.Fatalf("%v: %s%s", err, r.Stdout, r.Stderr)
	}
	return open
}

// TestCommandsCannotReadWhatIsPrivateAndWorkGoesOn also tries to move what is above the
// private paths: here, all of it lies in a folder that commands may write.
func TestCommandsCannotReadWhatIsPrivateAndWorkGoesOn(t *testing.T) {
	asRootAndUser(t, func(t *testing.T, h codexHost) {
		for _, sandbox := range []string{protocol.WorkspaceWrite, protocol.ReadOnly} {
			t.Run(sandbox, func(t *testing.T) {
				spec := h.spec(h.seed(t, ""))
				spec.Sandbox, spec.Private = sandbox, h.private(t)
				if _, err := Plant(t.Context(), h, spec); err != nil {
					t.Fatal(err)
				}
				a := h.start(t, spec)
				if open := a.tryPrivate(spec, Profile(sandbox)); len(open) > 0 {
					t.Errorf("the trial could read %v", open)
				}
				home := filepath.Dir(spec.Private[0])
				var tries [][]string
				for _, f := range []string{"/.ssh/id_ed25519", "/state/store/blob", "/worker.yaml"} {
					var ways []string
					for _, way := range waysToRead {
						ways = append(ways, "f='"+home+f+"'; "+way)
					}
					tries = append(tries, ways)
				}
				for _, p := range spec.Private {
					d := "d=" + shellQuote(p) + "; "
					tries = append(tries, []string{d + `mv "$d" "$d.old"`, d + `mv "${d%/*}" "${d%/*}.old"`, d + `grep -r marked "$d"`, d + `tar cf - "$d"`, d + `rm -rf "$d"`})
				}
				for _, scripts := range append(tries, []string{"grep -r marked " + shellQuote(home) + " --exclude-dir=s1"}) {
					_, printed := a.tries(Profile(sandbox), spec.WorkDir, scripts)
					for i, out := range printed {
						if strings.Contains(out, "marked-") {
							t.Errorf("%s: %s", scripts[i], out)
						}
					}
				}
				// The next command sees the host as it is after these.
				if open := a.tryPrivate(spec, Profile(sandbox)); len(open) > 0 {
					t.Errorf("afterwards the trial could read %v", open)
				}
				if left := h.sh(t, `cat -- "$1/.ssh/id_ed25519" "$1/state/store/blob" "$1/worker.yaml" "$2/s2/work/f"`, home, filepath.Dir(h.dir)); strings.Count(left, "marked-") != 4 {
					t.Errorf("of the private files %q is left", left)
				}
				exit, out := a.exec(Profile(sandbox), spec.WorkDir, `cat "$CODEX_HOME/skills/mine/SKILL.md" && git --version`)
				if exit != 0 || !strings.Contains(out, "readable skill") {
					t.Errorf("a command cannot do its work: %d, %s", exit, out)
				}
				if sandbox == protocol.WorkspaceWrite {
					exit, out := a.exec(Profile(sandbox), spec.WorkDir, `rm -rf repo && mkdir repo && cd repo && git init -q . && echo x >f && git add f && git -c user.name=a -c user.email=a@b commit -qm x && git log --oneline && echo t >"$TMPDIR/t" && cat "$TMPDIR/t"`)
					if exit != 0 {
						t.Errorf("a command cannot do its work: %d, %s", exit, out)
					}
				}
				a.mustBeConfigured()
			})
		}
	})
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func TestPrivatePathsThatCannotBeHiddenAreRefused(t *testing.T) {
	good := PlantSpec{CodexHome: "/r/sessions/s/codex-home", Within: "/r/sessions/s", WorkDir: "/w/x", Sandbox: protocol.WorkspaceWrite}
	for p, says := range map[string]string{
		"/w":                  "work directory /w/x lies in /w",
		"/w/x":                "lies in /w/x",
		"/r/sessions":         "CODEX_HOME /r/sessions/s/codex-home lies in /r/sessions",
		"/":                   "lies in /",
		"relative":            "not a clean absolute path",
		"/a/../b":             "not a clean absolute path",
		"/state*":             "one of * ? [ ]",
		"/home/dev/[private]": "one of * ? [ ]",
	} {
		spec := good
		spec.Private = []string{p}
		if err := spec.check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", p, err, says)
		}
	}
	good.Private = []string{"/home/dev/.ssh", "/r/sessions/other", "/w/y"}
	if err := good.check(); err != nil {
		t.Error(err)
	}
}

func TestFoldersAbovePrivatePathsCannotBeMoved(t *testing.T) {
	spec := PlantSpec{CodexHome: "/r/sessions/s/codex-home", Within: "/r/sessions/s", WorkDir: "/home/dev", Sandbox: protocol.WorkspaceWrite,
		Private: []string{"/home/dev/.ssh", "/home/dev/.config/fairlead", "/tmp/a/b/state", "/srv/cache/x/y", "/etc/worker.yaml"}}
	spec.Confine.Write = []string{"/srv/cache"}
	want := []string{"/home/dev/.config", "/r/sessions/s/codex-home", "/srv/cache/x", "/tmp/a"}
	if got := guards(spec); !slices.Equal(got, want) {
		t.Errorf("guards %v, want %v", got, want)
	}
}

func TestATrialOfPrivatePathsThatDidNotEndProvesNothing(t *testing.T) {
	for _, printed := range []string{"", "open 0\n", "open 2\nend\n", "open -1\nend\n", "bwrap: no\nend\n", "end\nopen 0\n"} {
		if open, err := ReadPrivate(printed, []string{"/a", "/b"}); err == nil {
			t.Errorf("%q: %v", printed, open)
		}
	}
	if open, err := ReadPrivate("open 1\nend\n", []string{"/a", "/b"}); err != nil || !slices.Equal(open, []string{"/b"}) {
		t.Errorf("%v, %v", open, err)
	}
}
