package activities

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots"
)

// leave returns the input that a pool gives to WipeLeftover after a session ended
// without cleaning up.
func (k *talk) leave(discard bool) places.WipeLeftoverInput {
	in := places.WipeLeftoverInput{Claim: k.claim, Generation: k.claim.Generation, ThreadID: k.state.ThreadID, Layout: k.layout, Seed: k.seed, Discard: discard}
	in.Claim.Generation, in.Claim.Pump = k.claim.Generation+100, 1
	k.claim.Generation = in.Claim.Generation + 100 // the test's own clean-up needs a higher generation
	return in
}

// knows returns a SeedAnswer that always returns now.
func knows(now inquiry.SeedNow) inquiry.SeedAnswer {
	return func(context.Context, string) (inquiry.SeedNow, bool, error) { return now, true, nil }
}

func (k *talk) wipe(in places.WipeLeftoverInput, ask inquiry.SeedAnswer) (places.WipeLeftoverResult, error) {
	in.Claim = folder.ClaimBehind(in.Claim, in.Generation)
	out, err := places.WipeLeftover(k.t.Context(), k.set.Place.Site, in, 1, ask)
	return out, kit.Failing{Epoch: folder.EpochOf(in.Claim, 1)}.Failure(k.t.Context(), "wipe", err)
}

func (b *bed) exported(id string) map[string]string {
	b.t.Helper()
	var buf bytes.Buffer
	if err := snapshots.Export(b.t.Context(), b.set.site.Chunks, id, &buf); err != nil {
		b.t.Fatalf("export %s: %v", id, err)
	}
	files := map[string]string{}
	for r := tar.NewReader(&buf); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		data, rerr := io.ReadAll(r)
		if err != nil || rerr != nil {
			b.t.Fatalf("export %s: %v, %v", id, err, rerr)
		}
		files[h.Name] = string(data)
	}
}

func (k *talk) planted() string {
	k.t.Helper()
	return k.sh(`cd "$1" 2>/dev/null || exit 0; for f in auth.json config.toml; do [ ! -e "$f" ] || echo "$f"; done`, k.layout.CodexHome)
}

func kindOfError(err error) string {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return ""
	}
	return app.Type()
}

// A host is lost during a session and comes back later. The session's processes are
// ended, its credential is wiped, and its work is kept before the folder is removed.
func TestWhatIsLeftOnAHostThatWasAwayIsWiped(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.prepared("away", "", "workspace-write", b.plantable(scriptedmodel.Serve(t, `rules: []`)))
	k.job()
	b.sh(`echo precious >"$1/work.txt"`, k.layout.WorkDir)
	in, ask := k.leave(false), knows(inquiry.SeedNow{Generation: 1, Ref: k.seed})
	if err := ready.sshd.Stop(); err != nil {
		t.Fatal(err)
	}
	started := false
	t.Cleanup(func() {
		if !started {
			ready.sshd.Start(context.Background())
		}
	})
	// A connection that was open is lost while the wipe runs, or before.
	if out, err := k.wipe(in, ask); !slices.Contains([]string{protocol.ErrTypeUnreachable, protocol.ErrTypeWireLost}, kindOfError(err)) || out.Wiped {
		t.Errorf("wiped a host that is away: %+v, %v", out, err)
	}
	if err := ready.sshd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	started = true
	if k.planted() != "auth.json\nconfig.toml\n" {
		t.Fatal("there is nothing to wipe")
	}
	in.Layout, in.Claim.Pump = protocol.Layout{}, 2 // as for a terminated session, whose layout is not known
	out, err := k.wipe(in, ask)
	if err != nil || !out.Wiped || !out.Removed || out.Kept != "" || out.Archive == "" || out.At.IsZero() {
		t.Errorf("wiped %+v, %v", out, err)
	}
	if left := b.sh(`[ ! -e "$1" ] || find "$1"`, k.layout.Dir); left != "" || marked("away") != 0 {
		t.Errorf("left: %s, %d processes", left, marked("away"))
	}
	if got := b.exported(out.Archive)["work/work.txt"]; got != "precious\n" {
		t.Errorf("the work that is kept is %q", got)
	}
	in.Claim.Pump++
	if again, err := k.wipe(in, ask); err != nil || !again.Wiped || !again.Removed {
		t.Errorf("wiped again: %+v, %v", again, err)
	}
	// An old holder that wakes up is refused, but the session itself may come back.
	old := places.PrepareSessionInput{Claim: protocol.Claim{Session: "away", Host: b.spec, Generation: 1, Pump: 9}, Seed: k.seed, Sandbox: "workspace-write"}
	if _, err := b.prepare(old); kindOfError(err) != protocol.ErrTypeFenced {
		t.Errorf("an old holder planted again: %v", err)
	}
	old.Claim.Generation = 2
	if _, err := b.prepare(old); err != nil {
		t.Errorf("the session cannot come back: %v", err)
	}
}

// A discarded folder is removed. As much of it as possible is kept.
func TestADiscardedLeftoverIsRemoved(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.prepared("dropped", "", "workspace-write", b.plantable(scriptedmodel.Serve(t, `rules: []`)))
	b.sh(`printf "the key is %s\n" "$2" >"$1/work.txt"`, k.layout.WorkDir, madeUpKey)
	out, err := k.wipe(k.leave(true), knows(inquiry.SeedNow{Generation: 1, Ref: k.seed}))
	if err != nil || !out.Wiped || !out.Removed || out.Kept != "" || out.Archive == "" {
		t.Errorf("wiped %+v, %v", out, err)
	}
	if left := b.sh(`[ ! -e "$1" ] || find "$1"`, k.layout.Dir); left != "" {
		t.Errorf("left: %s", left)
	}
}

// Secret answers are hidden in everything that is kept of a session's folder. This
// holds even if the folder's mark and the caller do not say that there were any, and
// even without a seed.
func TestWhatCodexWasToldIsHiddenInWhatIsKeptOfALeftover(t *testing.T) {
	b := newBed(t, readyHost(t))
	const secret = "hunter2 and then some"
	for name, seed := range map[string]*protocol.SeedRef{"told-seeded": b.plantable(scriptedmodel.Serve(t, `rules: []`)), "told-bare": nil} {
		k := b.prepared(name, "", "workspace-write", seed)
		b.sh(`printf "it is %s\n" "$2" >"$1/work.txt"`, k.layout.WorkDir, secret)
		if err := b.store.Put(t.Context(), site.ToldPrefix+name+"/x", []byte(`{"password":["`+secret+`"]}`)); err != nil {
			t.Fatal(err)
		}
		out, err := k.wipe(k.leave(false), knows(inquiry.SeedNow{Generation: 1, Ref: seed}))
		if err != nil || out.Archive == "" {
			t.Fatalf("%s: wiped %+v, %v", name, out, err)
		}
		if got := b.exported(out.Archive)["work/work.txt"]; !strings.HasPrefix(got, "it is ") || strings.Contains(got, secret) {
			t.Errorf("%s: the snapshot says %q", name, got)
		}
	}
}

// login returns a seed with a ChatGPT login, its auth.json, and a rotated auth.json
// as codex may write it.
func (b *bed) login() (ref *protocol.SeedRef, auth, rotated string) {
	b.t.Helper()
	token := func(n string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"`+strings.Repeat(n, 12)+`"}`)) + ".c2ln"
	}
	text := func(n string) string {
		return `{"auth_mode":"chatgpt","tokens":{"id_token":"` + token(n) + `","access_token":"` + token(n) + `","refresh_token":"rt-made-up-` + strings.Repeat(n, 12) +
			`","account_id":"acc"},"last_refresh":"2026-11-21T10:00:00Z"}`
	}
	auth, rotated = text("a"), text("b")
	dir := b.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "auth.json"), []byte(auth), 0o600); err != nil {
		b.t.Fatal(err)
	}
	bundle, err := seeds.Pack(dir)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := seeds.Save(b.t.Context(), b.store, "login", 1, bundle)
	if err != nil {
		b.t.Fatal(err)
	}
	return &protocol.SeedRef{Name: r.Name, Generation: r.Generation, Blob: r.Blob, Digest: r.Digest, Kind: string(r.Kind)}, auth, rotated
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// A rotated login that is not in the store is never wiped while its seed waits for it.
// This holds for all activities that wipe.
func TestALoginThatIsNotSavedIsNotWiped(t *testing.T) {
	b := newBed(t, readyHost(t))
	ref, auth, rotated := b.login()
	k := b.prepared("rotated", "", "workspace-write", ref)
	b.sh(`printf %s "$2" >"$1"`, path.Join(k.layout.CodexHome, "auth.json"), rotated)
	for name, now := range map[string]inquiry.SeedNow{
		"held":    {Generation: 1, Ref: ref, Auth: digest(auth), Holders: map[string]int64{"rotated": 4}},
		"waiting": {Generation: 1, Ref: ref, Auth: digest(auth), Rotated: &inquiry.RotatedSeed{Holder: "rotated"}},
	} {
		out, err := k.wipe(k.leave(false), knows(now))
		if kindOfError(err) != protocol.ErrTypeLoginUnsaved || out.Wiped {
			t.Errorf("%s: wiped %+v, %v", name, out, err)
		}
	}
	unreachable := errors.New("no answer")
	if out, err := k.wipe(k.leave(false), func(context.Context, string) (inquiry.SeedNow, bool, error) {
		return inquiry.SeedNow{}, false, unreachable
	}); err == nil || out.Wiped {
		t.Errorf("wiped without the seed's word: %+v", out)
	}
	if got := b.sh(`cat "$1"`, path.Join(k.layout.CodexHome, "auth.json")); got != rotated {
		t.Fatalf("the login on the host is %s", got)
	}
	// The seed has a newer generation, which is this login.
	out, err := k.wipe(k.leave(false), knows(inquiry.SeedNow{Generation: 2, Ref: ref, Auth: digest(rotated)}))
	if err != nil || !out.Wiped || out.GivenUp {
		t.Errorf("wiped %+v, %v", out, err)
	}
	// The seed has got other content since, and nobody waits for this login.
	k = b.prepared("rotated-too", "", "workspace-write", ref)
	b.sh(`printf %s "$2" >"$1"`, path.Join(k.layout.CodexHome, "auth.json"), rotated)
	out, err = k.wipe(k.leave(false), knows(inquiry.SeedNow{Generation: 3, Ref: ref, Auth: digest("another")}))
	if err != nil || !out.Wiped || !out.GivenUp || k.planted() != "" {
		t.Errorf("wiped %+v, %v", out, err)
	}
}

// If the folder is gone, running processes are found by their mark.
func TestALeftoverWhoseFolderIsGoneEndsToo(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.prepared("bare", "", "workspace-write", b.plantable(scriptedmodel.Serve(t, `rules: []`)))
	k.job()
	b.sh(sweep, k.layout.Dir)
	out, err := k.wipe(k.leave(false), func(context.Context, string) (inquiry.SeedNow, bool, error) { return inquiry.SeedNow{}, false, nil })
	if err != nil || !out.Wiped || !out.Removed || len(out.Survivors) == 0 || marked("bare") != 0 {
		t.Errorf("wiped %+v, %v; %d are left", out, err, marked("bare"))
	}
}
