package seeds

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKnownSecretsAreThoseOfTheFiles(t *testing.T) {
	b := pack(t, map[string]string{
		"auth.json": chatgptJSON("marked-refresh", "2026-11-01T00:00:00Z"),
		"config.toml": providerTOML + `
[model_providers.ours.http_headers]
Authorization = "Basic marked-header"
X-Team = "public-team-name"
[mcp_servers.x]
url = "https://user:marked-password@example.com/mcp"
bearer_token_env_var = "PUBLIC_VARIABLE"
[mcp_servers.y]
command = "/usr/bin/public-command"
env = { API_KEY = "marked-env-key", PATH = "/usr/bin:/public" }
short_token = "abc"
`})
	var got []string
	for _, s := range KnownSecrets(b) {
		got = append(got, s.Reveal())
	}
	for _, want := range []string{"marked-refresh", "marked-access-0123", "marked-bearer-0123", "Basic marked-header", "marked-header",
		"marked-password", "marked-env-key"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not known", want)
		}
	}
	for _, s := range got {
		if strings.Contains(strings.ToLower(s), "public") || s == "abc" || s == "acct-1" {
			t.Errorf("%q is no secret", s)
		}
	}
	if KnownSecrets(nil) != nil {
		t.Error("no bundle has secrets")
	}
}

func TestSecretsAreFoundInTheFormsInWhichTheyTravel(t *testing.T) {
	const secret = "s3cr\"et/+=&<key>\n\tmore"
	r := NewRedactor("team", []Secret{NewSecret(secret)})
	asJSON, err := json.Marshal(map[string]string{"k": "x" + secret})
	if err != nil {
		t.Fatal(err)
	}
	twice, err := json.Marshal(string(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	again := string(twice)
	for range 2 { // in a program's text, and in a line of the rollout
		more, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		again = string(more)
	}
	for name, text := range map[string]string{
		"JSON in JSON in JSON in JSON": again,
		"raw":                          "before " + secret + " after", "JSON": string(asJSON), "JSON in JSON": string(twice),
		"query": "http://h/?k=" + url.QueryEscape(secret), "path": "http://h/" + url.PathEscape(secret),
		"hex": hex.EncodeToString([]byte(secret)), "hex of JSON": hex.EncodeToString(asJSON),
		"b64 of JSON": base64.StdEncoding.EncodeToString(asJSON), "b64 of JSON, aligned 1": base64.URLEncoding.EncodeToString(append([]byte(" "), asJSON...)),
		"b64": base64.StdEncoding.EncodeToString([]byte(secret)), "b64url": base64.URLEncoding.EncodeToString([]byte("xx" + secret + "tail")),
		"b64 inside": base64.StdEncoding.EncodeToString([]byte("user:" + secret)), "b64 aligned 2": base64.StdEncoding.EncodeToString([]byte("u:::" + secret + "\n")),
	} {
		if got := r.String(text); !strings.Contains(got, "[redacted:team]") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := r.String("before " + secret + " after"); got != "before [redacted:team] after" {
		t.Errorf("got %q", got)
	}
	plain := []byte("nothing here")
	if got := r.Bytes(plain); &got[0] != &plain[0] {
		t.Error("a text without secrets was copied")
	}
}

func TestShortSecretsAreNotLookedFor(t *testing.T) {
	r := NewRedactor("s", []Secret{NewSecret("1234567"), NewSecret("")})
	if got := r.String("1234567"); got != "1234567" {
		t.Errorf("got %q", got)
	}
	for _, r := range []*Redactor{nil, {}} {
		if got := r.String("x") + string(r.Bytes([]byte("y"))) + string(r.Stream().Next([]byte("z"))); got != "xyz" || r.Stream().Flush() != nil {
			t.Errorf("got %q", got)
		}
	}
}

func TestRedactedErrorIsStillItself(t *testing.T) {
	r := NewRedactor("s", []Secret{NewSecret("marked-secret")})
	err := fmt.Errorf("open marked-secret: %w", fs.ErrNotExist)
	if got := r.Error(err); got.Error() != "open [redacted:s]: file does not exist" || !errors.Is(got, fs.ErrNotExist) {
		t.Errorf("got %v", got)
	}
	if r.Error(fs.ErrExist) != fs.ErrExist || r.Error(nil) != nil {
		t.Error("an error without secrets was changed")
	}
}

// TestPiecesGiveWhatTheWholeGives draws texts of few letters, so that secrets overlap,
// nest and begin within each other.
func TestPiecesGiveWhatTheWholeGives(t *testing.T) {
	letters := func(min, max int) *rapid.Generator[string] {
		return rapid.StringOfN(rapid.SampledFrom([]rune("ab")), min, max, -1)
	}
	rapid.Check(t, func(t *rapid.T) {
		var secrets []Secret
		for _, s := range rapid.SliceOfN(letters(MinSecret, 14), 1, 4).Draw(t, "secrets") {
			secrets = append(secrets, NewSecret(s))
		}
		r := NewRedactor("x", secrets)
		pieces := rapid.SliceOfN(letters(0, 20), 0, 8).Draw(t, "pieces")
		whole := strings.Join(pieces, "")
		var shown, masked bytes.Buffer
		s, m := r.Stream(), r.MaskStream()
		for _, p := range pieces {
			shown.Write(s.Next([]byte(p)))
			masked.Write(m.Next([]byte(p)))
		}
		shown.Write(s.Flush())
		masked.Write(m.Flush())
		if want := r.String(whole); shown.String() != want {
			t.Fatalf("pieces gave %q, the whole %q", shown.String(), want)
		}
		if got := naive(whole, secrets); r.String(whole) != got {
			t.Fatalf("%q; a plain search gives %q", r.String(whole), got)
		}
		if masked.Len() != len(whole) || s.Count() != m.Count() || s.Count() != strings.Count(shown.String(), "[redacted:x]") {
			t.Fatalf("masked %q of %q, counted %d and %d", masked.String(), whole, s.Count(), m.Count())
		}
		for i := range len(whole) {
			if c := masked.String()[i]; c != whole[i] && c != '*' {
				t.Fatalf("byte %d became %q", i, c)
			}
		}
	})
}

// naive redacts by trying every secret at every offset.
func naive(text string, secrets []Secret) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		longest := 0
		for _, s := range secrets {
			if strings.HasPrefix(text[i:], s.Reveal()) {
				longest = max(longest, len(s.Reveal()))
			}
		}
		if longest == 0 {
			out.WriteByte(text[i])
			i++
			continue
		}
		out.WriteString("[redacted:x]")
		i += longest
	}
	return out.String()
}

func TestStreamHoldsBackOnlyWhatMayBeASecret(t *testing.T) {
	s := NewRedactor("x", []Secret{NewSecret("marked-secret")}).Stream()
	var got []string
	for _, p := range []string{"hello ", "world mar", "k it, ", "mark", "ed-sec", "ret!"} {
		got = append(got, string(s.Next([]byte(p))))
	}
	want := []string{"hello ", "world ", "mark it, ", "", "", "[redacted:x]!"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

func BenchmarkRedact(b *testing.B) {
	bundle := &Bundle{files: []file{{path: authFile, data: []byte(chatgptJSON(strings.Repeat("refresh", 20), "2026-11-01T00:00:00Z"))}}}
	s := NewRedactor("x", append(KnownSecrets(bundle), NewSecret(strings.Repeat("eyJhbGci", 200)))).MaskStream()
	text := bytes.Repeat([]byte(`{"timestamp":"2026-11-21T09:45:03Z","type":"response_item","payload":{"text":"some words"}}`), 700)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.Next(text)
	}
}
