package activities

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// A fakeDesk stands in for a seed's workflow: it compares generation and epoch before
// it sets. A request that no holder may make fails the test.
type fakeDesk struct {
	t    *testing.T
	name string

	mu     sync.Mutex
	at     inquiry.SeedNow
	ended  bool                                         // the lease has ended, and the login on the holder's host has yet to be fetched
	said   []string                                     // the requests, in order
	before func(ctx context.Context, what string) error // fails or delays a step
	after  func(what string) error                      // loses the answer of a step
}

func newDesk(t *testing.T, ref *protocol.SeedRef, holder string) *fakeDesk {
	now := *ref
	return &fakeDesk{t: t, name: ref.Name, at: inquiry.SeedNow{
		Generation: ref.Generation, Auth: seeds.AuthDigest([]byte(login("acct-1", 0))), Ref: &now, Holders: map[string]int64{holder: ref.Epoch},
	}}
}

func (d *fakeDesk) do(ctx context.Context, seed, what string, f func() error) (inquiry.SeedNow, error) {
	if seed != d.name {
		d.t.Errorf("seed %s was asked for", seed)
	}
	d.mu.Lock()
	d.said = append(d.said, what)
	before, after := d.before, d.after
	d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return inquiry.SeedNow{}, err
	}
	word, _, _ := strings.Cut(what, " ")
	if before != nil {
		if err := before(ctx, word); err != nil {
			return inquiry.SeedNow{}, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := f(); err != nil {
		return inquiry.SeedNow{}, err
	}
	if after != nil {
		if err := after(word); err != nil {
			return inquiry.SeedNow{}, err
		}
	}
	now := d.at
	return now, nil
}

func (d *fakeDesk) holds(holder string, epoch int64, left bool) error {
	if left && epoch <= d.at.First && len(d.at.Holders) == 0 && d.at.Ref != nil {
		return nil
	}
	if at, ok := d.at.Holders[holder]; !ok || at != epoch || d.ended {
		return fmt.Errorf("%w: %s under %d", kit.ErrSeedFenced, holder, epoch)
	}
	return nil
}

func (d *fakeDesk) Now(ctx context.Context, seed string) (inquiry.SeedNow, error) {
	return d.do(ctx, seed, "now", func() error { return nil })
}

func (d *fakeDesk) Rotated(ctx context.Context, seed string, r inquiry.RotatedSeed) (inquiry.SeedNow, error) {
	return d.do(ctx, seed, "rotated "+r.Reason, func() error {
		if err := d.holds(r.Holder, r.Epoch, r.Left); err != nil {
			return err
		}
		noToken(d.t, "what a workflow is told", r.Reason)
		if len(r.Auth) != 64 || r.Auth == d.at.Auth {
			d.t.Errorf("marked as rotated: %q", r.Auth)
		}
		d.at.Rotated = &r
		return nil
	})
}

func (d *fakeDesk) Save(ctx context.Context, seed string, s inquiry.SaveSeed) (inquiry.SeedNow, error) {
	return d.do(ctx, seed, "save", func() error {
		if err := d.holds(s.Holder, s.Epoch, s.Left); err != nil {
			return err
		}
		if s.Auth == d.at.Auth {
			return nil
		}
		if s.From != d.at.Generation {
			return fmt.Errorf("generation %d is not the newest", s.From)
		}
		if d.at.Rotated == nil || d.at.Rotated.Auth != s.Auth {
			d.t.Error("it was saved and never marked as rotated")
		}
		d.at.Generation++
		s.Ref.Generation = d.at.Generation
		d.at.Ref, d.at.Auth, d.at.Rotated = &s.Ref, s.Auth, nil
		return nil
	})
}

func (d *fakeDesk) state() inquiry.SeedNow {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}

// took returns the requests since the last call, without queries.
func (d *fakeDesk) took() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, s := range d.said {
		if s != "now" {
			out = append(out, strings.TrimSpace(s))
		}
	}
	d.said = nil
	return strings.Join(out, ", ")
}

// held prepares a session that holds a rotating seed.
func (b *bed) held(id string, model *scriptedmodel.Server) (*talk, *fakeDesk) {
	b.t.Helper()
	ref := b.rotating(model, id, 7)
	d := newDesk(b.t, ref, id)
	b.set.site.Desk = d
	return b.prepared(id, "", "workspace-write", ref), d
}

// keeper returns the keeper of a worker that has just started.
func (k *talk) keeper() *logins.Keeper {
	k.t.Helper()
	hide, err := site.Hiding(k.t.Context(), k.set.site, k.seed)
	if err != nil {
		k.t.Fatal(err)
	}
	return logins.NewKeeper(k.set.site, k.host(), k.claim.Session, k.layout.CodexHome, k.seed, hide)
}

func (k *talk) look() (logins.Keep, error) { return k.keeper().Look(k.t.Context()) }

// savedIs checks the seed's current login.
func (k *talk) savedIs(d *fakeDesk, n int) {
	k.t.Helper()
	now := d.state()
	if now.Generation != int64(n)+1 || now.Rotated != nil {
		k.t.Errorf("generation %d, rotated %+v; want %d", now.Generation, now.Rotated, n+1)
	}
	if got := k.authIn(now.Ref); got != login("acct-1", n) {
		k.t.Errorf("what counts is not the login after %d refreshes", n)
	}
}

// Each refresh becomes exactly one generation, for all ways in which codex may write
// the file.
func TestEachRefreshIsSavedOnce(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("keeps", nil)
	if out, err := k.look(); err != nil || out != logins.KeptAsIs || d.took() != "" {
		t.Errorf("with nothing new: %v, %v", out, err)
	}
	same := k.keeper()
	for n := 1; n <= 4; n++ {
		if n%2 == 0 {
			k.replace(login("acct-1", n))
		} else {
			k.rewrite(login("acct-1", n))
		}
		if out, err := same.Look(t.Context()); err != nil || out != logins.KeptSaved {
			t.Fatalf("refresh %d: %v, %v", n, out, err)
		}
		k.savedIs(d, n)
		if got := d.took(); got != "rotated, save" {
			t.Errorf("refresh %d took: %s", n, got)
		}
		// Look again with the same keeper, and with that of another worker, which knows
		// only generation 1.
		for _, again := range []*logins.Keeper{same, k.keeper()} {
			if _, err := again.Look(t.Context()); err != nil || d.took() != "" {
				t.Errorf("looked again after refresh %d: %v", n, err)
			}
		}
	}
}

// A save may be killed after any step, or its answer may be lost. The next look
// finishes the save, and the login is saved only once.
func TestAKillBetweenAnyTwoStepsOfASaveLosesNothing(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("killed", nil)
	n := 0
	for _, step := range []string{"now", "rotated", "save"} {
		for _, done := range []bool{false, true} {
			n++
			k.rewrite(login("acct-1", n))
			cut := errors.New("killed")
			ctx, kill := context.WithCancel(t.Context())
			dies := func(what string) error {
				if what != step {
					return nil
				}
				kill()
				return cut
			}
			d.mu.Lock()
			if done {
				d.after = dies
			} else {
				d.before = func(_ context.Context, what string) error { return dies(what) }
			}
			d.mu.Unlock()
			if _, err := k.keeper().Look(ctx); err == nil {
				t.Errorf("%s, done %v: no error", step, done)
			}
			d.mu.Lock()
			d.before, d.after = nil, nil
			d.mu.Unlock()
			kill()
			if now := d.state(); now.Generation == int64(n) && step != "now" && !(step == "rotated" && !done) && now.Rotated == nil {
				t.Errorf("%s, done %v: neither saved nor marked", step, done)
			}
			if _, err := k.look(); err != nil {
				t.Fatalf("%s, done %v: the next one: %v", step, done, err)
			}
			k.savedIs(d, n)
		}
	}
	blobs, err := b.store.List(t.Context(), "seeds/killed/")
	if err != nil || len(blobs) != n+1 {
		t.Errorf("%d blobs for %d generations: %v", len(blobs), n+1, err)
	}
}

// A holder that lost the lease saves nothing, and gets an error each time.
func TestAnOldHolderThatWakesUpSavesNothing(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("woken", nil)
	k.rewrite(login("acct-1", 1))
	late := k.keeper()
	d.before = func(_ context.Context, what string) error {
		if what == "save" { // just before the save would have succeeded
			d.mu.Lock()
			d.at.Holders = map[string]int64{"other": 8}
			d.mu.Unlock()
		}
		return nil
	}
	for range 2 {
		if _, err := late.Look(t.Context()); !errors.Is(err, kit.ErrSeedFenced) {
			t.Errorf("the old holder: %v", err)
		}
	}
	d.before = nil
	if _, err := k.look(); !errors.Is(err, kit.ErrSeedFenced) {
		t.Errorf("a newer worker of the old holder: %v", err)
	}
	d.at.Holders = map[string]int64{"woken": 9} // the same session, with a new lease elsewhere
	if _, err := k.look(); !errors.Is(err, kit.ErrSeedFenced) {
		t.Errorf("the same session under an older lease: %v", err)
	}
	if now := d.state(); now.Generation != 1 {
		t.Errorf("the seed is at generation %d", now.Generation)
	}
	// While the seed has yet to fetch the login from the old holder's host, the old
	// holder wipes nothing. It wipes after the login was fetched or given up.
	d.at.Holders, d.ended = map[string]int64{"woken": 7}, true
	in := k.closing()
	if out, err := k.close(in); !errors.Is(err, kit.ErrSeedFenced) || out.Wiped || k.authOnHost() == "" {
		t.Errorf("the old holder's close: %+v, %v", out, err)
	}
	d.at.Holders, d.at.Rotated = map[string]int64{"other": 8}, nil
	if out, err := k.close(in); err != nil || !out.Wiped || d.state().Generation != 1 {
		t.Errorf("closed when the seed went on: %+v, %v", out, err)
	}
	err := kit.Failing{}.Failure(t.Context(), "save", kit.ErrSeedFenced)
	if app := appError(t, err); app.Type() != protocol.ErrTypeSeedFenced || !app.NonRetryable() {
		t.Errorf("typed as %v", app)
	}
}

// A file that is not a later login of the same account is never stored. It may be wiped
// only if it is the same or an earlier login.
func TestOnlyALaterLoginOfTheSameAccountIsStored(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("picky", nil)
	whole := login("acct-1", 1)
	for _, c := range []struct {
		name, auth string
		bad        bool
		marked     bool
		want       logins.Keep
	}{
		{"half written", whole[:len(whole)/3], true, false, 0},
		{"emptied", "", true, false, 0},
		{"another account", login("acct-2", 5), true, true, 0},
		{"an API key", `{"auth_mode":"apikey","OPENAI_API_KEY":"sk-made-up-of-somebody"}`, true, true, 0},
		{"unclear", strings.Replace(login("acct-1", 0), refreshToken("acct-1", 0), refreshToken("acct-1", 77), 1), true, true, 0},
		{"logged out", `{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":null}`, false, false, logins.KeptNobody},
		{"an earlier one", login("acct-1", -1), false, false, logins.KeptAsIs},
	} {
		d.at.Rotated = nil
		k.rewrite(c.auth)
		out, err := k.look()
		if (err != nil) != c.bad || out != c.want {
			t.Errorf("%s: %v, %v", c.name, out, err)
		}
		if err != nil {
			noToken(t, c.name, err.Error())
		}
		if now := d.state(); now.Generation != 1 || (now.Rotated != nil) != c.marked {
			t.Errorf("%s: generation %d, rotated %+v", c.name, now.Generation, now.Rotated)
		}
		if there := b.sh(`[ -e "$1/auth.json" ] && echo y`, k.layout.CodexHome); there != "y\n" {
			t.Errorf("%s: looking has removed it", c.name)
		}
	}
	d.at.Rotated = nil
	b.sh(`rm "$1/auth.json"`, k.layout.CodexHome)
	if out, err := k.look(); err != nil || out != logins.KeptNobody {
		t.Errorf("removed: %v, %v", out, err)
	}
	k.rewrite(whole) // now complete
	if out, err := k.look(); err != nil || out != logins.KeptSaved {
		t.Errorf("then: %v, %v", out, err)
	}
	k.savedIs(d, 1)
}

// without makes the store unavailable until the returned function is called.
func (b *bed) without() (back func()) {
	b.t.Helper()
	dir := strings.TrimPrefix(b.store.URL(), "file://")
	if err := os.Rename(dir, dir+".away"); err != nil {
		b.t.Fatal(err)
	}
	return func() {
		if err := os.Rename(dir+".away", dir); err != nil {
			b.t.Fatal(err)
		}
	}
}

// If the store is down, the seed is marked as rotated, with the reason. Nothing is
// wiped, not even by CloseSession, and the login is saved as soon as the store is back.
func TestWithNoStoreALoginIsMarkedAndStays(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("storeless", nil)
	same := k.keeper()
	k.rewrite(login("acct-1", 1))
	in := k.closing()
	hide, err := site.Hiding(t.Context(), k.set.site, k.seed)
	if err != nil {
		t.Fatal(err)
	}
	back := b.without()
	if _, err := same.Look(t.Context()); err == nil {
		t.Error("saved, with no store")
	}
	now := d.state()
	if now.Rotated == nil || now.Rotated.Reason == "" || now.Generation != 1 {
		t.Errorf("the seed says %+v", now.Rotated)
	}
	for range 2 {
		out, err := places.CloseSession(t.Context(), k.set.Place.Site, in, 1, hide)
		if err == nil || out.Wiped || out.Removed || out.Unsaved {
			t.Errorf("closed with no store: %+v, %v", out, err)
		}
	}
	if k.authOnHost() != login("acct-1", 1) {
		t.Error("it is not on the host any more")
	}
	back()
	if out, err := k.close(in); err != nil || !out.Wiped || !out.Removed || out.Unsaved {
		t.Errorf("closed with a store: %+v, %v", out, err)
	}
	k.savedIs(d, 1)
}

// A torn blob never becomes a generation: another blob is written beside it.
func TestATornBlobNeverCounts(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("torn", nil)
	k.rewrite(login("acct-1", 1))
	// The save was killed when the blob was written, and the store has torn it.
	d.before = func(_ context.Context, what string) error {
		if what == "save" {
			return errors.New("killed")
		}
		return nil
	}
	if _, err := k.look(); err == nil {
		t.Fatal("it was not killed")
	}
	d.before = nil
	found, err := filepath.Glob(strings.TrimPrefix(b.store.URL(), "file://") + "/seeds/torn/0000000002-h*")
	if err != nil || len(found) != 1 {
		t.Fatalf("in the store: %v, %v", found, err)
	}
	if err := os.Truncate(found[0], 100); err != nil {
		t.Fatal(err)
	}
	if _, err := k.look(); err != nil {
		t.Fatal(err)
	}
	k.savedIs(d, 1)
	// The torn blob is deleted with the seed.
	in := logins.DeleteSeedInput{Name: "torn", Blobs: []string{k.seed.Blob, d.state().Ref.Blob}}
	if err := b.set.Login.DeleteSeedBlobs(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if left, err := b.store.List(t.Context(), "seeds/torn/"); err != nil || len(left) != 0 {
		t.Errorf("left in the store: %+v, %v", left, err)
	}
}

// A seed's workflow that does not answer does not delay a result for long, and a mark
// that was made before stays.
func TestASlowSaveDoesNotHoldUpATurn(t *testing.T) {
	model := scriptedmodel.Serve(t, `rules: [{reply: hello}]`)
	b := newBed(t, readyHost(t))
	k, d := b.held("slow", model)
	k.start()
	d.before = func(ctx context.Context, what string) error {
		if what == "save" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	k.rewrite(login("acct-1", 1))
	k.pump(conversation.TurnEnded, k.message("hi"))
	if now := d.state(); now.Rotated == nil || now.Generation != 1 {
		t.Errorf("the seed says %+v", now)
	}
	d.mu.Lock()
	d.before = nil
	d.mu.Unlock()
	k.pump(conversation.TurnEnded, k.message("hi again"))
	k.savedIs(d, 1)
}

// Discard gives up a login only if it cannot be saved, and the result says so.
func TestDiscardGivesUpOnlyALoginThatCannotBeSaved(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("given", nil)
	k.rewrite(login("acct-1", 1))
	in := k.closing()
	in.Discard = true
	if out, err := k.close(in); err != nil || !out.Wiped || out.Unsaved {
		t.Errorf("what could be saved: %+v, %v", out, err)
	}
	k.savedIs(d, 1)

	k, d = b.held("given-up", nil)
	k.rewrite(login("acct-2", 1))
	in = k.closing()
	if out, err := k.close(in); err == nil || out.Wiped {
		t.Errorf("another account's: %+v, %v", out, err)
	} else if app := appError(t, kit.Failing{}.Failure(t.Context(), "close", err)); app.Type() != protocol.ErrTypeSeed || !app.NonRetryable() {
		t.Errorf("nobody hears of it: %v", app)
	}
	in.Discard = true
	out, err := k.close(in)
	if err != nil || !out.Wiped || !out.Removed || !out.Unsaved || out.Problem == nil {
		t.Errorf("given up: %+v, %v", out, err)
	}
	if d.state().Generation != 1 {
		t.Error("somebody else's login was stored as the seed's")
	}
}

// Codex rotated the login, the login could not be saved, and then the agent removed the
// file. The login is lost, and the session does not close as if all were well.
func TestALoginThatWasRemovedBeforeItWasSavedIsTold(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("removed", nil)
	if err := os.WriteFile(filepath.Join(t.TempDir(), "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k.rewrite(login("acct-1", 1))
	d.before = func(_ context.Context, what string) error {
		if what == "save" {
			return errors.New("no way")
		}
		return nil
	}
	if _, err := k.look(); err == nil {
		t.Fatal("it was saved")
	}
	d.before = nil
	b.sh(`rm "$1/auth.json"`, k.layout.CodexHome)
	in := k.closing()
	if out, err := k.close(in); err == nil || out.Wiped {
		t.Errorf("closed: %+v, %v", out, err)
	} else if !strings.Contains(err.Error(), "gone from") {
		t.Errorf("it does not say what happened: %v", err)
	}
	in.Discard = true
	if out, err := k.close(in); err != nil || !out.Unsaved || !out.Removed {
		t.Errorf("discarded: %+v, %v", out, err)
	}
}

// A failed PrepareSession on a host where codex has worked before does not wipe a login
// that is not saved.
func TestAFailedPrepareSavesBeforeItWipes(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("again", nil)
	k.rewrite(login("acct-1", 1))
	b.sh(`mkdir "$1/AGENTS.md.d" && rm "$1/AGENTS.md" && mkdir "$1/AGENTS.md" && : >"$1/AGENTS.md/x"`, k.layout.CodexHome)
	in := places.PrepareSessionInput{Claim: k.next(), Seed: k.seed, Sandbox: "workspace-write"}
	d.before = func(_ context.Context, what string) error {
		if what == "save" {
			return errors.New("no way")
		}
		return nil
	}
	if _, err := b.prepare(in); err == nil || k.authOnHost() != login("acct-1", 1) {
		t.Errorf("it cannot be saved: %v", err)
	}
	d.before = nil
	if _, err := b.prepare(in); err == nil || k.authOnHost() != "" {
		t.Errorf("it can be saved: %v", err)
	}
	k.savedIs(d, 1)
}
