package seeds

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const apiKeyJSON = `{"auth_mode":"apikey","OPENAI_API_KEY":"sk-marked-0123456789"}`

func chatgptJSON(refresh, at string) string {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"email":"a@example.com"}`))
	return fmt.Sprintf(`{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":{"id_token":"e30.%s.c2ln","access_token":"marked-access-0123",`+
		`"refresh_token":%q,"account_id":"acct-1"},"last_refresh":%q}`, claims, refresh, at)
}

const providerTOML = `model = "gpt-5.5"
model_provider = "ours"
[model_providers.ours]
name = "ours"
base_url = "http://127.0.0.1:9/v1"
experimental_bearer_token = "marked-bearer-0123"
`

// folder makes a folder of files. A name that ends in a slash is a folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func pack(t *testing.T, files map[string]string) *Bundle {
	t.Helper()
	b, err := Pack(folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPackKnowsTheKind(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		kind  Kind
	}{
		"api key":           {map[string]string{"auth.json": apiKeyJSON}, KindAPIKey},
		"old api key":       {map[string]string{"auth.json": `{"OPENAI_API_KEY":"sk-0123456789"}`}, KindAPIKey},
		"chatgpt":           {map[string]string{"auth.json": chatgptJSON("r-1", "2026-11-01T00:00:00.123456789Z")}, KindChatGPT},
		"access token":      {map[string]string{"auth.json": `{"auth_mode":"personalAccessToken","personal_access_token":"at-0123456789"}`}, KindAccessToken},
		"provider":          {map[string]string{"config.toml": providerTOML}, KindProvider},
		"built-in provider": {map[string]string{"config.toml": "model_provider = 'ollama'\n"}, KindProvider},
		"key and provider":  {map[string]string{"auth.json": apiKeyJSON, "config.toml": providerTOML}, KindAPIKey},
	} {
		if got := pack(t, c.files).Kind(); got != c.kind {
			t.Errorf("%s: kind %s; want %s", name, got, c.kind)
		}
	}
}

func TestPackRefusesWhatWouldFailLater(t *testing.T) {
	tokens := func(id, access, refresh string) string {
		return fmt.Sprintf(`{"auth_mode":"chatgpt","tokens":{"id_token":%q,"access_token":%q,"refresh_token":%q}}`, id, access, refresh)
	}
	for name, c := range map[string]struct {
		auth, config string
		want         string
	}{
		"nothing at all":       {"", "", "neither auth.json nor a model provider"},
		"config of no one":     {"", "model = 'x'\n", "neither auth.json nor a model provider"},
		"empty":                {" \n", "", "auth.json is empty"},
		"logged out":           {"{}", "", "logged out"},
		"logged out by mode":   {`{"auth_mode":"chatgpt","tokens":null}`, "", "logged out"},
		"key is null":          {`{"auth_mode":"apikey","OPENAI_API_KEY":null}`, "", "logged out"},
		"key is empty":         {`{"auth_mode":"apikey","OPENAI_API_KEY":""}`, "", "OPENAI_API_KEY is empty"},
		"key with a newline":   {`{"OPENAI_API_KEY":"sk-marked\n"}`, "", "line break"},
		"half written":         {apiKeyJSON[:40], "", "half written"},
		"no JSON":              {"sk-marked-0123456789", "", "not JSON at byte"},
		"an array":             {`["sk-marked"]`, "", "malformed"},
		"key is an object":     {`{"OPENAI_API_KEY":{"a":"sk-marked"}}`, "", "OPENAI_API_KEY should not be a object"},
		"two objects":          {apiKeyJSON + apiKeyJSON, "", "something follows"},
		"no refresh token":     {tokens("e30.e30.c2ln", "marked-access", ""), "", "refresh_token is empty"},
		"no access token":      {tokens("e30.e30.c2ln", "", "r"), "", "access_token is empty"},
		"id token cut":         {tokens("e30.e30", "a", "r"), "", "not a JWT"},
		"id token torn":        {tokens("e30.e30e.c2ln", "a", "r"), "", "cannot be read"},
		"no time":              {chatgptJSON("r-1", "yesterday"), "", "last_refresh"},
		"unknown mode":         {`{"auth_mode":"agentIdentity"}`, "", `auth_mode "agentIdentity"`},
		"mode with a secret":   {`{"auth_mode":"sk-marked-0123456789"}`, "", "invalid auth_mode"},
		"broken config":        {apiKeyJSON, "a = 'marked-secret\n", "not valid TOML at line 1"},
		"provider not defined": {"", "model_provider = 'x'\n", "defines no"},
		"provider with no URL": {"", "model_provider = 'x'\n[model_providers.x]\nname='x'\n", "has no base_url"},
		"key in environment": {"", "model_provider = 'x'\n[model_providers.x]\nname='x'\nbase_url='http://h'\nenv_key='MYKEY'\n",
			"experimental_bearer_token"},
	} {
		files := map[string]string{}
		if c.auth != "" {
			files["auth.json"] = c.auth
		}
		if c.config != "" {
			files["config.toml"] = c.config
		}
		_, err := Pack(folder(t, files))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want …%s…", name, err, c.want)
		} else if strings.Contains(err.Error(), "marked") {
			t.Errorf("%s: the error shows a secret: %v", name, err)
		}
	}
}

func TestPackListsWhatItLeaves(t *testing.T) {
	dir := folder(t, map[string]string{
		"auth.json": apiKeyJSON, "config.toml": providerTOML, "AGENTS.md": "be kind", "rules/default.rules": "r",
		"skills/mine/SKILL.md": "s", "skills/mine/run.sh": "#!/bin/sh\n", "skills/.system/x/SKILL.md": "codex's own",
		"prompts/p.md": "p", "sessions/2026/r.jsonl": "rollout", "history.jsonl": "h", "auth.json.lock": "",
	})
	if err := os.Chmod(filepath.Join(dir, "skills/mine/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("AGENTS.md", filepath.Join(dir, "AGENTS.override.md")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "prompts/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := Pack(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"auth.json.lock", "history.jsonl", "prompts/fifo", "sessions/", "skills/.system/"}; !slices.Equal(b.Ignored(), want) {
		t.Errorf("ignored %v; want %v", b.Ignored(), want)
	}
	var got []string
	for _, f := range b.Manifest().Files {
		got = append(got, f.Mode+" "+f.Path)
	}
	want := []string{"0600 AGENTS.md", "0600 AGENTS.override.md", "0600 auth.json", "0600 config.toml", "0600 prompts/p.md",
		"0600 rules/default.rules", "0600 skills/mine/SKILL.md", "0700 skills/mine/run.sh"}
	if !slices.Equal(got, want) {
		t.Errorf("packed %v; want %v", got, want)
	}
	if string(b.File("AGENTS.override.md")) != "be kind" {
		t.Errorf("the link gave %q", b.File("AGENTS.override.md"))
	}
}

func TestPackRefusesLinksThatLeave(t *testing.T) {
	outside := filepath.Join(folder(t, map[string]string{"passwd": "marked-secret"}), "passwd")
	for _, name := range []string{"auth.json", "skills/x"} {
		for _, target := range []string{outside, "../" + filepath.Base(filepath.Dir(outside)) + "/passwd", "nowhere"} {
			dir := folder(t, map[string]string{"config.toml": providerTOML, "skills/other": "x"})
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if _, err := Pack(dir); err == nil || !strings.Contains(err.Error(), name+" is a symbolic link") {
				t.Errorf("%s -> %s: %v", name, target, err)
			}
		}
	}
}

func TestPackRefusesTooMuch(t *testing.T) {
	big := strings.Repeat("x", maxFile+1)
	if _, err := Pack(folder(t, map[string]string{"auth.json": apiKeyJSON, "skills/big": big})); err == nil || !strings.Contains(err.Error(), "skills/big is larger") {
		t.Errorf("one large file: %v", err)
	}
	files := map[string]string{"auth.json": apiKeyJSON}
	for i := range 9 {
		files[fmt.Sprintf("skills/%d", i)] = big[1:]
	}
	if _, err := Pack(folder(t, files)); err == nil || !strings.Contains(err.Error(), "too much for a seed") {
		t.Errorf("36 MiB: %v", err)
	}
	files = map[string]string{"auth.json": apiKeyJSON}
	for i := range maxFiles {
		files[fmt.Sprintf("rules/%d", i)] = ""
	}
	if _, err := Pack(folder(t, files)); err == nil || !strings.Contains(err.Error(), "too many for a seed") {
		t.Errorf("many files: %v", err)
	}
}

func TestBundleIsTheSameEachTimeAndShowsNothing(t *testing.T) {
	files := map[string]string{"auth.json": apiKeyJSON, "config.toml": providerTOML, "rules/a": "a"}
	a, b := pack(t, files), pack(t, files)
	if string(a.Bytes()) != string(b.Bytes()) || a.Manifest().Digest() != b.Manifest().Digest() {
		t.Error("the same files made two bundles")
	}
	again, err := Unpack(a.Bytes())
	if err != nil || again.Manifest().Digest() != a.Manifest().Digest() || again.Kind() != KindAPIKey {
		t.Errorf("unpacked %v, %v", again, err)
	}
	files["rules/a"] = "b"
	if pack(t, files).Manifest().Digest() == a.Manifest().Digest() {
		t.Error("other files have the same digest")
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		if out := fmt.Sprintf(verb, a) + fmt.Sprintf(verb, *a); strings.Contains(out, "marked") || strings.Contains(out, "6d61726b6564") {
			t.Errorf("%s shows a secret: %s", verb, out)
		}
	}
}

func TestUnpackTrustsNothing(t *testing.T) {
	whole := pack(t, map[string]string{"auth.json": apiKeyJSON}).Bytes()
	for n := 0; n < len(whole)-1024; n += 100 {
		if b, err := Unpack(whole[:n]); err == nil {
			t.Errorf("cut to %d of %d: %v", n, len(whole), b)
		}
	}
	for _, name := range []string{"../auth.json", "/auth.json", "sessions/x", "skills/../auth.json", "rules/a\nb"} {
		b := &Bundle{files: []file{{path: "auth.json", data: []byte(apiKeyJSON)}, {path: name, data: []byte("x")}}}
		if got, err := Unpack(b.Bytes()); err == nil {
			t.Errorf("%q was taken: %v", name, got)
		}
	}
}
