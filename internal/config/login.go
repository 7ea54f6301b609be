package config

import (
	"slices"
	"strings"
	"time"
)

// Login says how people log in to give commands; without an issuer nobody does.
type Login struct {
	// Issuer is the address of an OpenID Connect provider, as in its tokens.
	Issuer string `yaml:"issuer"`
	// ClientID is that of a public client with the device flow.
	ClientID string   `yaml:"client_id"`
	Scopes   []string `yaml:"scopes"`
	// PrincipalClaim names the person. If it is email, the address must be verified.
	PrincipalClaim string `yaml:"principal_claim"`
	GroupsClaim    string `yaml:"groups_claim"`
	// CertificateKey is the file of the key of the certificate authority. The access file
	// lists it under authorities. Only workers need it, also for API tokens without an issuer.
	CertificateKey string `yaml:"certificate_key"`
	// Lifetime is that of a certificate.
	Lifetime time.Duration `yaml:"lifetime"`
}

// LoginKey as SignWith means the key and the certificate of `ctl login`.
const LoginKey = "login"

func defaultLogin() Login {
	return Login{Scopes: []string{"openid", "email", "profile"}, PrincipalClaim: "email", GroupsClaim: "groups", Lifetime: 8 * time.Hour}
}

// Configured reports whether people log in.
func (l Login) Configured() bool { return l.Issuer != "" }

func (c *Config) checkLogin() (p []Problem) {
	l := c.Login
	add := func(key, format string, args ...any) { p = append(p, c.at("login."+key, format, args...)) }
	if !l.Configured() {
		if l.ClientID != "" {
			add("issuer", "missing: name the identity provider, such as https://id.example.com")
		}
		return p
	}
	if err := checkEndpoint(l.Issuer); err != nil {
		add("issuer", "%v", err)
	}
	if c.Authority != AuthorityRequired {
		add("issuer", "a login is only used with authority: required")
	}
	if l.ClientID == "" || len(l.ClientID) > 256 {
		add("client_id", "missing, or longer than 256 bytes: it is the id of the client at the identity provider")
	}
	odd := func(s string) bool { return s == "" || len(s) > 100 || strings.ContainsAny(s, " \t\r\n\"\\") }
	if len(l.Scopes) > 20 || !slices.Contains(l.Scopes, "openid") || slices.ContainsFunc(l.Scopes, odd) {
		add("scopes", "they must have openid, be at most 20, and have no spaces")
	}
	for key, claim := range map[string]string{"principal_claim": l.PrincipalClaim, "groups_claim": l.GroupsClaim} {
		if odd(claim) {
			add(key, "%q is not the name of a claim", shorten(claim))
		}
	}
	if l.Lifetime < 5*time.Minute || l.Lifetime > 24*time.Hour {
		add("lifetime", "%s is not between 5m and 24h: only the access file can revoke a certificate", l.Lifetime)
	}
	return p
}

// checkLoginFiles checks what a worker needs.
func (c *Config) checkLoginFiles() (p []Problem) {
	switch path := c.Login.CertificateKey; {
	case path == "" && !c.Login.Configured():
	case path == "":
		p = append(p, c.at("login.certificate_key", "missing: make one with `ssh-keygen -t ed25519 -N ''`, and list its public key under authorities in the access file"))
	default:
		if err := CheckSecretFile(path); err != nil {
			p = append(p, c.at("login.certificate_key", "%v", err))
		}
	}
	return p
}
