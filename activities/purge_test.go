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
