package seeds

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

// enclosed returns a spec for a place with a box beside another session's place.
func (h codexHost) enclosed(t *testing.T, b *Bundle, sandbox string) PlantSpec {
	t.Helper()
	h.sh(t, `umask 077; mkdir -p -- "$1/box/codex-home" "$1/box/work" "$1/box/tmp" "$1/box/inputs" "$1/tmp" && echo marked-own >"$1/own" && echo given >"$1/box/inputs/f"`, h.dir)
	box := h.dir + "/box"
	spec := h.spec(b)
	spec.Sandbox, spec.CodexHome, spec.WorkDir, spec.Apart = sandbox, box+"/codex-home", box+"/work", true
	spec.Enclosure = &Enclosure{Holder: filepath.Dir(h.dir), Boxes: []string{box}, Fixed: []string{box + "/inputs"}, Free: []string{box + "/tmp", box + "/work"}}
	return spec
}

// later makes the place of a session that is prepared after codex began. All text in it is
// marked.
func (h codexHost) later(t *testing.T, id string) string {
	t.Helper()
	dir := filepath.Dir(h.dir) + "/" + id
	h.sh(t, `umask 077; mkdir -p -- "$1/secret" "$1/box/codex-home" "$1/box/work" "$1/proc" && for f in secret/auth.json box/codex-home/h box/work/f proc/out.log; do echo "marked-$f" >"$1/$f"; done`, dir)
	return dir
}

// waysToSee are attempts to see what is in a folder: $d, its parent, or behind another name.
var waysToSee = []string{
	`cat "$d/secret/auth.json" "$d/box/work/f"`, `ls -a "$d"`, `ls -a "${d%/*}"`, `find "${d%/*}" -path "$CODEX_HOME" -prune -o -type f -exec cat {} +`, `cat "/proc/self/root$d/box/work/f"`,
	`for p in /proc/[0-9]*; do cat "$p/root$d/box/work/f" "$p/environ" | tr '\0' '\n'; ls -l "$p/cwd"; done`, `mv "${d%/*}" "${d%/*}.old"; cat "${d%/*}.old/${d##*/}/box/work/f"`,
	`umount "${d%/*}"; umount -l "${d%/*}"; cat "$d/box/work/f"`, `unshare -rm sh -c 'umount "${1%/*}"; mkdir -p "$1"; cat "$1/box/work/f"' sh "$d"`,
	`mount --bind "${d%/*/*}" /mnt && cat "/mnt/sessions/${d##*/}/box/work/f"`, `chmod -R 777 "${d%/*}"; cat "$d/box/work/f"`, `nsenter -t 1 -m cat "$d/box/work/f"`,
	`ln "$d/box/work/f" "$CODEX_HOME/../f"; cat "$CODEX_HOME/../f"`, `ln -s "$d/box/work" "$CODEX_HOME/../l"; cat "$CODEX_HOME/../l/f"`,
	`cat "$CODEX_HOME/auth.json" "$CODEX_HOME/config.toml" "$CODEX_HOME/../../secret/auth.json" "$CODEX_HOME/../../own"`,
}

// TestCommandsSeeNothingOfALaterSession runs codex of the oldest, of the newest and, with
// -every-version, of each version under the profile of a session, in a root folder that
// commands may not write and in one below /tmp. Then it makes another session.
func TestCommandsSeeNothingOfALaterSession(t *testing.T) {
	for _, base := range []string{"/srv", "/tmp"} {
		for _, v := range supported {
			if !v.profile || v.asAnother && !*everyVersion && v.version != "0.133.0" || base == "/tmp" && v.noneBelowTmp {
				continue
			}
			t.Run(base+"/codex-"+v.version, func(t *testing.T) {
				codexAsRootAndUser(t, olderCodex(t, v.version), base, func(t *testing.T, h codexHost) {
					h.lax = v.version != ""
					for _, sandbox := range []string{protocol.WorkspaceWrite, protocol.ReadOnly} {
						t.Run(sandbox, func(t *testing.T) {
							h.seesNothingLater(t, sandbox, v.rootUndoesIt && strings.Contains(t.Name(), "/root/"))
						})
					}
				})
			})
		}
	}
}

func (h codexHost) seesNothingLater(t *testing.T, sandbox string, undone bool) {
	spec := h.enclosed(t, h.seed(t, ""), sandbox)
	if _, err := Plant(t.Context(), h, spec); err != nil {
		t.Fatal(err)
	}
	earlier := h.later(t, "marked-earlier-"+sandbox)
	a := h.start(t, spec)
	later := h.later(t, "marked-later-"+sandbox)
	var scripts []string
	for _, d := range []string{earlier, later} {
		for _, way := range waysToSee {
			scripts = append(scripts, "d="+shellQuote(d)+"; { "+way+"; } 2>/dev/null") // errors name the path
		}
	}
	_, printed := a.tries(Profile(sandbox), spec.WorkDir, scripts)
	var seen []string
	for i, out := range printed {
		if strings.Contains(out, "marked-") {
			seen = append(seen, scripts[i]+": "+out)
		}
	}
	if undone != (len(seen) > 0) {
		t.Errorf("a command could see %q; want any: %v", seen, undone)
	}
	if undone {
		return
	}
	for _, d := range []string{earlier, later} {
		if left := h.sh(t, `cd -- "$1" && cat secret/auth.json box/codex-home/h box/work/f proc/out.log`, d); strings.Count(left, "marked-") != 4 {
			t.Errorf("of %s %q is left", d, left)
		}
	}
	exit, out := a.exec(Profile(sandbox), spec.WorkDir, `cat "$CODEX_HOME/skills/mine/SKILL.md" ../inputs/f && git --version`)
	if exit != 0 || !strings.Contains(out, "readable skill") || !strings.Contains(out, "given") {
		t.Errorf("a command cannot do its work: %d, %s", exit, out)
	}
	exit, out = a.exec(Profile(sandbox), spec.WorkDir, `for d in . .. ../tmp ../inputs "$CODEX_HOME" "$CODEX_HOME/rules" ../.. ../../..; do mkdir -p "$d" 2>/dev/null; if (: >"$d/made") 2>/dev/null; then echo "wrote $d"; rm -f "$d/made"; fi; done; for d in ../tmp ../inputs ../codex-home ../work ../../box; do if mv "$d" "$d.x" 2>/dev/null; then echo "moved $d"; fi; done; (: >../../../s2/f) 2>/dev/null && echo wrote s2; echo end`)
	want := "wrote .\nwrote ..\nwrote ../tmp\nend\n"
	if sandbox == protocol.ReadOnly {
		want = "wrote ..\nend\n"
	}
	if exit != 0 || out != want {
		t.Errorf("a command wrote: %d, %s; want %s", exit, out, want)
	}
	a.mustBeConfigured()
}

func TestWhatCannotBeHiddenIsRefused(t *testing.T) {
	good := func() PlantSpec {
		return PlantSpec{CodexHome: "/r/sessions/s/box/codex-home", Within: "/r/sessions/s", WorkDir: "/w", Sandbox: protocol.WorkspaceWrite, Apart: true,
			Enclosure: &Enclosure{Holder: "/r/sessions", Boxes: []string{"/r/sessions/s/box"}, Free: []string{"/r/sessions/s/box/tmp"}}}
	}
	if err := good().checkEnclosure(); err != nil {
		t.Error(err)
	}
	for says, spoil := range map[string]func(*PlantSpec){
		"must lie apart":                   func(s *PlantSpec) { s.Apart = false },
		"without a permission profile":     func(s *PlantSpec) { s.NoProfile = true },
		"does not lie in /x":               func(s *PlantSpec) { s.Enclosure.Holder = "/x" },
		"one of * ? [ ]":                   func(s *PlantSpec) { s.Enclosure.Holder = "/r*" },
		"not a clean absolute path":        func(s *PlantSpec) { s.Enclosure.Boxes[0] = "box" },
		"lies in no folder that commands":  func(s *PlantSpec) { s.Enclosure.Free = []string{"/r/sessions/s/tmp"} },
		"codex-home lies in no folder tha": func(s *PlantSpec) { s.CodexHome = "/r/sessions/s/codex-home" },
	} {
		s := good()
		spoil(&s)
		if err := s.checkEnclosure(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

// A profile of a seed that lets commands write a folder above the work folder lets them write
// the work folder, too, and no other lets them.
func TestAProfileOfASeedDecidesWhetherItsCommandsWriteTheBox(t *testing.T) {
	for text, want := range map[string]string{
		"[permissions.p]\nextends = ':read-only'\n":                                                                 "read",
		"[permissions.p.filesystem]\n':root' = 'write'\n":                                                           "write",
		"[permissions.p.filesystem]\n'/r' = 'write'\n":                                                              "write",
		"[permissions.p.filesystem]\n'/other' = 'write'\n':root' = 'read'\n":                                        "read",
		"[permissions.p]\nextends = 'q'\n[permissions.q.filesystem]\n'/r/sessions' = { '.' = 'write' }\n":           "write",
		"[permissions.p.filesystem.':workspace_roots']\n'.' = 'write'\n[permissions.p.filesystem.'/']\n'a'='write'": "read",
	} {
		spec := PlantSpec{Sandbox: protocol.ByProfile, Bundle: pack(t, map[string]string{"auth.json": apiKeyJSON, "config.toml": text})}
		spec.Confine.Profile = "p"
		e := &Enclosure{Holder: "/r/sessions", Boxes: []string{"/r/sessions/s/box"}, Free: []string{"/r/sessions/s/box/tmp"}}
		if rules := e.rules(spec, profileSeed); !slices.Contains(rules, rule{"/r/sessions/s/box/tmp", want}) {
			t.Errorf("%s: %v", text, rules)
		}
	}
}
