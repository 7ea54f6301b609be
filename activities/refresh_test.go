package activities

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// A refreshed is a login in a store, with the store's folder.
type refreshed struct {
	t      *testing.T
	issuer *scriptedauth.Server
	login  scriptedauth.Login
	dir    string
	id     *age.X25519Identity
	store  *store.Store
	set    *Set
	in     logins.RefreshSeedInput
	// settled is what the seed tells of a person who revived it.
	settled time.Time
}

func newRefreshed(t *testing.T) *refreshed {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	r := &refreshed{t: t, issuer: scriptedauth.Serve(t), dir: filepath.Join(t.TempDir(), "store"), id: id}
	r.login = r.issuer.Login(scriptedauth.Account{Mark: "marked-token"})
	r.store = openFolder(t, r.dir, id)
	r.set = New(site.Deps{Store: r.store})
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "auth.json"), r.login.AuthJSON(), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := seeds.Pack(home)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := seeds.Save(t.Context(), r.store, "team", 1, b)
	if err != nil {
		t.Fatal(err)
	}
	r.in = logins.RefreshSeedInput{Seed: protocol.SeedRef{Name: ref.Name, Generation: 1, Blob: ref.Blob, Digest: ref.Digest, Kind: string(ref.Kind)}}
	return r
}

func openFolder(t testing.TB, dir string, id *age.X25519Identity) *store.Store {
	t.Helper()
	st, err := store.Open(context.Background(), store.Options{URL: "file://" + dir, Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func (r *refreshed) refresh() logins.RefreshSeedResult {
	r.t.Helper()
	out, err := logins.RefreshSeed(r.t.Context(), r.set.Login.Site, r.in)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// holds checks that the saved login is the newest one that the issuer gave out.
func (r *refreshed) holds(out logins.RefreshSeedResult) {
	r.t.Helper()
	if out.Verdict != "alive" || out.Saved == nil || out.Saved.Generation != r.in.Seed.Generation+1 {
		r.t.Fatalf("refreshed: %+v", out)
	}
	b, err := seeds.Load(r.t.Context(), r.store, out.Saved.Blob)
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(string(b.Auth()), r.issuer.Newest(r.login).Refresh) || seeds.AuthDigest(b.Auth()) != out.Auth {
		r.t.Error("what is in the store is not the newest login")
	}
}

func (r *refreshed) usedOnce() {
	r.t.Helper()
	if n := r.issuer.MostUses(); n != 1 {
		r.t.Errorf("a refresh token was used %d times", n)
	}
}

func TestARefreshIsInTheStoreBeforeItIsKnown(t *testing.T) {
	r := newRefreshed(t)
	out := r.refresh()
	r.holds(out)
	// The result never reached the workflow. The next attempt finds the answer.
	again := r.refresh()
	r.holds(again)
	if !out.Asked || again.Asked || out.Saved.Blob != again.Saved.Blob {
		t.Errorf("%+v, then %+v", out, again)
	}
	r.usedOnce()
}

func TestALookUsesNoToken(t *testing.T) {
	r := newRefreshed(t)
	r.in.Look = true
	if out := r.refresh(); out.Verdict != "unknown" || out.Saved != nil || len(r.issuer.Requests()) != 0 {
		t.Errorf("%+v, %d requests", out, len(r.issuer.Requests()))
	}
	// With Look, an answer that an earlier refresh stored is used.
	r.in.Look = false
	r.refresh()
	r.in.Look = true
	r.holds(r.refresh())
	r.usedOnce()
}

func TestWhatIsSurelyNotSpentIsAskedForAgain(t *testing.T) {
	for _, kind := range []string{"rate_limited", "server_error", "unavailable", "unauthorized"} {
		r := newRefreshed(t)
		r.issuer.Fail(scriptedauth.Fault{Kind: kind, RetryAfter: "9"})
		if out := r.refresh(); out.Verdict != "unknown" || out.Saved != nil || out.Reason == "" {
			t.Errorf("%s: %+v", kind, out)
		}
		r.holds(r.refresh())
		r.usedOnce()
	}
}

func TestALostAnswerIsNotAskedForAgainWithoutAWord(t *testing.T) {
	r := newRefreshed(t)
	r.issuer.Fail(scriptedauth.Fault{Kind: "lost"})
	for range 3 {
		if out := r.refresh(); out.Verdict != "lost" || out.Saved != nil || !strings.Contains(out.Hint, "--force") {
			t.Errorf("%+v", out)
		}
	}
	r.usedOnce()
	// A person's permission is good for one use.
	r.in.Force = "word-1"
	if out := r.refresh(); out.Verdict != "dead" {
		t.Errorf("forced: %+v", out)
	}
	if out := r.refresh(); out.Verdict != "lost" || r.issuer.Uses(r.login.Refresh) != 2 {
		t.Errorf("forced by the same word again: %+v, %d uses", out, r.issuer.Uses(r.login.Refresh))
	}
}

func TestAForcedRefreshSavesWhatWasOnlyThoughtLost(t *testing.T) {
	r := newRefreshed(t)
	r.issuer.Fail(scriptedauth.Fault{Kind: "drop"}) // the issuer did not read the request
	if out := r.refresh(); out.Verdict != "lost" {
		t.Fatalf("%+v", out)
	}
	r.in.Force = "word-1"
	r.holds(r.refresh())
	r.usedOnce()
}

func TestOnlyInvalidGrantIsDead(t *testing.T) {
	for _, kind := range []string{"invalid_grant", "expired", "invalidated"} {
		r := newRefreshed(t)
		r.issuer.Fail(scriptedauth.Fault{Kind: kind})
		if out := r.refresh(); out.Verdict != "dead" || out.Reason == "" || out.Hint == "" {
			t.Errorf("%s: %+v", kind, out)
		}
	}
}

// breakStore replaces the folder of the seed's blobs by something else until mend is
// called.
func (r *refreshed) breakStore() (mend func()) {
	r.t.Helper()
	dir := filepath.Join(r.dir, "seeds", "team")
	if err := os.Rename(dir, dir+".away"); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		r.t.Helper()
		if err := errors.Join(os.Remove(dir), os.Rename(dir+".away", dir)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// logLines receives each line of a log.
type logLines chan string

func (c logLines) Write(p []byte) (int, error) { c <- string(p); return len(p), nil }

func TestAStoreThatFailsIsWaitedForWithTheNewLoginInHand(t *testing.T) {
	r := newRefreshed(t)
	tries := make(logLines, 100)
	r.set = New(site.Deps{Store: r.store, Logger: slog.New(slog.NewTextHandler(tries, nil))})
	r.issuer.Fail(scriptedauth.Fault{Kind: "held"})
	ctx, cancel := context.WithCancel(t.Context())
	type end struct {
		out logins.RefreshSeedResult
		err error
	}
	ended := make(chan end, 1)
	go func() {
		out, err := logins.RefreshSeed(ctx, r.set.Login.Site, r.in)
		ended <- end{out, err}
	}()
	if err := r.issuer.AwaitHolding(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	mend := r.breakStore()
	cancel() // nobody waits for the result any more
	r.issuer.Release()
	if err := r.issuer.AwaitRequests(t.Context(), scriptedauth.EndpointToken, 1); err != nil {
		t.Fatal(err)
	}
	for range 2 { // two failed attempts at the store
		select {
		case e := <-ended:
			t.Fatalf("it gave up with a login in its hands: %+v, %v", e.out, e.err)
		case <-tries:
		}
	}
	mend()
	e := <-ended
	if e.err != nil {
		t.Fatal(e.err)
	}
	r.holds(e.out)
	r.usedOnce()
}

// A child is the input of another process that refreshes, and is killed.
type child struct {
	Dir, Identity string
	In            logins.RefreshSeedInput
}

const childVar = "FAIRLEAD_TEST_REFRESH"

func refreshInChild(text string) {
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	id, err := age.ParseX25519Identity(c.Identity)
	if err != nil {
		panic(err)
	}
	st, err := store.Open(context.Background(), store.Options{URL: "file://" + c.Dir, Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		panic(err)
	}
	if _, err := logins.RefreshSeed(context.Background(), New(site.Deps{Store: st}).Login.Site, c.In); err != nil {
		panic(err)
	}
}

func (r *refreshed) child() *exec.Cmd {
	r.t.Helper()
	text, err := json.Marshal(child{r.dir, r.id.String(), r.in})
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+string(text))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	return cmd
}

// If a refresh is killed at any step, the refresh token is never used twice and the
// login is never called dead. The login is lost only if the answer was on its way.
func TestAKilledRefreshIsTakenUpWhereItWas(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a refresh at each of its steps")
	}
	kill := func(r *refreshed, cmd *exec.Cmd) {
		r.t.Helper()
		if err := cmd.Process.Kill(); err != nil {
			r.t.Fatal(err)
		}
		_ = cmd.Wait() // killed
	}
	await := func(r *refreshed, err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
	}
	t.Run("before the issuer read it", func(t *testing.T) {
		r := newRefreshed(t)
		r.issuer.Fail(scriptedauth.Fault{Kind: "hang"})
		cmd := r.child()
		await(r, r.issuer.AwaitHolding(t.Context(), 1))
		kill(r, cmd)
		if out := r.refresh(); out.Verdict != "lost" {
			t.Errorf("%+v", out)
		}
		if r.issuer.Uses(r.login.Refresh) != 0 {
			t.Error("it was used")
		}
		r.in.Force = "word"
		r.holds(r.refresh())
		r.usedOnce()
	})
	t.Run("with the answer in flight", func(t *testing.T) {
		r := newRefreshed(t)
		r.issuer.Fail(scriptedauth.Fault{Kind: "held"})
		cmd := r.child()
		await(r, r.issuer.AwaitHolding(t.Context(), 1))
		kill(r, cmd)
		if out := r.refresh(); out.Verdict != "lost" {
			t.Errorf("%+v", out)
		}
		r.usedOnce()
	})
	t.Run("with the answer in hand and the store away", func(t *testing.T) {
		r := newRefreshed(t)
		r.issuer.Fail(scriptedauth.Fault{Kind: "held"})
		cmd := r.child()
		await(r, r.issuer.AwaitHolding(t.Context(), 1))
		mend := r.breakStore()
		r.issuer.Release()
		await(r, r.issuer.AwaitRequests(t.Context(), scriptedauth.EndpointToken, 1))
		kill(r, cmd)
		mend()
		if out := r.refresh(); out.Verdict != "lost" {
			t.Errorf("%+v", out)
		}
		r.usedOnce()
	})
	t.Run("with the new login in the store", func(t *testing.T) {
		r := newRefreshed(t)
		cmd := r.child()
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		out := r.refresh()
		r.holds(out)
		if out.Asked {
			t.Error("it was asked for again")
		}
		r.usedOnce()
	})
}

func TestVerifyingSpendsNothing(t *testing.T) {
	r := newRefreshed(t)
	out, err := logins.VerifySeed(t.Context(), r.set.Login.Site, logins.VerifySeedInput{Seed: r.in.Seed})
	if err != nil || out.Verdict != "fresh" || out.Until.Before(time.Now()) || !strings.Contains(out.Reason, "not asked") {
		t.Errorf("%+v, %v", out, err)
	}
	if n := len(r.issuer.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestIntentsGoWithTheirSeed(t *testing.T) {
	r := newRefreshed(t)
	r.issuer.Fail(scriptedauth.Fault{Kind: "lost"})
	r.refresh()
	if there, err := r.store.List(t.Context(), "refreshes/team/"); err != nil || len(there) != 1 {
		t.Fatalf("%v, %v", there, err)
	}
	if err := logins.DeleteSeed(t.Context(), r.set.Login.Site, logins.DeleteSeedInput{Name: "team", Blobs: []string{r.in.Seed.Blob}}); err != nil {
		t.Fatal(err)
	}
	if there, err := r.store.List(t.Context(), "refreshes/team/"); len(there) != 0 {
		t.Errorf("%v, %v", there, err)
	}
}
