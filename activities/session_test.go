package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/seeds"
)

// madeUpKey must not appear anywhere except in the seed's own files.
const madeUpKey = "sk-made-up-5Jq0yV7xKc2NpT8w"

// farHost returns a host with a real sshd that serves an ordinary user.
func farHost(t *testing.T) protocol.HostSpec {
	t.Helper()
	return hosttest.StartSSHD(t, hosttest.Options{NewUser: os.Getuid() == 0}).Spec()
}

// readyHost returns one host for all tests that need codex on it, so that codex is
// uploaded once. Each test uses session names of its own.
func readyHost(t *testing.T) protocol.HostSpec {
	t.Helper()
	realparts.NotShort(t)
	ready.once.Do(func() {
		ready.sshd, ready.err = hosttest.NewSSHD(context.Background(), filepath.Join(ready.dir, "sshd"), hosttest.Options{NewUser: os.Getuid() == 0})
	})
	if ready.err != nil {
		t.Fatal(ready.err)
	}
	return ready.sshd.Spec()
}

var ready struct {
	once sync.Once
	dir  string
	sshd *hosttest.SSHD
	err  error
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childVar); text != "" {
		refreshInChild(text)
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if ready.dir, err = os.MkdirTemp("", "fl-ready-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(ready.dir)
	code := m.Run()
	if ready.sshd != nil {
		if err := ready.sshd.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// plantable saves a seed that talks to the model with a made-up key.
func (b *bed) plantable(model *scriptedmodel.Server) *protocol.SeedRef {
	b.t.Helper()
	return b.plantableWith(model, "")
}

// plantableWith is like plantable, and adds tables to the seed's config.toml, as its
// owner may.
func (b *bed) plantableWith(model *scriptedmodel.Server, more string) *protocol.SeedRef {
	b.t.Helper()
	dir := b.t.TempDir()
	auth := fmt.Sprintf(`{"auth_mode":"apikey","OPENAI_API_KEY":%q}`, madeUpKey)
	for name, text := range map[string]string{
		"auth.json":   auth,
		"config.toml": scriptedmodel.ConfigTOML(model.BaseURL(), "token-"+madeUpKey) + "\n" + more,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	bundle, err := seeds.Pack(dir)
	if err != nil {
		b.t.Fatal(err)
	}
	ref, err := seeds.Save(b.t.Context(), b.store, "team", 1, bundle)
	if err != nil {
		b.t.Fatal(err)
	}
	return &protocol.SeedRef{Name: ref.Name, Generation: ref.Generation, Blob: ref.Blob, Digest: ref.Digest, Kind: string(ref.Kind)}
}

// prepared returns a session that PrepareSession has prepared.
func (b *bed) prepared(id, dir, sandbox string, seed *protocol.SeedRef) *talk {
	b.t.Helper()
	return b.preparedAs(id, places.PrepareSessionInput{Seed: seed, Dir: dir, Sandbox: sandbox})
}

func (b *bed) preparedAs(id string, in places.PrepareSessionInput) *talk {
	b.t.Helper()
	k := &talk{bed: b, claim: protocol.Claim{Session: id, Host: b.spec, Generation: 1}, seed: in.Seed}
	in.Claim = k.next()
	out, err := b.prepare(in)
	if err != nil {
		b.t.Fatalf("prepare: %v", err)
	}
	again, err := b.prepare(in)
	if err != nil || !reflect.DeepEqual(again, out) {
		b.t.Fatalf("prepared again: %+v, %v; at first %+v", again, err, out)
	}
	k.layout, k.permissions = out.Layout, out.Permissions
	b.t.Cleanup(k.kill)
	return k
}

func (b *bed) prepare(in places.PrepareSessionInput) (places.PrepareSessionResult, error) {
	s := b.set.Place
	hide, err := site.Hiding(b.t.Context(), s.Site, in.Seed)
	if err != nil {
		return places.PrepareSessionResult{}, err
	}
	out, err := places.PrepareSession(b.t.Context(), s.Site, in, 1, hide, nil)
	return out, kit.Failing{Hide: hide.All}.Failure(b.t.Context(), "prepare", err)
}

func (k *talk) closing(notes ...conversation.Note) places.CloseSessionInput {
	return places.CloseSessionInput{Claim: k.next(), Layout: k.layout, Seed: k.seed, Incarnation: k.incarnation,
		ThreadID: k.state.ThreadID, Seq: k.state.Seq, Notes: notes}
}

func (k *talk) close(in places.CloseSessionInput) (places.CloseSessionResult, error) {
	hide, err := site.Hiding(k.t.Context(), k.set.site, in.Seed)
	if err != nil {
		return places.CloseSessionResult{}, err
	}
	return places.CloseSession(k.t.Context(), k.set.Place.Site, in, 1, hide)
}

func (b *bed) sh(script string, args ...string) string {
	b.t.Helper()
	res, err := b.host().Run(b.t.Context(), hostexec.Command{Script: script, Args: args})
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return string(res.Stdout)
}

func TestSessionOnAFarHostFromPrepareToClose(t *testing.T) {
	model := scriptedmodel.Serve(t, `
rules:
  - when: {turn: 1}
    steps:
      - - shell: 'cat "$CODEX_HOME/auth.json"; cat "$CODEX_HOME/config.toml"; echo made > made.txt; echo `+madeUpKey+`'
      - say: "it said: {{ .LastToolOutput }}"
  - when: {turn: 2}
    reply: "Before that you said {{ .FirstUser }}"
`)
	b := newBed(t, readyHost(t))
	k := b.prepared("far", "", "workspace-write", b.plantable(model))
	if k.permissions == "" {
		t.Error("no permission profile")
	}
	k.start()
	out := k.pump(conversation.TurnEnded, k.message("I am Ada, my key is "+madeUpKey))
	if n := strings.Count(out.Pump.Turn.FinalText, "Permission denied"); n < 2 {
		t.Errorf("the agent could read its credential: %s", out.Pump.Turn.FinalText)
	}
	if data, err := json.Marshal(out); err != nil || bytes.Contains(data, []byte(madeUpKey)) {
		t.Errorf("the result holds the key (%v): %s", err, data)
	}
	out = k.pump(conversation.TurnEnded, k.message("And now?"))
	if !strings.HasPrefix(out.Pump.Turn.FinalText, "Before that you said I am Ada") {
		t.Errorf("second turn %+v", out.Pump.Turn)
	}
	k.shownIsStored(b)
	for _, e := range readAll(t, k.store, "far", 1) {
		if data, err := json.Marshal(e); err != nil || bytes.Contains(data, []byte(madeUpKey)) {
			t.Errorf("an entry holds the key (%v): %s", err, data)
		}
	}
	for _, ev := range append(b.live.of(records.SessionTopic("far"), records.LiveDelta), b.live.of(records.SessionTopic("far"), records.LiveEntry)...) {
		if bytes.Contains(ev.Data, []byte(madeUpKey)) {
			t.Errorf("shown with the key: %s", ev.Data)
		}
	}

	in := k.closing(conversation.Note{ID: "closed", Type: "state", Text: "closed"})
	got, err := k.close(in)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Wiped || !got.Removed || got.Archive == "" || got.Seq != k.state.Seq+1 {
		t.Errorf("closed: %+v", got)
	}
	if left := b.sh(`ls -A "$1/sessions"`, k.layout.Root); strings.Contains(strings.ReplaceAll(left, ".gone-far", ""), "far") {
		t.Errorf("left on the host: %s", left)
	}
	if n := marked("far"); n != 0 {
		t.Errorf("%d of its processes were left on the host", n)
	}
	again, err := k.close(in)
	if err != nil || !again.Wiped || !again.Removed || again.Archive != got.Archive || again.Seq != got.Seq {
		t.Errorf("closed again: %+v, %v", again, err)
	}
	entries := readAll(t, k.store, "far", 1)
	if last := entries[len(entries)-1]; last.ID != "closed" || last.Seq != got.Seq {
		t.Errorf("the last entry is %+v", last)
	}
}
