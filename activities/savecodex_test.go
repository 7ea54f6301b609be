package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// loggedIn returns a session whose codex is logged in at an issuer that rotates,
// and talks to a model that accepts only what the issuer gave out.
func (b *bed) loggedIn(id, rules string) (*talk, *fakeDesk, *scriptedauth.Server, scriptedauth.Login) {
	b.t.Helper()
	issuer := scriptedauth.Serve(b.t)
	guarded := httptest.NewServer(issuer.Guard(scriptedmodel.Serve(b.t, rules)))
	b.t.Cleanup(guarded.Close)
	first := issuer.Login(scriptedauth.Account{})
	dir := b.t.TempDir()
	for file, text := range map[string]string{
		"auth.json": string(first.AuthJSON()), "config.toml": scriptedmodel.LoginConfigTOML(guarded.URL + "/v1"), "AGENTS.md": "Be kind.\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	bundle, err := seeds.Pack(dir)
	if err != nil {
		b.t.Fatal(err)
	}
	saved, err := seeds.Save(b.t.Context(), b.store, id, 1, bundle)
	if err != nil {
		b.t.Fatal(err)
	}
	ref := &protocol.SeedRef{Name: id, Generation: 1, Blob: saved.Blob, Digest: saved.Digest, Kind: string(saved.Kind), Epoch: 7}
	d := newDesk(b.t, ref, id)
	d.at.Auth = seeds.AuthDigest(first.AuthJSON())
	b.set.site.Desk = d
	return b.prepared(id, "", "workspace-write", ref), d, issuer, first
}

// Codex refreshes its login in the middle of a turn. When the turn's result is
// returned, the seed has the new login. From then on, neither login is shown to
// anybody.
func TestWhatCodexRotatesInATurnIsSavedBeforeItsResult(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d, issuer, first := b.loggedIn("turns", `rules: [{reply: hello}]`)
	k.start()
	k.pump(conversation.TurnEnded, k.message("hi"))
	if d.took() != "" || len(issuer.Refreshes()) != 0 {
		t.Fatal("a login was saved that nobody had rotated")
	}
	logins := []scriptedauth.Login{first}
	for n := 2; n <= 3; n++ {
		issuer.Expire("")
		k.pump(conversation.TurnEnded, k.message("again"))
		newest := issuer.Newest(first)
		logins = append(logins, newest)
		now := d.state()
		if now.Generation != int64(n) || now.Rotated != nil {
			t.Fatalf("after %d turns: generation %d, rotated %+v", n, now.Generation, now.Rotated)
		}
		if got := b.authIn(now.Ref); !strings.Contains(got, newest.Refresh) || !strings.Contains(got, newest.Access) {
			t.Error("what counts is not what the issuer gave out last")
		}
		if k.authOnHost() != b.authIn(now.Ref) {
			t.Error("host and seed differ")
		}
	}
	if issuer.MostUses() != 1 || issuer.Revoked(first) != "" {
		t.Errorf("a token was used %d times, revoked: %s", issuer.MostUses(), issuer.Revoked(first))
	}
	// The test searches for all logins, with a worker that knew only the first and with
	// one that started later.
	var all []string
	for _, l := range logins {
		all = append(all, l.Refresh, l.Access, l.ID)
	}
	k.pump(conversation.TurnEnded, k.message("say "+strings.Join(all, " ")))
	k.bed = b.another()
	k.set.site.Desk = d
	out := k.pump(conversation.TurnEnded, k.message("and "+strings.Join(all, " ")))
	later := k.live
	k.bed = b
	shown := fmt.Sprint(out, readAll(t, b.store, "turns", 0), b.live.of(records.SessionTopic("turns"), records.LiveEntry), later.of(records.SessionTopic("turns"), records.LiveEntry))
	for i, token := range all {
		if strings.Contains(shown, token) {
			t.Errorf("token %d is shown", i)
		}
	}
	if !strings.Contains(shown, "[redacted") {
		t.Error("nothing was shown at all")
	}
	if got, err := k.close(k.closing()); err != nil || !got.Wiped || got.Unsaved || d.state().Generation != 3 {
		t.Errorf("closed: %+v, %v", got, err)
	}
}

// A pump that fails because nothing can be stored first marks the seed as rotated,
// because its next attempt may fail as early as this one.
func TestAPumpWithNoStoreMarksWhatCodexRotated(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d, issuer, first := b.loggedIn("unstored", `rules: [{reply: hello}]`)
	k.start()
	k.pump(conversation.TurnEnded, k.message("hi"))
	issuer.Expire("")
	back := b.without()
	if out, err := pumps.RunPump(t.Context(), k.set.Pump.Site, k.input(k.message("again")), quiet(1)); err == nil {
		t.Fatalf("a turn ended with no store: %+v", out)
	}
	if !strings.Contains(k.authOnHost(), issuer.Newest(first).Refresh) || issuer.Newest(first).Refresh == first.Refresh {
		t.Fatal("nothing was rotated")
	}
	if now := d.state(); now.Rotated == nil || now.Rotated.Reason == "" || now.Generation != 1 {
		t.Errorf("the seed says %+v", now)
	}
	back()
}

// The worker, the connection or codex may have died right after a refresh. The next
// pump saves the login, and so does a stop of codex.
func TestALoginThatNobodySawRotatedIsSavedByWhoComesNext(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("later", scriptedmodel.Serve(t, `rules: [{reply: hello}]`))
	k.start()
	k.rewrite(login("acct-1", 1))
	k.pump(conversation.TurnEnded, k.message("hi"))
	k.savedIs(d, 1)

	k.rewrite(login("acct-1", 2))
	in := places.StopServerInput{Claim: k.next(), Layout: k.layout, Incarnation: k.incarnation, Seed: k.seed}
	if _, err := places.StopServer(t.Context(), k.set.Place.Site, in, 1); err != nil {
		t.Fatal(err)
	}
	k.savedIs(d, 2)
}

// A running pump notices a rotation within the period of its looks, before the turn or
// codex ends.
func TestALoginIsSavedWhileATurnRuns(t *testing.T) {
	b := newBed(t, readyHost(t))
	model := scriptedmodel.Serve(t, slowly)
	k, d := b.held("busy", model)
	b.set.site.SaveEvery = 50 * time.Millisecond
	k.start()
	ended := k.pumpBeside(t.Context(), k.bed, k.input(k.message("I am Ada")), quiet(1))
	for n := 1; n <= 2; n++ {
		k.replace(login("acct-1", n))
		await(t, "the login is saved", func() bool { return d.state().Generation == int64(n)+1 })
	}
	select {
	case got := <-ended:
		t.Fatalf("the pump did not go on: %+v", got)
	default:
	}
	model.Release("gate")
	if got := <-ended; got.err != nil || got.out.SeedLost != nil {
		t.Errorf("%+v", got)
	}
	k.savedIs(d, 2)
}

// A command prints a token that codex rotated a moment ago, and the next command has
// the token in its arguments. The token is hidden in everything that is stored, shown
// or returned, although no periodic look happened in between.
func TestATokenThatWasJustRotatedIsShownToNobody(t *testing.T) {
	const prints = `
rules:
  - steps:
      - - shell: 'touch begun; while [ ! -e go ]; do sleep 0.05; done; cat ../codex-home/auth.json'
      - - shell: {cmd: 'echo {{ .LastToolOutput }}', escalate: true, justification: 'it said {{ .LastToolOutput }}'}
      - say: "{{ .LastToolOutput }}"
`
	b := newBed(t, readyHost(t))
	k, d := b.held("prints", scriptedmodel.Serve(t, prints))
	b.set.site.SaveEvery = time.Hour // only the look at the start, and the last one
	k.start()
	in := k.input(k.message("show me"))
	in.Pump.Thread.Sandbox, in.Pump.Thread.Permissions = "workspace-write", "" // the command may read the login
	ended := k.pumpBeside(t.Context(), k.bed, in, quiet(1))
	await(t, "the command", func() bool { return b.sh(`[ ! -e "$1/begun" ] || echo y`, k.layout.WorkDir) != "" })
	k.rewrite(login("acct-1", 1))
	b.sh(`touch "$1/go"`, k.layout.WorkDir)
	got := <-ended
	if got.err != nil {
		t.Fatal(got.err)
	}
	k.took(got.out, conversation.RequestsOpen)
	request, err := site.ReadRequest(t.Context(), b.store, "prints", got.out.Pump.Requests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	entries := readAll(t, b.store, "prints", 0)
	for what, v := range map[string]any{"the transcript": entries, "the request": request, "the result": got.out,
		"the live feed": b.live.of(records.SessionTopic("prints"), records.LiveEntry)} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		noToken(t, what, string(text))
		if data, ok := v.([]records.LiveEvent); ok {
			for _, ev := range data {
				noToken(t, what, string(ev.Data))
			}
		}
	}
	if !strings.Contains(fmt.Sprint(entries), "[redacted") || !strings.Contains(request.Command, "[redacted") {
		t.Errorf("nothing was printed: %+v, %+v", entries, request)
	}
	k.savedIs(d, 1)
}

// A lease has ended, and codex has rotated the login since. The pump is cancelled, with
// the reason, and the login is not saved.
func TestATurnIsCalledBackWhenItsLeaseHasEnded(t *testing.T) {
	b := newBed(t, readyHost(t))
	model := scriptedmodel.Serve(t, slowly)
	k, d := b.held("fenced", model)
	b.set.site.SaveEvery = 50 * time.Millisecond
	k.start()
	ended := k.pumpBeside(t.Context(), k.bed, k.input(k.message("I am Ada")), quiet(1))
	d.mu.Lock()
	d.at.Holders = map[string]int64{"somebody": 8}
	d.mu.Unlock()
	k.replace(login("acct-1", 1))
	got := <-ended
	if got.err != nil || got.out.Pump.Reason != conversation.PumpCancelled || got.out.SeedLost == nil || got.out.SeedLost.Kind != protocol.ErrTypeSeedFenced {
		t.Errorf("%+v", got)
	}
	model.Release("gate")
	if now := d.state(); now.Generation != 1 || now.Rotated != nil {
		t.Errorf("the seed says %+v", now)
	}
}

// While a session waits for a person and no pump is attached, WatchHost sees a changed
// login, and saves it. A login that is unchanged is not even read.
func TestALoginIsSavedWhileItsSessionWaits(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("waits", scriptedmodel.Serve(t, asking))
	k.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	in := k.input(k.message("run a command"))
	in.Pump.Thread.Sandbox = "workspace-write"
	out, err := pumps.RunPump(ctx, k.set.Pump.Site, in, quiet(1))
	if err != nil {
		t.Fatal(err)
	}
	k.took(out, conversation.RequestsOpen)
	look := func() []process.ChangedFile {
		t.Helper()
		found, err := process.LookFiles(t.Context(), b.host(), filepath.Dir(k.layout.Dir))
		if err != nil {
			t.Fatal(err)
		}
		// Sessions of other tests are on that host too.
		return slices.DeleteFunc(found, func(f process.ChangedFile) bool { return f.Session != "waits" })
	}
	if found := look(); len(found) != 0 {
		t.Errorf("with nothing new: %+v", found)
	}
	// Another worker watches the host.
	l := b.another().lookout()
	l.Site.Desk, l.Site.SaveEvery = d, 50*time.Millisecond
	watching, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { l.WatchLogins(watching) })
	for n := 1; n <= 2; n++ {
		k.rewrite(login("acct-1", n))
		await(t, "the login is saved", func() bool { return d.state().Generation == int64(n)+1 })
	}
	stop()
	done.Wait()
	k.savedIs(d, 2)
	if got := d.took(); got != "rotated, save, rotated, save" {
		t.Errorf("it took: %s", got)
	}
	if found := look(); len(found) != 1 {
		t.Errorf("on the host: %+v", found)
	}
}

// Codex may refresh its login between turns too. WatchHost sees this until the next
// pump attaches.
func TestALoginIsSavedWhileItsSessionIsIdle(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("idle", scriptedmodel.Serve(t, `rules: [{reply: hello}]`))
	k.start()
	k.pump(conversation.TurnEnded, k.message("hi"))
	l := b.another().lookout()
	l.Site.Desk = d
	look := func() {
		t.Helper()
		if err := l.LookAtLogins(t.Context(), map[string]*string{}); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if got := d.took(); got != "" {
		t.Errorf("with nothing new it took %s", got)
	}
	k.rewrite(login("acct-1", 1))
	look()
	k.savedIs(d, 1)
	if err := l.Watcher.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if told := fmt.Sprint(l.mail.take()); strings.Contains(told, "session/idle") {
		t.Errorf("it is troubled for its process: %s", told)
	}
	k.pump(conversation.TurnEnded, k.message("hi again"))
	k.rewrite(login("acct-1", 2))
	look()
	k.savedIs(d, 2)
}

// Codex is killed right after a refresh, or its host is rebooted. The pump that reports
// the end of codex has saved the login.
func TestALoginOfACodexThatDiedIsSavedWithItsEnd(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("died", scriptedmodel.Serve(t, `rules: [{reply: hello}]`))
	k.start()
	k.pump(conversation.TurnEnded, k.message("hi"))
	st, err := process.Inspect(t.Context(), b.host(), folder.ServerDir(k.layout, 1))
	if err != nil || st.PID == 0 {
		t.Fatalf("%+v, %v", st, err)
	}
	b.sh(`printf %s "$2" >"$1/codex-home/auth.json"; kill -9 "$3"`, k.layout.Dir, login("acct-1", 1), fmt.Sprint(st.PID))
	// The pump would return at once if codex had not ended yet, because it has
	// nothing to wait for.
	for st.State == process.Running && err == nil {
		st, err = process.Inspect(t.Context(), b.host(), folder.ServerDir(k.layout, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	if out := k.pump(conversation.ProcessEnded); out.Process == nil || out.SeedLost != nil {
		t.Errorf("%+v", out)
	}
	k.savedIs(d, 1)
}
