package activities

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/seeds"
)

// A bundle of an import that the seed's workflow refused is still in the store.
func TestAPurgeTakesImportsThatWereRefusedAndLeavesThoseToCome(t *testing.T) {
	r := newRefreshed(t)
	b, err := seeds.Load(t.Context(), r.store, r.in.Seed.Blob)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := seeds.Save(t.Context(), r.store, "team", 0, b); err != nil {
		t.Fatal(err)
	}
	if _, err := seeds.Save(t.Context(), r.store, "team.two", 0, b); err != nil {
		t.Fatal(err)
	}
	left := func(name string, deleted time.Time) int {
		t.Helper()
		if err := logins.DeleteSeed(t.Context(), r.set.Login.Site, logins.DeleteSeedInput{Name: "team", Blobs: []string{r.in.Seed.Blob}, Before: deleted}); err != nil {
			t.Fatal(err)
		}
		there, err := r.store.List(t.Context(), "seeds/"+name+"/")
		if err != nil {
			t.Fatal(err)
		}
		return len(there)
	}
	if n := left("team", time.Now().Add(-time.Minute)); n != 1 {
		t.Errorf("%d are there of an import that came after the seed was deleted", n)
	}
	if n := left("team", time.Now().Add(time.Minute)); n != 0 {
		t.Errorf("%d are left of a seed that was purged", n)
	}
	if n := left("team.two", time.Now().Add(time.Minute)); n != 1 {
		t.Errorf("%d are there of another seed", n)
	}
}

// Who may write one seed names the blobs of its generations.
func TestASeedReachesNoBlobButItsOwn(t *testing.T) {
	r := newRefreshed(t)
	b, err := seeds.Load(t.Context(), r.store, r.in.Seed.Blob)
	if err != nil {
		t.Fatal(err)
	}
	other, err := seeds.Save(t.Context(), r.store, "other", 1, b)
	if err != nil {
		t.Fatal(err)
	}
	const ended = "api-tokens/ci/revoked"
	if err := r.store.Create(t.Context(), ended, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	ref := r.in.Seed
	ref.Blob, ref.Digest = other.Blob, other.Digest
	if got, err := r.set.site.Bundle(t.Context(), &ref); err == nil || got != nil {
		t.Errorf("seed team is read from %s", ref.Blob)
	}
	if _, err := r.set.site.Bundle(t.Context(), &r.in.Seed); err != nil {
		t.Error(err)
	}
	in := logins.DeleteSeedInput{Name: "team", Blobs: []string{r.in.Seed.Blob, other.Blob, ended}, Before: time.Now().Add(time.Minute)}
	if err := logins.DeleteSeed(t.Context(), r.set.Login.Site, in); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{r.in.Seed.Blob: false, other.Blob: true, ended: true} {
		if _, err := r.store.Get(t.Context(), key); (err == nil) != want {
			t.Errorf("after the purge of team, %s: %v", key, err)
		}
	}
}
