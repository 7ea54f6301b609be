package conn

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	law "fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/login"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/tokens"
)

// one is an api.Tokens and an authority.Tokens with one token.
type one struct {
	api.Tokens
	secret string
	token  access.Token
}

func (o *one) Shown(secret string) (access.Token, error) {
	if secret != o.secret {
		return access.Token{}, tokens.ErrNone
	}
	return o.token, nil
}

func (o *one) Named(name string) (access.Token, error) {
	if name != o.token.Name {
		return access.Token{}, tokens.ErrNone
	}
	return o.token, nil
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAProgramSignsCommandsWithTheCertificateOfItsToken(t *testing.T) {
	dir, ca := t.TempDir(), newKey(t)
	a, err := access.Parse(fmt.Appendf(nil, "people: [{name: ann}]\nauthorities: [{key: %q, names: [\"token:*\"]}]\nbindings: [{name: admins, roles: [admin], to: [ann]}]\n",
		strings.TrimSpace(string(ssh.MarshalAuthorizedKey(ca.PublicKey())))))
	if err != nil {
		t.Fatal(err)
	}
	secret := tokens.NewSecret()
	book := &one{secret: secret, token: access.Token{Name: "ci", Owner: "ann", Roles: []access.Role{access.Operator}, ExpiresAt: time.Now().Add(24 * time.Hour)}}
	keeper := law.Fixed(a, time.Now)
	keeper.Know(book)
	var life time.Duration
	srv, err := api.Serve(api.Options{Listen: "unix://" + filepath.Join(dir, "run", "api.sock"), Hub: api.NewHub(nil), Authority: keeper, Tokens: book,
		Status: func() api.Status { return api.Status{Ready: true, TaskQueues: []string{protocol.TaskQueue}} },
		Certify: func(who, key string, l time.Duration) (string, error) {
			life = l
			pub, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key))
			if err != nil {
				return "", err
			}
			cert, err := login.Issue(ca, pub, who, nil, l, time.Now())
			if err != nil {
				return "", err
			}
			return string(ssh.MarshalAuthorizedKey(cert)), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("token", secret+"\n")
	app := &core.App{Err: os.Stderr}
	app.Flags.Config = put("config.yaml", fmt.Sprintf("authority: required\ntoken_file: token\napi: {address: %q}\n", srv.Address()))
	app.Flags.State = filepath.Join(dir, "state")
	t.Cleanup(app.Close)
	conn := With(app, nil, nil)
	args, err := conn.signed(t.Context(), "send", command.Update, "session/s1", "message", []any{map[string]string{"text": "hello"}})
	if err != nil || len(args) != 1 {
		t.Fatal(args, err)
	}
	raw, err := command.Marshal(args[0])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), secret) {
		t.Error("the command has the token")
	}
	judge := func(verb access.Verb) law.Verdict {
		return keeper.Judge(law.Command{Received: command.Received{Workflow: "session/s1", Name: "message", Raw: raw}, Verb: verb})
	}
	if v := judge(access.SessionMessage); v.Refused != "" || v.Principal != "token:ci" {
		t.Errorf("a command of the token: %+v", v)
	}
	if v := judge(access.HostExec); !strings.Contains(v.Refused, "the roles of token ci") {
		t.Errorf("beyond its roles: %+v", v)
	}
	if life > time.Hour {
		t.Errorf("the certificate counts for %s", life)
	}
	book.token.RevokedAt, book.token.RevokedBy = time.Now(), "ann"
	if v := judge(access.SessionMessage); !strings.Contains(v.Refused, "was revoked") {
		t.Errorf("after it was revoked: %+v", v)
	}
}

func TestTheFileOfATokenIsPrivateAndHasOne(t *testing.T) {
	dir, secret := t.TempDir(), tokens.NewSecret()
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"right":     {secret + "\n", 0o600, ""},
		"readable":  {secret, 0o640, "chmod 600"},
		"cut":       {secret[:40], 0o600, "not an API token"},
		"another":   {"sk-something", 0o600, "not an API token"},
		"too-large": {strings.Repeat(secret, 1000), 0o600, "not an API token"},
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(c.text), c.mode), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		got, err := readToken(path)
		switch {
		case c.want == "" && (err != nil || got != secret):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.text[:10])):
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readToken(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
