package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const loginText = "authority: required\naccess: access.yaml\nlogin:\n  issuer: https://id.example.com\n  client_id: fairlead\n  certificate_key: ca\n"

func TestALoginHasItsDefaults(t *testing.T) {
	c, err := Parse("/etc/fairlead/worker.yaml", []byte(loginText))
	if err != nil {
		t.Fatal(err)
	}
	l := c.Login
	if !l.Configured() || l.Lifetime != 8*time.Hour || l.PrincipalClaim != "email" || l.GroupsClaim != "groups" || l.CertificateKey != "/etc/fairlead/ca" ||
		!slices.Equal(l.Scopes, []string{"openid", "email", "profile"}) {
		t.Errorf("%+v", l)
	}
	if !slices.Contains(c.Private(), "/etc/fairlead/ca") {
		t.Errorf("commands of sessions may read the certificate key: %q", c.Private())
	}
	c, err = Parse("c.yaml", []byte(loginText+"  scopes: [openid, groups]\n"))
	if err != nil || !slices.Equal(c.Login.Scopes, []string{"openid", "groups"}) {
		t.Errorf("a list is added to the default: %q, %v", c.Login.Scopes, err)
	}
	if Default().Login.Configured() {
		t.Error("a login without an issuer")
	}
	c, err = Parse("/etc/fairlead/c.yaml", []byte("sign_with: login\nauthority: required\nworker_key: w\n"))
	if err != nil || c.SignWith != LoginKey || !slices.Contains(c.Private(), "/etc/fairlead/w") || slices.Contains(c.Private(), "login") {
		t.Errorf("sign_with is %q, private are %q, %v", c.SignWith, c.Private(), err)
	}
}

func TestMistakesOfALoginAreTold(t *testing.T) {
	for name, change := range map[string][3]string{
		"no issuer":           {"issuer: https://id.example.com", "issuer: ''", "login.issuer"},
		"in the clear":        {"https://id.example.com", "http://id.example.com", "login.issuer"},
		"not an address":      {"https://id.example.com", "id.example.com", "login.issuer"},
		"authority local":     {"authority: required\naccess: access.yaml\n", "", "login.issuer"},
		"no client":           {"client_id: fairlead", "client_id: ''", "login.client_id"},
		"too long a life":     {"certificate_key: ca", "lifetime: 25h", "login.lifetime"},
		"too short a life":    {"certificate_key: ca", "lifetime: 1m", "login.lifetime"},
		"scopes alone":        {"certificate_key: ca", "scopes: [email]", "login.scopes"},
		"scopes in one":       {"certificate_key: ca", "scopes: ['openid email', openid]", "login.scopes"},
		"no claim":            {"certificate_key: ca", "principal_claim: ''", "login.principal_claim"},
		"a claim with spaces": {"certificate_key: ca", "groups_claim: a b", "login.groups_claim"},
	} {
		_, err := Parse("/etc/fairlead/c.yaml", []byte(strings.Replace(loginText, change[0], change[1], 1)))
		if err == nil || !strings.Contains(err.Error(), change[2]+":") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAWorkerNeedsACertificateKeyThatNobodyElseReads(t *testing.T) {
	dir := t.TempDir()
	parse := func(text string) string {
		c, err := Parse(filepath.Join(dir, "c.yaml"), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c.CheckFiles().Error() // which also tells of the store
	}
	if err := os.WriteFile(filepath.Join(dir, "ca"), []byte("key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "ca"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, says string }{
		{loginText, "login.certificate_key: others may read"},
		{strings.Replace(loginText, ": ca", ": none", 1), "login.certificate_key: stat"},
		{strings.Replace(loginText, "  certificate_key: ca\n", "", 1), "login.certificate_key: missing"},
	} {
		if err := parse(c.text); !strings.Contains(err, c.says) {
			t.Errorf("want %q in %s", c.says, err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "ca"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := parse(loginText); strings.Contains(err, "login") {
		t.Error(err)
	}
}
