package activities

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// If the store has no exclusive writes, two refreshes at once would both use the token.
func TestNoTokenIsUsedWhereTheStoreCannotKeepTwoFromIt(t *testing.T) {
	r := newRefreshed(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	backend := s3mem.New()
	if err := backend.CreateBucket("ours"); err != nil {
		t.Fatal(err)
	}
	s3 := gofakes3.New(backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		q.Header.Del("If-None-Match")
		s3.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	st, err := store.Open(t.Context(), store.Options{
		URL:        "s3://ours?region=us-east-1&use_path_style=true&disable_https=true&endpoint=" + server.URL,
		Recipients: []age.Recipient{r.id.Recipient()}, Identities: []age.Identity{r.id},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	b, err := seeds.Load(t.Context(), r.store, r.in.Seed.Blob)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := seeds.Save(t.Context(), st, "team", 1, b)
	if err != nil {
		t.Fatal(err)
	}
	r.in.Seed.Blob, r.set = ref.Blob, New(site.Deps{Store: st})
	for _, word := range []string{"", "a person says so"} {
		r.in.Force = word
		out := r.refresh()
		if out.Verdict != "unknown" || out.Asked || !strings.Contains(out.Reason, "If-None-Match") || !strings.Contains(out.Hint, "S3") {
			t.Errorf("with word %q: %+v", word, out)
		}
	}
	if n := len(r.issuer.Requests()); n != 0 {
		t.Errorf("its issuer was asked %d times", n)
	}
}
