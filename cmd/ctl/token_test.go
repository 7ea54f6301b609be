package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/login"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/internal/tokens"
)

// lockedWorker serves an API with authority: required on a unix socket. It returns the path
// of a config for ann, who is admin, and one for a program without a key.
func lockedWorker(t *testing.T) (ann, program string) {
	t.Helper()
	dir := t.TempDir()
	_, ca, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signs, err := ssh.NewSignerFromKey(ca)
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("key", string(pem.EncodeToMemory(block)))
	a, err := access.Parse(fmt.Appendf(nil, "people: [{name: ann, keys: [%q]}]\nauthorities: [{key: %q, names: ['token:*']}]\nbindings: [{name: admins, roles: [admin], to: [ann]}]\n",
		strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub))), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signs.PublicKey())))))
	if err != nil {
		t.Fatal(err)
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{URL: "file://" + filepath.Join(dir, "store"), Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	book, keeper := tokens.Open(st, slog.New(slog.DiscardHandler)), authority.Fixed(a, time.Now)
	keeper.Know(book)
	srv, err := api.Serve(api.Options{Listen: "unix://" + filepath.Join(dir, "run", "api.sock"), Store: st, Hub: api.NewHub(nil), Authority: keeper, Tokens: book, Access: keeper.Current,
		Certify: func(principal, key string, life time.Duration) (string, error) {
			pub, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key))
			if err != nil {
				return "", err
			}
			cert, err := login.Issue(signs, pub, principal, nil, life, time.Now())
			if err != nil {
				return "", err
			}
			return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(cert))), nil
		},
		Status: func() api.Status { return api.Status{Ready: true, TaskQueues: []string{protocol.TaskQueue}} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	common := fmt.Sprintf("authority: required\ntemporal: {address: \"127.0.0.1:1\"}\napi: {address: %q}\n", srv.Address())
	return put("ann.yaml", common+"principal: ann\nsign_with: key\n"), put("program.yaml", common)
}

func ctl(t *testing.T, config string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(append([]string{"--config", config, "--state", filepath.Join(t.TempDir(), "state")}, args...), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestATokenIsMadeShownOnceListedUsedAndRevoked(t *testing.T) {
	ann, program := lockedWorker(t)
	code, out, errs := ctl(t, ann, "token", "create", "ci", "--role", "viewer", "--scope", "session.read", "--expires", "30d")
	secret := strings.TrimSpace(out)
	if code != 0 || tokens.Check(secret) != nil || !strings.Contains(errs, "shown once") || strings.Contains(errs, secret) {
		t.Fatalf("create: exit %d, %s", code, errs)
	}
	code, out, errs = ctl(t, ann, "token", "list", "-o", "json")
	var v struct {
		Name, Principal, State, Owner string
		Roles, Scope                  []string
		Expires                       time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || v.Name != "ci" || v.Principal != "token:ci" || v.State != "active" || v.Owner != "ann" ||
		len(v.Roles) != 1 || len(v.Scope) != 1 || time.Until(v.Expires).Round(24*time.Hour) != 30*24*time.Hour || strings.Contains(out, secret) || strings.Contains(out, tokens.Digest(secret)) {
		t.Errorf("list: exit %d, %s%s", code, out, errs)
	}
	file := filepath.Join(t.TempDir(), "ci.token")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAIRLEAD_TOKEN_FILE", file)
	if code, out, errs = ctl(t, program, "token", "list", "-o", "json"); code != 6 || !strings.Contains(out, `"kind":"forbidden"`) || !strings.Contains(errs, "no token allows token.write") {
		t.Errorf("a token that lists tokens: exit %d, %s%s", code, out, errs)
	}
	code, out, errs = ctl(t, program, "whoami", "-o", "json")
	var me struct {
		Principal, Source, Owner, Note string
		Roles, Verbs                   []string
	}
	if err := json.Unmarshal([]byte(out), &me); err != nil || code != 0 || me.Principal != "token:ci" || me.Source != "token" || me.Owner != "ann" || me.Note != "" ||
		!slices.Equal(me.Roles, []string{"viewer"}) || !slices.Equal(me.Verbs, []string{"session.read"}) {
		t.Errorf("whoami of a token: exit %d, %s%s", code, out, errs)
	}
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"token:ci session.read":             {0, "yes"},
		"token:ci host.read":                {6, "the scope of token ci"},
		"ann start tenant:blue":             {6, "needs access.read"}, // no program asks about others
		"token:ci session.read --group ops": {6, "needs access.read"},
	} {
		if code, out, errs = ctl(t, program, append([]string{"access", "why"}, strings.Fields(args)...)...); code != want.code || !strings.Contains(out+errs, want.says) {
			t.Errorf("a program asks a worker why %s: exit %d, %s%s", args, code, out, errs)
		}
	}
	t.Setenv("FAIRLEAD_TOKEN_FILE", "")
	if code, out, errs = ctl(t, ann, "access", "why", "ann", "start", "tenant:blue"); code != 0 || !strings.Contains(out, `binding "admins"`) {
		t.Errorf("ann asks a worker: exit %d, %s%s", code, out, errs)
	}
	if code, out, errs = ctl(t, ann, "access", "why", "bob", "start", "-o", "json"); code != 6 || !strings.Contains(out, `"reason":"no binding names bob`) {
		t.Errorf("ann asks a worker about bob: exit %d, %s%s", code, out, errs)
	}
	rules := filepath.Join(t.TempDir(), "access.yaml")
	why := func(bindings string, want int, says string, args ...string) {
		t.Helper()
		if err := os.WriteFile(rules, []byte("people: [{name: ann, keys: []}, {name: bob, keys: []}]\ngroups: [{name: all, members: [ann, bob]}]\nbindings:\n"+bindings), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, errs := ctl(t, ann, append([]string{"access", "why", "--file", rules}, args...)...); code != want || !strings.Contains(out+errs, says) {
			t.Errorf("why %v: exit %d, want %d, %s%s", args, code, want, out, errs)
		}
	}
	const annReads, bobReads = "  - {name: r, roles: [operator], to: [ann]}\n", "  - {name: r, roles: [operator], to: [bob]}\n"
	why(annReads, 0, "yes", "token:ci", "session.read")
	why(annReads, 6, "the scope of token ci", "token:ci", "host.read")
	why(bobReads, 6, "no more than its owner", "token:ci", "session.read")
	why(annReads, 3, "there is no token none", "token:none", "session.read")
	t.Setenv("FAIRLEAD_TOKEN_FILE", file)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs = ctl(t, program, "token", "list"); code != 2 || !strings.Contains(errs, "chmod 600") || strings.Contains(errs, secret) {
		t.Errorf("a token that others may read: exit %d, %s", code, errs)
	}
	t.Setenv("FAIRLEAD_TOKEN_FILE", "")
	if code, _, errs = ctl(t, program, "token", "list"); code == 0 || !strings.Contains(errs, "not signed") || !strings.Contains(errs, "sign_with") {
		t.Errorf("without a key and a token: exit %d, %s", code, errs)
	}
	if code, out, errs = ctl(t, ann, "token", "revoke", "ci"); code != 0 || !strings.Contains(out, "revoked by ann") {
		t.Errorf("revoke: exit %d, %s%s", code, out, errs)
	}
	if code, out, _ = ctl(t, ann, "token", "list"); code != 0 || !strings.Contains(out, "revoked") {
		t.Errorf("list: exit %d, %s", code, out)
	}
	if code, _, errs = ctl(t, ann, "token", "revoke", "none"); code != 3 {
		t.Errorf("revoke none: exit %d, %s", code, errs)
	}
	for _, bad := range [][]string{{"token", "create", "a b", "--role", "viewer"}, {"token", "create", "x"}, {"token", "create", "x", "--role", "king"},
		{"token", "create", "x", "--role", "viewer", "--expires", "366d"}, {"token", "create", "x", "--role", "viewer", "--scope", "all"}} {
		if code, _, errs = ctl(t, ann, bad...); code != 2 {
			t.Errorf("%v: exit %d, %s", bad, code, errs)
		}
	}
}
