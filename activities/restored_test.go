package activities

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// rotate refreshes the login at ref as RefreshSeed does, and returns the next generation.
func (r *refreshed) rotate(ref protocol.SeedRef) protocol.SeedRef {
	r.t.Helper()
	out, err := logins.RefreshSeed(r.t.Context(), r.set.Login.Site, logins.RefreshSeedInput{Seed: ref})
	if err != nil || out.Saved == nil {
		r.t.Fatalf("refresh: %+v, %v", out, err)
	}
	return *out.Saved
}

// onHost stores the login after ref, refreshed by codex on a host: the store does not tell from
// which login it was made.
func (r *refreshed) onHost(ref protocol.SeedRef) protocol.SeedRef {
	r.t.Helper()
	b, err := seeds.Load(r.t.Context(), r.store, ref.Blob)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, next := seeds.Issuer{TokenURL: r.issuer.TokenEndpoint()}.Refresh(r.t.Context(), b)
	if answer.Verdict != seeds.VerdictAlive {
		r.t.Fatalf("refresh: %+v", answer)
	}
	saved, err := seeds.SaveAgain(r.t.Context(), r.store, ref.Name, ref.Generation+1, next)
	if err != nil {
		r.t.Fatal(err)
	}
	return protocol.SeedRef{Name: saved.Name, Generation: saved.Generation, Blob: saved.Blob, Digest: saved.Digest, Kind: string(saved.Kind)}
}

// A desk of Temporal after a restore: it knows one seed, at an old generation.
type restoredDesk struct {
	now     inquiry.SeedNow
	adopted []inquiry.AdoptSeed
}

func (d *restoredDesk) Seeds(context.Context) ([]string, error) { return []string{"team"}, nil }
func (d *restoredDesk) Sessions(context.Context) (int, error)   { return 3, nil }
func (d *restoredDesk) Adopt(_ context.Context, seed string, in inquiry.AdoptSeed) (inquiry.SeedNow, error) {
	d.adopted = append(d.adopted, in)
	return d.now, nil
}

// recovers reconciles with a Temporal that knows ref as the newest generation of seed team.
func (r *refreshed) recovers(ref protocol.SeedRef, look bool) (protocol.RecoveredSeed, *restoredDesk) {
	r.t.Helper()
	b, err := seeds.Load(r.t.Context(), r.store, ref.Blob)
	if err != nil {
		r.t.Fatal(err)
	}
	d := &restoredDesk{now: inquiry.SeedNow{Generation: ref.Generation, Auth: seeds.AuthDigest(b.Auth()), Ref: &ref, Settled: r.settled}}
	s := r.set.Login.Site
	s.Restored = d
	s.Ask = func(_ context.Context, name string) (inquiry.SeedNow, bool, error) { return d.now, name == "team", nil }
	out, err := logins.RecoverSeeds(r.t.Context(), s, protocol.RecoverInput{DryRun: look})
	if err != nil || len(out.Seeds) != 1 || out.Sessions != 3 || out.Seeds[0].Problem != "" {
		r.t.Fatalf("recover: %+v, %v", out, err)
	}
	if look && len(d.adopted) > 0 || !look && len(d.adopted) != 1 {
		r.t.Fatalf("look %v: the seed was told %+v", look, d.adopted)
	}
	return out.Seeds[0], d
}

func TestATokenOfWhichTheStoreHasALaterLoginIsNotUsed(t *testing.T) {
	for name, rotate := range map[string]func(*refreshed, protocol.SeedRef) protocol.SeedRef{
		"refreshed by workers": (*refreshed).rotate, "refreshed by codex on hosts": (*refreshed).onHost,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRefreshed(t)
			at := r.in.Seed
			for range 3 {
				at = rotate(r, at)
			}
			for _, force := range []string{"", "a person"} {
				r.in.Force = force
				if out := r.refresh(); out.Verdict != string(seeds.VerdictLost) || out.Asked || !strings.Contains(out.Reason, "the store has generation 4") || !strings.Contains(out.Hint, "ctl recover") {
					t.Errorf("forced %q: %+v", force, out)
				}
			}
			r.usedOnce()
			r.in.Seed, r.in.Force = at, ""
			if out := r.refresh(); out.Verdict != string(seeds.VerdictAlive) || !out.Asked {
				t.Errorf("the newest: %+v", out)
			}
			r.usedOnce()
		})
	}
}

// A later generation that cannot be read may have been made from the seed's login. The login is then
// neither planted nor refreshed, unless a person says so. A login that codex has made from it on a host
// stays there.
func TestALoginIsNotUsedWhileALaterOneCannotBeRead(t *testing.T) {
	r := newRefreshed(t)
	first := r.in.Seed
	b, err := seeds.Load(t.Context(), r.store, first.Blob)
	if err != nil {
		t.Fatal(err)
	}
	unreadable, err := seeds.Save(t.Context(), r.store, first.Name, 2, b)
	if err != nil {
		t.Fatal(err)
	}
	r.damage(unreadable.Blob)
	s := r.set.Login.Site
	s.Ask = func(context.Context, string) (inquiry.SeedNow, bool, error) {
		return inquiry.SeedNow{Settled: r.settled}, true, nil
	}
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() { _ = pool.Close() })
	h, err := pool.Host(protocol.HostSpec{Name: protocol.LocalHost})
	if err != nil {
		t.Fatal(err)
	}
	plants := func(there []byte, may bool) {
		t.Helper()
		home := t.TempDir()
		if there != nil {
			if err := os.WriteFile(filepath.Join(home, "auth.json"), there, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := logins.CheckNewest(t.Context(), s, h, home, &first, b)
		var typed *kit.TypedError
		switch {
		case may && err != nil:
			t.Errorf("it is not planted: %v", err)
		case !may && (!errors.As(err, &typed) || typed.Kind != protocol.ErrTypeSeedBehind || !strings.Contains(err.Error(), "generation 2, which the store has: it cannot be read")):
			t.Errorf("it is planted: %v", err)
		}
	}
	plants(nil, false)
	plants(b.Auth(), false)
	if out := r.refresh(); out.Verdict != string(seeds.VerdictLost) || out.Asked || !strings.Contains(out.Reason, "it cannot be read") {
		t.Errorf("a refresh: %+v", out)
	}
	r.in.Force = "a person"
	out := r.refresh()
	if out.Verdict != string(seeds.VerdictAlive) || !out.Asked {
		t.Fatalf("a forced refresh: %+v", out)
	}
	later, err := seeds.Load(t.Context(), r.store, out.Saved.Blob)
	if err == nil {
		err = seeds.Delete(t.Context(), r.store, out.Saved.Blob)
	}
	if err != nil {
		t.Fatal(err)
	}
	plants(later.Auth(), true)
	r.settled = time.Now().Add(time.Hour)
	plants(nil, true)
	r.usedOnce()
}

// A seed may get the name of a deleted one, whose blobs the store still has. They hold back nothing.
func TestALoginOfADeletedSeedOfTheSameNameDoesNotCount(t *testing.T) {
	r := newRefreshed(t)
	of := r.rotate(r.in.Seed)
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(r.dir, filepath.FromSlash(of.Blob)), before, before); err != nil {
		t.Fatal(err)
	}
	if row, d := r.recovers(r.in.Seed, false); row.Action != protocol.RecoverNothing || row.Suspect || d.adopted[0].Ref != nil {
		t.Errorf("recover: %+v, %+v", row, d.adopted)
	}
	if out := r.refresh(); out.Verdict == string(seeds.VerdictLost) {
		t.Errorf("a refresh: %+v", out)
	}
}

func TestTheNewestLoginInTheStoreIsAdopted(t *testing.T) {
	r := newRefreshed(t)
	first := r.in.Seed
	if row, d := r.recovers(first, false); row.Action != protocol.RecoverNothing || !row.Done || row.Suspect || d.adopted[0].Ref != nil {
		t.Errorf("with nothing newer: %+v, %+v", row, d.adopted)
	}
	second := r.rotate(first)
	third := r.onHost(second)
	newest := r.rotate(third)
	if row, _ := r.recovers(first, true); row.Action != protocol.RecoverAdopt || row.Adopts != 4 || row.Becomes != 4 || row.Stored != 4 || row.Done || row.Suspect {
		t.Errorf("a look: %+v", row)
	}
	row, d := r.recovers(first, false)
	if in := d.adopted[0]; !row.Done || in.Ref == nil || in.Ref.Blob != newest.Blob || in.Highest != 4 || in.Generation != 1 || in.Auth != d.now.Auth || len(in.Former) != 2 || in.Doubt != "" {
		t.Errorf("adopted %+v as %+v", row, d.adopted)
	}
	if row, _ := r.recovers(newest, false); row.Action != protocol.RecoverNothing {
		t.Errorf("the newest: %+v", row)
	}
	r.usedOnce()
}

func TestASeedIsSuspectIfALaterLoginMayExist(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*refreshed, protocol.SeedRef)
		says    string
		adopts  int64
	}{
		"the newest cannot be read": {func(r *refreshed, second protocol.SeedRef) {
			r.damage(r.onHost(second).Blob)
		}, "generation 3, which the store has: it cannot be read", 2},
		"a refresh has no answer": {func(r *refreshed, second protocol.SeedRef) {
			r.issuer.Fail(scriptedauth.Fault{Kind: "lost"})
			r.refreshes(second)
		}, "the store has no answer", 2},
		"somebody imported another login": {func(r *refreshed, second protocol.SeedRef) {
			r.imports(r.issuer.Login(scriptedauth.Account{ID: "acct-another"}))
		}, "somebody imported a login", 2},
		"the seed was refreshed after such an import": {func(r *refreshed, second protocol.SeedRef) {
			other := r.imports(r.issuer.Login(scriptedauth.Account{ID: "acct-another"}))
			other.Generation = 3
			r.onHost(other)
		}, "generation 4, which the store has: it is a login of another account", 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRefreshed(t)
			test.happens(r, r.onHost(r.in.Seed))
			row, d := r.recovers(r.in.Seed, false)
			if !row.Suspect || !row.Done || row.Adopts != test.adopts || !strings.Contains(row.Reason, test.says) || row.Hint == "" || d.adopted[0].Doubt != row.Reason {
				t.Errorf("%+v; the seed was told %+v", row, d.adopted)
			}
			r.settled = time.Now().Add(time.Hour)
			row, d = r.recovers(r.in.Seed, false)
			if row.Suspect || row.Adopts != test.adopts || d.adopted[0].Doubt != "" {
				t.Errorf("after a person revived the seed: %+v; the seed was told %+v", row, d.adopted)
			}
			r.settled = time.Now().Add(-time.Hour)
			if row, d = r.recovers(r.in.Seed, false); !row.Suspect || d.adopted[0].Doubt == "" {
				t.Errorf("after a person revived the seed earlier: %+v; the seed was told %+v", row, d.adopted)
			}
			r.usedOnce()
		})
	}
}

func TestASeedWhoseLoginIsNotInTheStoreIsSuspect(t *testing.T) {
	r := newRefreshed(t)
	second := r.rotate(r.in.Seed)
	b, err := seeds.Load(t.Context(), r.store, second.Blob)
	if err != nil {
		t.Fatal(err)
	}
	if err := seeds.Delete(t.Context(), r.store, second.Blob); err != nil {
		t.Fatal(err)
	}
	d := &restoredDesk{now: inquiry.SeedNow{Generation: 2, Auth: seeds.AuthDigest(b.Auth()), Ref: &second}}
	s := r.set.Login.Site
	s.Restored = d
	s.Ask = func(context.Context, string) (inquiry.SeedNow, bool, error) { return d.now, true, nil }
	out, err := logins.RecoverSeeds(t.Context(), s, protocol.RecoverInput{})
	if err != nil || len(out.Seeds) != 1 || out.Seeds[0].Action != protocol.RecoverSuspect || out.Due != 1 || out.Doubtful != 1 || d.adopted[0].Ref != nil || d.adopted[0].Doubt == "" {
		t.Errorf("recover: %+v, %v; the seed was told %+v", out, err, d.adopted)
	}
}

func TestASeedThatTemporalDoesNotKnowIsNamed(t *testing.T) {
	r := newRefreshed(t)
	s := r.set.Login.Site
	for _, of := range []struct {
		now    inquiry.SeedNow
		known  bool
		reason string
	}{
		{reason: "Temporal does not know it"},
		{inquiry.SeedNow{Generation: 1, Ref: &protocol.SeedRef{Name: "team", Generation: 1}, Deleted: true}, true, "it was deleted"},
	} {
		d := &restoredDesk{}
		s.Restored = d
		s.Ask = func(context.Context, string) (inquiry.SeedNow, bool, error) { return of.now, of.known, nil }
		out, err := logins.RecoverSeeds(t.Context(), s, protocol.RecoverInput{})
		if err != nil || len(out.Seeds) != 1 || out.Seeds[0].Name != "team" || out.Seeds[0].Action != protocol.RecoverAbsent || !strings.Contains(out.Seeds[0].Reason, of.reason) ||
			out.Due != 0 || out.Failed != 0 || len(d.adopted) > 0 {
			t.Errorf("%s: recover: %+v, %v; told %+v", of.reason, out, err, d.adopted)
		}
	}
}

// refreshes refreshes a login whatever comes of it.
func (r *refreshed) refreshes(ref protocol.SeedRef) {
	r.t.Helper()
	if _, err := logins.RefreshSeed(r.t.Context(), r.set.Login.Site, logins.RefreshSeedInput{Seed: ref}); err != nil {
		r.t.Fatal(err)
	}
}

// damage overwrites a blob with what nobody can read.
func (r *refreshed) damage(blob string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, filepath.FromSlash(blob)), []byte("damaged"), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// imports stores a login as an import does.
func (r *refreshed) imports(l scriptedauth.Login) protocol.SeedRef {
	r.t.Helper()
	home := r.t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "auth.json"), l.AuthJSON(), 0o600); err != nil {
		r.t.Fatal(err)
	}
	b, err := seeds.Pack(home)
	if err != nil {
		r.t.Fatal(err)
	}
	ref, err := seeds.Save(r.t.Context(), r.store, "team", 0, b)
	if err != nil {
		r.t.Fatal(err)
	}
	// Some file systems give two files that are written at once the same time.
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(filepath.Join(r.dir, filepath.FromSlash(ref.Blob)), later, later); err != nil {
		r.t.Fatal(err)
	}
	return protocol.SeedRef{Name: ref.Name, Blob: ref.Blob, Digest: ref.Digest, Kind: string(ref.Kind)}
}
