package activities

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// sharedMachine makes a home folder, with the files of a worker, its state folder and a
// user's keys, in a folder that commands may not write. All text in it is marked.
func sharedMachine(t *testing.T) (home string, private []string) {
	t.Helper()
	home, err := os.MkdirTemp("/srv", "fl-shared-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	t.Setenv("HOME", home)
	for _, name := range []string{
		".ssh/id_ed25519", ".config/fairlead/config.yaml", "state/identity.txt", "state/payload.key", "state/temporal.db", "store/blob", "etc/worker.yaml", "etc/api.token", "notes/team.key",
	} {
		p := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("marked-"+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf, err := config.Parse(filepath.Join(home, "etc/worker.yaml"), []byte(fmt.Sprintf(
		"store: {url: %q, identity: %[2]s/state/identity.txt}\ntemporal: {payload_key: %[2]s/state/payload.key}\napi: {token_file: api.token}\nhosts: {deny_read: [%[2]s/state, ~/notes/team.key, /nowhere/at/all]}\n",
		"file://"+home+"/store", home)))
	if err != nil {
		t.Fatal(err)
	}
	return home, conf.Private()
}

// here returns a bed on the worker's own machine.
func here(t *testing.T, private []string, root string) *bed {
	t.Helper()
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: root})
	deps := b.set.site.Deps
	deps.Private = private
	b.set = New(deps)
	b.asked(nil)
	return b
}

// With approval policy never and sandbox workspace-write, these commands run without a
// question.
func TestACommandOnTheWorkersMachineReadsNothingOfTheWorkerOrOfOtherSessions(t *testing.T) {
	home, private := sharedMachine(t)
	b := here(t, private, "")
	for _, sandbox := range []string{"workspace-write", "read-only"} {
		t.Run(sandbox, func(t *testing.T) {
			model := scriptedmodel.Serve(t, fmt.Sprintf(`
rules:
  - when: {matches: '^leave (\S+)$'}
    steps:
      - shell: "echo marked-work >{{ index .Match 1 }}"
      - say: done
  - steps:
      - - shell: |
            cd %[1]s
            cat .ssh/id_ed25519 .config/fairlead/config.yaml state/identity.txt state/payload.key state/temporal.db store/blob etc/worker.yaml etc/api.token notes/team.key
            cat .fairlead/sessions/other-*/work/left .fairlead/sessions/other-*/codex-home/auth.json .fairlead/rooms/*/*/*/*/room/codex-home/auth.json
            grep -r marked- . --exclude='rollout-*'; tar cf - .ssh state store | cat
            echo went on
      - - shell: ls "$CODEX_HOME/config.toml" && echo a >f; git init -q g && echo b >"$TMPDIR/t" && cat f "$TMPDIR/t" && echo did it
      - say: done
`, home))
			seed := b.plantable(model)
			other := b.prepared("other-"+sandbox, "", "workspace-write", seed)
			b.sh(`echo marked-work >"$1/left"`, other.layout.WorkDir)
			k := b.prepared("mine-"+sandbox, "", sandbox, seed)
			k.start()
			k.pump(conversation.TurnEnded, k.message("look around"))
			said := k.commandOutput()
			if strings.Contains(said, "marked-") || strings.Contains(said, madeUpKey) || !strings.Contains(said, "went on") {
				t.Errorf("the commands printed %s", said)
			}
			if works := strings.Contains(said, "did it"); works != (sandbox == "workspace-write") {
				t.Errorf("its own work: %v, in %s", works, said)
			}
		})
	}
	if got := checkNamed(t, b.check(), "private"); !got.OK || !got.Required || !strings.Contains(got.Detail, "nothing of other sessions, also of later ones, and none of "+home+"/.config/fairlead, "+home+"/.fairlead/exec") {
		t.Errorf("host check: %+v", got)
	}
}

func TestASessionIsRefusedWhereItsCommandsCouldReadWhatIsPrivate(t *testing.T) {
	for version, says := range map[string]string{"0.125.0": "knows no permission profile", "0.130.0": "knows no permission profile", "0.147.0": "a command in the sandbox can"} {
		t.Run(version, func(t *testing.T) {
			home, private := sharedMachine(t)
			b := here(t, private, "").with(version, "")
			// It has no seed: what is private is reason enough.
			in := places.PrepareSessionInput{Claim: protocol.Claim{Session: "s1", Host: b.spec, Generation: 1, Pump: 1}, Sandbox: "workspace-write"}
			_, err := b.prepare(in)
			if app := appError(t, err); app.Type() != protocol.ErrTypeUnprotected || !app.NonRetryable() || !strings.Contains(app.Message(), says) {
				t.Errorf("failed as %v", app)
			}
			check := b.check()
			if got := checkNamed(t, check, "private"); got.OK || !got.Required || !strings.Contains(got.Detail, home+"/.ssh") || check.Facts["private"] != "unprotected" || check.OK {
				t.Errorf("host check: %+v, %v", got, check.Facts)
			}
			allowing := b.with(version, hosts.UnprotectedAllow)
			in.Claim.Pump++
			if out, err := allowing.prepare(in); err != nil || !strings.Contains(out.Unprotected, says) {
				t.Errorf("allowed: %+v, %v", out, err)
			}
			in.Claim.Session, in.Sandbox = "s2", "danger-full-access" // nothing confines it, and nothing is said to
			if out, err := b.prepare(in); err != nil || out.Unprotected != "" {
				t.Errorf("without a sandbox: %+v, %v", out, err)
			}
		})
	}
}

func TestASessionInsideOfWhatIsPrivateIsRefused(t *testing.T) {
	home, private := sharedMachine(t)
	if err := os.Symlink(filepath.Join(home, "state"), filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ root, dir, says string }{
		"the root in the state folder":     {home + "/state/root", "", "session's folder " + home + "/state/root/rooms/" + folder.RoomsFor("s1")[0] + "/room lies in " + home + "/state"},
		"the root behind a link to it":     {home + "/link/root", "", "lies in " + home + "/state"},
		"the work folder in the store":     {"", home + "/store", "work folder " + home + "/store lies in " + home + "/store"},
		"another session's folder as work": {"", home + "/.fairlead/sessions/other/work", "lies in " + home + "/.fairlead/sessions"},
	} {
		b := here(t, private, c.root)
		b.sh(`mkdir -p "$1/.fairlead/sessions/other/work"`, home)
		_, err := b.prepare(places.PrepareSessionInput{Claim: protocol.Claim{Session: "s1", Host: b.spec, Generation: 1, Pump: 1}, Sandbox: "workspace-write", Dir: c.dir})
		if app := appError(t, err); app.Type() != protocol.ErrTypeSandbox || !app.NonRetryable() || !strings.Contains(app.Message(), c.says) {
			t.Errorf("%s: failed as %v", name, app)
		}
	}
}

// Everybody may make names in /tmp, and a command may make links in a home folder that is its
// work folder.
func TestNamesThatAnybodyCanMakeKeepNoSessionAway(t *testing.T) {
	home, private := sharedMachine(t)
	tmp := filepath.Join(home, "tmp")
	t.Setenv("TMPDIR", tmp)
	ours := fmt.Sprint(tmp, "/fairlead-", os.Getuid())
	err := errors.Join(
		os.RemoveAll(home+"/.ssh"), os.RemoveAll(home+"/.config/fairlead"), os.Mkdir(tmp, 0o700),
		os.Symlink(home+"/work", home+"/.ssh"), os.Symlink(home+"/notes", home+"/.config/fairlead"),
		os.Mkdir(home+"/work", 0o700), os.Symlink(home, ours), os.Symlink(home, ours+"-0a"), os.Mkdir(ours+"-0b", 0o700), os.Mkdir(ours+"-mine", 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	b := here(t, private, "")
	out, err := b.prepare(places.PrepareSessionInput{Claim: protocol.Claim{Session: "s1", Host: b.spec, Generation: 1, Pump: 1}, Sandbox: "workspace-write", Dir: home + "/work"})
	if err != nil || out.Unprotected != "" {
		t.Fatalf("%+v, %v", out, err)
	}
	profile := b.sh(`grep deny "$1/config.toml"`, out.Layout.CodexHome)
	for path, want := range map[string]bool{home + "/notes": true, home + "/state": true, ours + "-0b": true, home: false, ours: false, ours + "-0a": false, ours + "-mine": false} {
		if strings.Contains(profile, strconv.Quote(path)) != want {
			t.Errorf("%s is private: %v; the profile denies %s", path, !want, profile)
		}
	}
}

// The worker does not know that the host is its own machine, or has its folders mounted.
func TestAHostThatIsTheWorkersMachineHidesTheWorkersFilesToo(t *testing.T) {
	home, private := sharedMachine(t)
	spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
	spec.Root = filepath.Join(home, "root")
	model := scriptedmodel.Serve(t, fmt.Sprintf(`
rules:
  - steps:
      - - shell: cat %[1]s/state/identity.txt %[1]s/store/blob %[1]s/etc/worker.yaml %[2]q; ls %[1]s/state; echo went on
      - say: done
`, home, spec.Identity))
	b := newBed(t, spec)
	deps := b.set.site.Deps
	deps.Private = private
	b.set = New(deps)
	b.asked(nil)
	k := b.prepared("far", "", "workspace-write", b.plantable(model))
	k.start()
	k.pump(conversation.TurnEnded, k.message("look around"))
	if said := k.commandOutput(); strings.Contains(said, "marked-") || strings.Contains(said, "PRIVATE KEY") || strings.Contains(said, "payload.key") || !strings.Contains(said, "went on") {
		t.Errorf("the commands printed %s", said)
	}
}
