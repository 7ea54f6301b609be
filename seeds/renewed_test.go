package seeds

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/store"
)

// A new refresh token is kept, even if the other fields of the answer are damaged.
// Those are left out.
func TestANewRefreshTokenIsKeptWhateverComesBesideIt(t *testing.T) {
	id := "h." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"new"}`)) + ".s"
	for name, c := range map[string]struct {
		answer  string
		cut     bool   // the answer is shorter than announced
		changed string // which of the three tokens changed
		verdict Verdict
	}{
		"all":                        {answer: `{"id_token":"` + id + `","access_token":"new-a","refresh_token":"new-r"}`, changed: "id access refresh", verdict: VerdictAlive},
		"no access token":            {answer: `{"refresh_token":"new-r"}`, changed: "refresh", verdict: VerdictAlive},
		"a null":                     {answer: `{"access_token":null,"refresh_token":"new-r"}`, changed: "refresh", verdict: VerdictAlive},
		"an id that is no JWT":       {answer: `{"id_token":"garbage","access_token":"new-a","refresh_token":"new-r"}`, changed: "access refresh", verdict: VerdictAlive},
		"an access token of an odd":  {answer: `{"access_token":{"v":1},"refresh_token":"new-r"}`, changed: "refresh", verdict: VerdictAlive},
		"cut behind it":              {answer: `{"refresh_token":"new-r","access_token":"new-`, cut: true, changed: "refresh", verdict: VerdictAlive},
		"cut within it":              {answer: `{"access_token":"new-a","refresh_token":"new-`, cut: true, verdict: VerdictLost},
		"cut within it, and whole":   {answer: `{"access_token":"new-a","refresh_token":"new-`, verdict: VerdictLost},
		"cut before it, and whole":   {answer: `{"access_token":"new-a",`, verdict: VerdictLost},
		"a refresh token of no use":  {answer: `{"access_token":"new-a","refresh_token":"two words"}`, verdict: VerdictLost},
		"a refresh token of an odd":  {answer: `{"access_token":"new-a","refresh_token":7}`, verdict: VerdictLost},
		"the old one stays":          {answer: `{"access_token":"new-a"}`, changed: "access", verdict: VerdictAlive},
		"nothing":                    {answer: `{}`, verdict: VerdictLost},
		"tokens of something else":   {answer: `{"tokens":{"refresh_token":"new-r"}}`, verdict: VerdictLost},
		"no object":                  {answer: `["refresh_token","new-r"]`, verdict: VerdictLost},
		"no access token, id broken": {answer: `{"id_token":7,"refresh_token":"new-r"}`, changed: "refresh", verdict: VerdictAlive},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.cut {
					w.Header().Set("Content-Length", fmt.Sprint(len(c.answer)+100))
				}
				_, _ = io.WriteString(w, c.answer)
			}))
			defer s.Close()
			b := loginBundle(t, scriptedauth.Serve(t).Login(scriptedauth.Account{}))
			answer, next := Issuer{TokenURL: s.URL}.Refresh(t.Context(), b)
			if answer.Verdict != c.verdict || (next != nil) != (c.verdict == VerdictAlive) {
				t.Fatalf("%+v", answer)
			}
			if next == nil {
				return
			}
			var was, is struct{ Tokens map[string]any }
			if err := json.Unmarshal(b.Auth(), &was); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(next.Auth(), &is); err != nil {
				t.Fatal(err)
			}
			var changed []string
			for _, key := range []string{"id", "access", "refresh"} {
				if was.Tokens[key+"_token"] != is.Tokens[key+"_token"] {
					changed = append(changed, key)
				}
			}
			if got := strings.Join(changed, " "); got != c.changed {
				t.Errorf("%s changed, want %s", got, c.changed)
			}
		})
	}
}

// An intent belongs to the call whose text is in it. The result of the write does not
// decide this.
func TestAnIntentIsToldByWhatItHolds(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{URL: "file://" + filepath.Join(t.TempDir(), "store"),
		Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for i, c := range []struct {
		there string
		said  error
		ours  bool
		fails bool
	}{
		{there: "mine", ours: true},
		{there: "mine", said: store.ErrExists, ours: true},      // an earlier try got no answer
		{there: "mine", said: store.ErrUnreachable, ours: true}, // this try got a wrong error
		{there: "theirs", said: store.ErrExists},
		{there: "theirs", said: store.ErrUnreachable, fails: true},
		{said: store.ErrUnreachable, fails: true},
		{said: store.ErrExists, fails: true}, // it was withdrawn
	} {
		key := fmt.Sprintf("refreshes/team/%d", i)
		if c.there != "" {
			if err := st.Put(t.Context(), key, []byte(c.there)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := intended(t.Context(), st, "team", key, "mine", c.said)
		if (got != nil) != c.ours || (err != nil) != c.fails {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
		if there, _ := st.Exists(t.Context(), key); there != (c.there != "") {
			t.Errorf("%+v: it is there: %v", c, there)
		}
	}
}
