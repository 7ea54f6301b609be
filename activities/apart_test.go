package activities

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// looksAround is a model that looks for what other sessions below root have, by all names that
// they may have, and does its own work.
func looksAround(t *testing.T, root string) *scriptedmodel.Server {
	return scriptedmodel.Serve(t, fmt.Sprintf(`
rules:
  - when: {matches: '^work$'}
    steps:
      - - shell: echo a >f; cat f; pwd
      - say: done
  - when: {matches: '^look at (\S+)$'}
    steps:
      - - shell: |
            exec 2>/dev/null
            cd %[1]q/sessions/{{ index .Match 1 }}
            cat work/left box/work/left codex-home/auth.json box/codex-home/auth.json secret/auth.json proc/*/out.log inputs/* generation
            cd %[1]q; ls -a sessions sessions/{{ index .Match 1 }}; cat exec/* logins/* kept/*
            for p in /proc/[0-9]*; do cat $p/root%[1]s/sessions/{{ index .Match 1 }}/box/work/left; tr '\0' '\n' <$p/environ | grep /sessions/{{ index .Match 1 }}; done
            echo went on
      - - shell: ls "$CODEX_HOME/config.toml" && echo a >f; git init -q g && echo b >"$TMPDIR/t" && cat f "$TMPDIR/t" && echo did it
      - say: done
`, root))
}

// mustSeeNothing fails the test if a session's commands saw something of another one.
func (k *talk) mustSeeNothing(other string) {
	k.t.Helper()
	k.pump(conversation.TurnEnded, k.message("look at "+other))
	said := k.commandOutput()
	if strings.Contains(said, "marked-") || strings.Contains(said, madeUpKey) || strings.Contains(said, other+"\n") || strings.Contains(said, "generation ") || !strings.Contains(said, "went on") {
		k.t.Errorf("%s saw of %s: %s", k.claim.Session, other, said)
	}
	if !strings.Contains(said, "did it") {
		k.t.Errorf("%s could not do its own work: %s", k.claim.Session, said)
	}
}

// TestASessionSeesNothingOfOneThatIsPreparedLater has both run at the same time, and each look
// for the other. The root folder lies where commands may write, in a work folder of --dir, and
// where they may not write.
func TestASessionSeesNothingOfOneThatIsPreparedLater(t *testing.T) {
	home, err := os.MkdirTemp("/srv", "fl-apart-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	tmp := t.TempDir()
	for name, c := range map[string]struct{ root, dir string }{
		"elsewhere":   {home + "/root", ""},
		"below /tmp":  {tmp + "/root", ""},
		"in the work": {home + "/mine/.fairlead", home + "/mine"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(home+"/mine", 0o700); err != nil {
				t.Fatal(err)
			}
			spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
			spec.Root = c.root
			b := newBed(t, spec)
			seed := b.plantable(looksAround(t, c.root))
			first := b.prepared("first", c.dir, "workspace-write", seed)
			first.start()
			second := b.prepared("second", "", "workspace-write", seed)
			second.start()
			for _, k := range []*talk{first, second} {
				b.sh(`umask 077; mkdir -p "$3/exec"; echo marked-exec >"$3/exec/of-$4"; mkdir -p "$2"; echo marked-work >"$1/left"; echo marked-input >"$2/given"`, k.layout.WorkDir, k.layout.Seen()+"/inputs", c.root, k.claim.Session)
			}
			first.mustSeeNothing("second")
			second.mustSeeNothing("first")
			if profile := b.sh(`cat "$1/config.toml"`, first.layout.CodexHome); !strings.Contains(profile, fmt.Sprintf("%q = \"deny\"", filepath.Join(c.root, "sessions"))) && !strings.Contains(profile, "'"+filepath.Join(c.root, "sessions")+"' = 'deny'") {
				t.Errorf("the folder of all sessions is not hidden: %s", profile)
			}
			if got := checkNamed(t, b.check(), "private"); !got.OK || !strings.Contains(got.Detail, "can see nothing of other sessions") {
				t.Errorf("host check: %+v", got)
			}
			if left := b.sh(`ls -a "$1/sessions" "$1/check" | grep -e later -e trial || :`, c.root); left != "" {
				t.Errorf("of the trials is left: %s", left)
			}
		})
	}
}

// A place that an earlier release made keeps its names and its work. What is there when such a
// session goes on is hidden from it.
func TestAPlaceOfAnEarlierReleaseGoesOn(t *testing.T) {
	home, err := os.MkdirTemp("/srv", "fl-apart-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
	spec.Root = home + "/root"
	b := newBed(t, spec)
	seed := b.plantable(looksAround(t, spec.Root))
	second := b.prepared("second", "", "workspace-write", seed)
	b.sh(`echo marked-work >"$1/left"`, second.layout.WorkDir)
	former := folder.FormerLayoutOf(spec.Root, "former")
	fence := folder.FenceOf(protocol.Claim{Session: "former", Generation: 1, Pump: 1}, former.Dir, 1)
	mark := folder.FolderMark{Generation: 1, Seed: seed}
	if err := errors.Join(places.MakeFolders(t.Context(), b.host(), former, mark, fence), folder.WriteMark(t.Context(), b.host(), former, mark, true, fence)); err != nil {
		t.Fatal(err)
	}
	b.sh(`echo kept >"$1/of-before"`, former.WorkDir)
	k := b.prepared("former", "", "workspace-write", seed)
	if former.Codex, former.CodexSums = k.layout.Codex, k.layout.CodexSums; k.layout != former {
		t.Errorf("its layout is %+v, was %+v", k.layout, former)
	}
	k.start()
	k.pump(conversation.TurnEnded, k.message("look at second"))
	// It sees the names of other folders, and nothing in them.
	if said := k.commandOutput(); strings.Contains(said, "marked-") || strings.Contains(said, madeUpKey) || strings.Contains(said, "generation ") || !strings.Contains(said, "did it") {
		t.Errorf("it printed %s", said)
	}
	if left := b.sh(`cat "$1/of-before" "$1/f"; [ ! -e "$2/box" ] || echo box`, former.WorkDir, former.Dir); left != "kept\na\n" {
		t.Errorf("its work is %q", left)
	}
}

// A worker of an earlier release takes a layout without a box, and works behind links.
func TestAWorkerOfAnEarlierReleaseGoesOnInANewPlace(t *testing.T) {
	home, err := os.MkdirTemp("/srv", "fl-apart-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
	spec.Root = home + "/root"
	b := newBed(t, spec)
	k := b.prepared("first", "", "workspace-write", b.plantable(looksAround(t, spec.Root)))
	second := b.prepared("second", "", "workspace-write", k.seed)
	b.sh(`echo marked-work >"$1/left"`, second.layout.WorkDir)
	former := folder.FormerLayoutOf(spec.Root, "first")
	former.Codex, former.CodexSums = k.layout.Codex, k.layout.CodexSums
	text, err := json.Marshal(k.layout)
	var read map[string]any
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil || read["codex_home"] != former.CodexHome || read["work_dir"] != former.WorkDir {
		t.Errorf("an earlier release reads %s (%v)", text, err)
	}
	var again protocol.Layout
	if err := json.Unmarshal(text, &again); err != nil || again != k.layout {
		t.Errorf("this release reads %+v (%v)", again, err)
	}
	k.layout = former
	k.start()
	k.pump(conversation.TurnEnded, k.message("work"))
	k.pump(conversation.TurnEnded, k.message("look at second"))
	if said := k.commandOutput(); strings.Contains(said, "marked-") || !strings.Contains(said, "went on") {
		t.Errorf("it printed %s", said)
	}
	if left := b.sh(`cat "$1/box/work/f"`, former.Dir); left != "a\n" {
		t.Errorf("its work is %q", left)
	}
}
