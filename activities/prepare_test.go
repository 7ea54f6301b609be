package activities

import (
	"path"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestFailedPrepareLeavesNoCredential(t *testing.T) {
	model := scriptedmodel.Serve(t, `rules: []`)
	b := newBed(t, unconfinable(t))
	in := places.PrepareSessionInput{
		Claim: protocol.Claim{Session: "s1", Host: b.spec, Generation: 1, Pump: 1}, Seed: b.plantable(model), Sandbox: "workspace-write",
	}
	_, err := b.prepare(in)
	if app := appError(t, err); app.Type() != protocol.ErrTypeSandbox || !app.NonRetryable() || !strings.Contains(app.Message(), "namespace") {
		t.Errorf("failed as %v", app)
	}
	if left := b.sh(`[ ! -e "$1/sessions/s1" ] || find "$1/sessions/s1"; grep -rlF -e "$2" "$1" || :`, b.root(), madeUpKey); left != "" {
		t.Errorf("left: %s", left)
	}
	in.Sandbox = "danger-full-access"
	in.Claim.Pump++
	got, err := b.prepare(in)
	if err != nil || got.Permissions != "" {
		t.Errorf("without a sandbox: %+v, %v", got, err)
	}
}

func TestCloseFindsWhatALostPrepareLeft(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.prepared("lost", "", "workspace-write", b.plantable(scriptedmodel.Serve(t, `rules: []`)))
	in := k.closing()
	in.Layout, in.Discard = protocol.Layout{}, true // the workflow knows no more than this
	if got, err := k.close(in); err != nil || !got.Wiped || !got.Removed {
		t.Errorf("%+v, %v", got, err)
	}
	if left := b.sh(`[ ! -e "$1" ] || find "$1"`, k.layout.Dir); left != "" {
		t.Errorf("left on the host: %s", left)
	}
}

func TestASessionsArchiveIsNotThatOfAnEarlierOneOfItsName(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir()})
	archives := map[string]bool{}
	for i, thread := range []string{"t1", "t2"} {
		l := folder.LayoutOf(b.spec.Root, "twice")
		b.sh(`mkdir -p "$1" && echo "$2" >"$1/work.txt"`, l.WorkDir, thread)
		got, err := places.CloseSession(t.Context(), b.set.Place.Site, places.CloseSessionInput{
			Claim: protocol.Claim{Session: "twice", Host: b.spec, Generation: 1, Pump: int64(10 + i)}, Layout: l, ThreadID: thread}, 1, site.Secrets{})
		if err != nil {
			t.Fatal(err)
		}
		archives[got.Archive] = true
	}
	if len(archives) != 2 || archives[""] {
		t.Errorf("two sessions' work is kept as %v", archives)
	}
}

func TestPrepareRefusesBadInput(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir()})
	claim := protocol.Claim{Session: "s1", Host: b.spec, Generation: 1, Pump: 1}
	up := claim
	up.Session = "../up"
	for what, in := range map[string]places.PrepareSessionInput{
		"--dir that is not there": {Claim: claim, Dir: path.Join(b.spec.Root, "nowhere"), Sandbox: "read-only"},
		"--dir that is a file":    {Claim: claim, Dir: "/etc/passwd", Sandbox: "read-only"},
		"a sandbox of its own":    {Claim: claim, Sandbox: "none"},
		"an id with slashes":      {Claim: up, Sandbox: "read-only"},
	} {
		_, err := b.prepare(in)
		if app := appError(t, err); app.Type() != protocol.ErrTypeBadInput || !app.NonRetryable() {
			t.Errorf("%s: %v", what, app)
		}
	}
	if left := b.sh(`find "$1" ! -path "$1"`, b.spec.Root); left != "" {
		t.Errorf("left: %s", left)
	}
}

func TestMissingSeedIsTyped(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir()})
	_, err := b.prepare(places.PrepareSessionInput{
		Claim: protocol.Claim{Session: "s1", Host: b.spec, Generation: 1, Pump: 1}, Sandbox: "read-only",
		Seed: &protocol.SeedRef{Name: "team", Generation: 1, Blob: "seeds/team/1-gone"},
	})
	app := appError(t, kit.Failing{}.Failure(t.Context(), "prepare", err))
	if app.Type() != protocol.ErrTypeSeed || !app.NonRetryable() {
		t.Errorf("%v", app)
	}
}

func TestSessionWithoutASeedUsesNobodysLogin(t *testing.T) {
	b := newBed(t, readyHost(t))
	b.sh(`mkdir -p "$HOME/.codex" && printf %s "$1" >"$HOME/.codex/auth.json"`, `{"auth_mode":"apikey","OPENAI_API_KEY":"`+madeUpKey+`"}`)
	k := b.prepared("nobody", "", "read-only", nil)
	k.start()
	if got := b.sh(`[ ! -e "$1/auth.json" ]; grep -rlF -e "$2" "$1" || :; tr '\0' '\n' <"/proc/$(cut -d' ' -f1 "$3/started")/environ" | grep ^CODEX_HOME=`,
		k.layout.CodexHome, madeUpKey, folder.ServerDir(k.layout, 1)); got != "CODEX_HOME="+k.layout.CodexHome+"\n" {
		t.Errorf("on the host: %s", got)
	}
	if out, err := k.close(k.closing()); err != nil || !out.Wiped || !out.Removed || out.Archive != "" {
		t.Errorf("closed: %+v, %v", out, err)
	}
}

func TestPersonsFolderSurvivesTheSession(t *testing.T) {
	model := scriptedmodel.Serve(t, `
rules:
  - steps:
      - - shell: echo made > made.txt
      - say: done
`)
	b := newBed(t, readyHost(t))
	dir := strings.TrimSpace(b.sh(`mkdir -p "$HOME/my work/.aws" && cd "$HOME/my work" && echo mine >mine.txt && pwd -P`))
	k := b.prepared("own", "my work", "workspace-write", b.plantable(model))
	if k.layout.WorkDir != dir || k.layout.OwnWork {
		t.Errorf("layout %+v", k.layout)
	}
	k.start()
	k.pump(conversation.TurnEnded, k.message("make it"))
	// Codex leaves these folders when it is stopped while a command runs.
	b.sh(`cd "$1" && mkdir .codex .agents && mkdir .git && echo x >.git/x`, dir)
	got, err := k.close(k.closing())
	if err != nil || !got.Wiped || !got.Removed {
		t.Fatalf("%+v, %v", got, err)
	}
	if there := b.sh(`cd "$1" && find . ! -name . | sort`, dir); there != "./.aws\n./.git\n./.git/x\n./made.txt\n./mine.txt\n" {
		t.Errorf("in the person's folder: %s", there)
	}
}

func TestSecondServerIsRefusedWhileTheFirstLives(t *testing.T) {
	k := handMade(t, "two", scriptedmodel.Serve(t, `rules: []`))
	k.start()
	in := places.StartServerInput{Claim: k.next(), Layout: k.layout, Incarnation: 1}
	one, err := places.StartServer(t.Context(), k.set.Place.Site, in, 1)
	if err != nil || one.Process != "app-server" || one.PID == 0 {
		t.Errorf("started again: %+v, %v", one, err)
	}
	in.Claim, in.Incarnation = k.next(), 2
	if _, err := places.StartServer(t.Context(), k.set.Place.Site, in, 1); err == nil || !strings.Contains(err.Error(), "still runs") {
		t.Errorf("a second one: %v", err)
	}
	stop := places.StopServerInput{Claim: k.next(), Layout: k.layout, Incarnation: 1}
	for range 2 {
		if _, err := places.StopServer(t.Context(), k.set.Place.Site, stop, 1); err != nil {
			t.Fatal(err)
		}
	}
	in.Claim = k.next()
	two, err := places.StartServer(t.Context(), k.set.Place.Site, in, 1)
	if err != nil || two.Process != "app-server.2" {
		t.Errorf("after the first was stopped: %+v, %v", two, err)
	}
	k.incarnation = 2
}
