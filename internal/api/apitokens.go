package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/tokens"
)

// Tokens keeps the API tokens of programs; *[tokens.Book] implements it.
type Tokens interface {
	Shown(secret string) (access.Token, error)
	Named(name string) (access.Token, error)
	List(ctx context.Context) ([]access.Token, error)
	Create(ctx context.Context, t access.Token) (secret string, made access.Token, err error)
	Revoke(ctx context.Context, name, by string) (access.Token, error)
}

var _ Tokens = (*tokens.Book)(nil)

// A NewToken asks for an API token.
type NewToken struct {
	Name  string        `json:"name"`
	Roles []access.Role `json:"roles"`
	Scope []access.Verb `json:"scope,omitempty"`
	// APIOnly says that the program sends the token to workers and signs no commands, so no
	// worker needs a key to sign certificates with.
	APIOnly bool `json:"api_only,omitempty"`
	// Seconds is how long it counts; 0 means tokens.DefaultLifetime.
	Seconds int64 `json:"seconds,omitempty"`
}

// A MadeToken is a new token with its secret, which is told once.
type MadeToken struct {
	access.Token
	Secret string `json:"secret"`
}

// A Certificate signs commands of an API token for a short time.
type Certificate struct {
	Certificate string    `json:"certificate"` // as in a -cert.pub file
	Principal   string    `json:"principal"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// CertificateLifetime is that of a token's certificate.
const CertificateLifetime = time.Hour

const (
	maxNewToken   = 64 << 10 // bytes
	secretTokens  = "an API token is a credential: it is given over a unix socket or TLS only"
	noTokensHere  = "this worker has no API tokens"
	needsRequired = "set authority: required in the config of workers: without it, everybody who can connect may do everything"
)

// hasTokens refuses where there are no tokens, or where others could read them.
func (s *Server) hasTokens() error {
	switch {
	case s.opts.Authority == nil || s.opts.Tokens == nil:
		return problem(http.StatusConflict, ErrRefused, noTokensHere).hinted(needsRequired)
	case !s.secure:
		return problem(http.StatusForbidden, ErrRefused, secretTokens).hinted(listenPrivate)
	}
	return nil
}

func (s *Server) apiTokens(w http.ResponseWriter, r *http.Request) {
	err := s.hasTokens()
	var all []access.Token
	if err == nil {
		if all, err = s.opts.Tokens.List(r.Context()); err != nil {
			err = tokenProblem(err)
		}
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, map[string]any{"tokens": all})
}

// createToken makes a token of the caller's.
func (s *Server) createToken(w http.ResponseWriter, r *http.Request) {
	var in NewToken
	err := s.hasTokens()
	if err == nil {
		err = readJSON(w, r, maxNewToken, "an API token", &in)
	}
	if err == nil {
		if err = s.within(r.Context(), in); err != nil {
			refusedFor(&s.opts, callerOf(r.Context()), access.TokenWrite, tokenObject(in.Name), err)
		}
	}
	if err == nil && !in.APIOnly {
		err = certifiable(s.opts, access.Token{Name: in.Name}.Principal())
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	c := callerOf(r.Context())
	life := tokens.DefaultLifetime
	if in.Seconds != 0 {
		if in.Seconds < 0 || in.Seconds > int64(tokens.MaxLifetime/time.Second) {
			s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "a token counts for a second at least, and for %d days at most", tokens.MaxLifetime/(24*time.Hour)))
			return
		}
		life = time.Duration(in.Seconds) * time.Second
	}
	secret, made, err := s.opts.Tokens.Create(r.Context(), access.Token{Name: in.Name, Owner: c.principal, Key: c.key, Roles: in.Roles, Scope: in.Scope, ExpiresAt: time.Now().Add(life)})
	if err != nil {
		s.fail(w, tokenProblem(err))
		return
	}
	accepted(&s.opts, c, access.TokenWrite, tokenObject(made.Name), fmt.Sprintf("API token created until %s, roles %v, scope %v", made.ExpiresAt.Format(time.RFC3339), made.Roles, made.Scope))
	s.log.Warn("api token created", "token", made.Name, "by", made.Owner, "key", made.Key, "roles", made.Roles, "scope", made.Scope, "expires_at", made.ExpiresAt)
	w.Header().Set("Cache-Control", "no-store")
	s.reply(w, MadeToken{made, secret})
}

// within refuses a token with more than its creator may do. Groups of the creator's login do
// not count for tokens.
func (s *Server) within(ctx context.Context, in NewToken) error {
	who := callerOf(ctx).principal
	for _, role := range in.Roles {
		for _, v := range role.Verbs() {
			if v == access.TokenWrite || len(in.Scope) > 0 && !slices.Contains(in.Scope, v) {
				continue
			}
			if a := s.opts.Authority.Could(access.Request{Who: who, Verb: v}); !a.Allowed {
				return problem(http.StatusForbidden, ErrForbidden, "a token may do no more than the person who makes it, and role %s has %s: %s", role, v, a.Reason).
					hinted("give another role, or a scope; groups that the issuer of a login names do not count for tokens")
			}
		}
	}
	return nil
}

func (s *Server) revokeToken(w http.ResponseWriter, r *http.Request) {
	err := s.hasTokens()
	var t access.Token
	if err == nil {
		if t, err = s.opts.Tokens.Revoke(r.Context(), r.PathValue("name"), callerOf(r.Context()).principal); err != nil {
			err = tokenProblem(err)
		}
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	accepted(&s.opts, callerOf(r.Context()), access.TokenWrite, tokenObject(t.Name), "API token revoked")
	s.log.Warn("api token revoked", "token", t.Name, "by", t.RevokedBy)
	s.reply(w, t)
}

// certifiable refuses if no certificate of this worker could count for the principal of a
// token. Without one, the program can sign no command.
func certifiable(opts Options, who string) error {
	const apiOnly = "; a token made with --api-only needs none of this"
	switch {
	case opts.Certify == nil:
		return problem(http.StatusConflict, ErrRefused, "this worker has no key to sign certificates with, and a program signs its commands with one").
			hinted("make a key (ssh-keygen -t ed25519 -N '' -f ca), set login.certificate_key in the config of each worker, and list the public key under authorities in the access file, with names: [\"token:*\"]" + apiOnly)
	case !opts.Authority.Current().Signers().MayCertify(who):
		return problem(http.StatusConflict, ErrRefused, "no authority of the access file may certify %s, so nothing that the program signs would count", who).
			hinted("in the access file, add \"token:*\" to the names of the authority whose key workers have as login.certificate_key" + apiOnly)
	}
	return nil
}

// certifyToken signs a certificate for the program that shows a token.
func (s *Server) certifyToken(w http.ResponseWriter, r *http.Request) {
	err := s.hasTokens()
	var in struct {
		Key string `json:"public_key"`
	}
	if err == nil {
		err = readJSON(w, r, maxNewToken, "a public key", &in)
	}
	c := callerOf(r.Context())
	switch {
	case err != nil:
	case c == nil || c.token.Name == "":
		err = problem(http.StatusBadRequest, ErrBadInput, "this is for programs that show an API token: a person signs with a key, or logs in")
	default:
		err = certifiable(s.opts, c.principal)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	now := time.Now()
	life := min(CertificateLifetime, c.token.ExpiresAt.Sub(now))
	line, err := s.opts.Certify(c.principal, in.Key, life)
	if err != nil {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "%v", err))
		return
	}
	accepted(&s.opts, c, audit.CertificateIssue, tokenObject(c.token.Name), fmt.Sprintf("certificate issued until %s, for the token of %s", now.Add(life).UTC().Format(time.RFC3339), c.token.Owner))
	s.log.Info("certificate issued", "principal", c.principal, "owner", c.token.Owner)
	s.reply(w, Certificate{Certificate: line, Principal: c.principal, ExpiresAt: now.Add(life).UTC()})
}

func readJSON(w http.ResponseWriter, r *http.Request, limit int64, what string, to any) error {
	data, err := readBody(w, r, limit, what)
	if err == nil && json.Unmarshal(data, to) != nil {
		err = problem(http.StatusBadRequest, ErrBadInput, "the request body is not the JSON of %s", what)
	}
	return err
}

func tokenProblem(err error) error {
	switch {
	case errors.Is(err, tokens.ErrBad):
		return problem(http.StatusBadRequest, ErrBadInput, "%v", err)
	case errors.Is(err, tokens.ErrTaken):
		return problem(http.StatusConflict, ErrRefused, "%v", err).hinted("choose another name; both names can be in one group of the access file")
	case errors.Is(err, tokens.ErrNone):
		return problem(http.StatusNotFound, ErrNotFound, "%v", err).hinted("`ctl token list` shows them")
	}
	return storeProblem(err, "%v", err)
}

const tokensPath = "/v1/api-tokens"

// APITokens lists the API tokens of programs by name, also those that ended.
func (c *Client) APITokens(ctx context.Context) ([]access.Token, error) {
	var v struct {
		Tokens []access.Token `json:"tokens"`
	}
	err := c.call(ctx, http.MethodGet, tokensPath, nil, &v)
	return v.Tokens, err
}

// CreateAPIToken makes an API token of the caller's.
func (c *Client) CreateAPIToken(ctx context.Context, in NewToken) (out MadeToken, err error) {
	body, err := json.Marshal(in)
	if err == nil {
		err = c.call(ctx, http.MethodPost, tokensPath, body, &out)
	}
	return out, err
}

// RevokeAPIToken ends an API token.
func (c *Client) RevokeAPIToken(ctx context.Context, name string) (t access.Token, err error) {
	err = c.call(ctx, http.MethodDelete, tokensPath+"/"+url.PathEscape(name), nil, &t)
	return t, err
}

// CertifyAPIToken returns a certificate for a public key, a line as in a .pub file, of the
// program whose API token the client shows.
func (c *Client) CertifyAPIToken(ctx context.Context, key string) (out Certificate, err error) {
	body, err := json.Marshal(map[string]string{"public_key": key})
	if err == nil {
		err = c.call(ctx, http.MethodPost, tokensPath+"/certificate", body, &out)
	}
	return out, err
}
