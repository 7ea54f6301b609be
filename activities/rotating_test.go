package activities

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// login returns the auth.json of a ChatGPT login after n refreshes. Its tokens are
// made up and must not appear anywhere.
func login(account string, n int) string {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Hour)
	jwt := func(what string) string {
		claims, err := json.Marshal(map[string]any{"iat": at.Unix(), "exp": at.Add(240 * time.Hour).Unix(), "what": what + "-" + account,
			"https://api.openai.com/auth": map[string]string{"chatgpt_account_id": account, "chatgpt_plan_type": "team"}})
		if err != nil {
			panic(err)
		}
		enc := base64.RawURLEncoding
		return enc.EncodeToString([]byte(`{"alg":"none"}`)) + "." + enc.EncodeToString(claims) + "." + enc.EncodeToString(fmt.Appendf(nil, "sig-%s-%d", what, n))
	}
	return fmt.Sprintf(`{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":{"id_token":%q,"access_token":%q,"refresh_token":%q,"account_id":%q},"last_refresh":%q}`,
		jwt("id"), jwt("access"), refreshToken(account, n), account, at.Format(time.RFC3339Nano))
}

func refreshToken(account string, n int) string {
	return fmt.Sprintf("rt-made-up-%s-%06d-6Hq2", account, n)
}

// rotating saves a seed of kind chatgpt that talks to the model, held under an epoch.
func (b *bed) rotating(model *scriptedmodel.Server, name string, epoch int64) *protocol.SeedRef {
	b.t.Helper()
	dir := b.t.TempDir()
	config := ""
	if model != nil {
		config = scriptedmodel.ConfigTOML(model.BaseURL(), "token-"+madeUpKey)
	}
	for file, text := range map[string]string{"auth.json": login("acct-1", 0), "config.toml": config, "AGENTS.md": "Be kind.\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	bundle, err := seeds.Pack(dir)
	if err != nil {
		b.t.Fatal(err)
	}
	ref, err := seeds.Save(b.t.Context(), b.store, name, 1, bundle)
	if err != nil {
		b.t.Fatal(err)
	}
	return &protocol.SeedRef{Name: ref.Name, Generation: ref.Generation, Blob: ref.Blob, Digest: ref.Digest, Kind: string(ref.Kind), Epoch: epoch}
}

// rewrite changes auth.json on the host as codex does: in place.
func (k *talk) rewrite(text string) {
	k.t.Helper()
	k.sh(`printf %s "$2" >"$1/auth.json"`, k.layout.CodexHome, text)
}

// replace writes a temporary file and renames it to auth.json, as other programs do.
func (k *talk) replace(text string) {
	k.t.Helper()
	err := hostexec.WriteFile(k.t.Context(), k.host(), path.Join(k.layout.CodexHome, "auth.json"), []byte(text), 0o600, nil)
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) authOnHost() string {
	k.t.Helper()
	return k.sh(`cat "$1/auth.json" 2>/dev/null || :`, k.layout.CodexHome)
}

func (b *bed) authIn(ref *protocol.SeedRef) string {
	b.t.Helper()
	got, err := b.set.site.Bundle(b.t.Context(), ref)
	if err != nil {
		b.t.Fatal(err)
	}
	if string(got.File("AGENTS.md")) != "Be kind.\n" {
		b.t.Errorf("generation %d lost its other files: %v", ref.Generation, got.Manifest().Files)
	}
	return string(got.Auth())
}

func noToken(t *testing.T, what, text string) {
	t.Helper()
	if strings.Contains(text, "rt-made-up") || strings.Contains(text, base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))+".") {
		t.Errorf("%s holds a token: %s", what, text)
	}
}
