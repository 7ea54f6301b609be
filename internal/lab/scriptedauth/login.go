package scriptedauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// An Account is an account that logs in. All its fields have a default.
type Account struct {
	ID    string `json:"account"` // acct-scripted
	User  string `json:"user"`
	Email string `json:"email"`
	Plan  string `json:"plan"` // pro
	// Mark is part of every secret that is issued to the account, for tests
	// that search for them. Letters, digits, - and _ only.
	Mark string `json:"mark"`
	// AccessTTL is how long the login's first access token is good; default ten
	// days, as all later tokens are. (A codex that receives a token of less
	// than five minutes in answer to a refresh refreshes again without end:
	// measured.)
	AccessTTL time.Duration `json:"access_ttl"`
	// NoProvenance omits the issuer from AuthJSON, as versions before 0.169 do.
	NoProvenance bool `json:"no_provenance"`
}

const accessTTL = 10 * 24 * time.Hour

func (a Account) filled() Account {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&a.ID, "acct-scripted")
	def(&a.User, "user-scripted")
	def(&a.Email, "somebody@example.com")
	def(&a.Plan, "pro")
	def(&a.Mark, "scripted")
	if a.AccessTTL == 0 {
		a.AccessTTL = accessTTL
	}
	return a
}

// Tokens are the answer to a grant.
type Tokens struct {
	ID      string `json:"id_token"`
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
}

// family is all tokens of one login.
type family struct {
	id      string
	account Account
	revoked string // reason; empty while it is good
	newest  Tokens
	refresh map[string]*refreshToken // by digest
	access  map[string]time.Time     // digest → good until
}

type refreshToken struct {
	n    int // 1 is the login's own
	uses int
}

// A Login is what a logged-in client holds.
type Login struct {
	Tokens
	Account Account
	Issuer  string
	Family  string
}

// Login creates a login, as if somebody had logged in elsewhere.
func (s *Server) Login(a Account) Login {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.newFamily(a.filled())
	return s.loginOf(f)
}

// Newest returns the issuer's current state of the login, which its last holder
// should have.
func (s *Server) Newest(l Login) Login {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.families {
		if f.id == l.Family {
			return s.loginOf(f)
		}
	}
	return l
}

func (s *Server) loginOf(f *family) Login {
	return Login{Tokens: f.newest, Account: f.account, Issuer: s.url, Family: f.id}
}

func (s *Server) newFamily(a Account) *family {
	f := &family{id: token(""), account: a, refresh: map[string]*refreshToken{}, access: map[string]time.Time{}}
	s.families = append(s.families, f)
	f.issue()
	return f
}

// issue issues the next tokens of a family.
func (f *family) issue() Tokens {
	at, a := now(), f.account
	n := len(f.refresh) + 1
	claims := map[string]any{
		"email": a.Email, "iat": at.Unix(), "exp": at.Add(time.Hour).Unix(),
		"https://api.openai.com/auth": map[string]any{
			"chatgpt_plan_type": a.Plan, "chatgpt_account_id": a.ID, "chatgpt_user_id": a.User, "user_id": a.User},
	}
	f.newest = Tokens{
		ID:      jwt(claims, "id-"+token(a.Mark)),
		Refresh: fmt.Sprintf("rt_%d_%s", n, token(a.Mark)),
	}
	until := at.Add(accessTTL)
	if n == 1 {
		until = at.Add(a.AccessTTL)
	}
	claims["exp"], claims["n"] = until.Unix(), n
	f.newest.Access = jwt(claims, "at-"+token(a.Mark))
	f.refresh[Digest(f.newest.Refresh)] = &refreshToken{n: n}
	f.access[Digest(f.newest.Access)] = until
	return f.newest
}

// AuthJSON returns the auth.json that codex would have written.
func (l Login) AuthJSON() []byte {
	tokens := map[string]any{
		"id_token": l.ID, "access_token": l.Access, "refresh_token": l.Refresh, "account_id": l.Account.ID,
	}
	if !l.Account.NoProvenance && l.Issuer != "" {
		tokens["oauth_provenance"] = map[string]any{"issuer": l.Issuer, "client_id": ClientID}
	}
	return marshal(map[string]any{
		"auth_mode": "chatgpt", "OPENAI_API_KEY": nil, "tokens": tokens, "last_refresh": now().Format(time.RFC3339Nano),
	})
}

// Digest returns the hex SHA-256 by which records name a token.
func Digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Uses returns how often a refresh token was used, whatever the answer.
func (s *Server) Uses(refresh string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, t := s.find(refresh); f != nil {
		return t.uses
	}
	return 0
}

// MostUses returns the largest number of uses of any refresh token. More than
// one means that a login was revoked.
func (s *Server) MostUses() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := 0
	for _, f := range s.families {
		for _, t := range f.refresh {
			most = max(most, t.uses)
		}
	}
	return most
}

// Revoked returns why a login's family was revoked; empty if it was not.
func (s *Server) Revoked(l Login) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.families {
		if f.id == l.Family {
			return f.revoked
		}
	}
	return "unknown"
}

// Expire makes Guard refuse the access tokens of an account, or of all accounts
// if it is empty, so that codex has to rotate.
func (s *Server) Expire(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.families {
		if account == "" || f.account.ID == account {
			clear(f.access)
		}
	}
}

// Revoke revokes the families of an account, as an administrator does.
func (s *Server) Revoke(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.families {
		if account == "" || f.account.ID == account {
			f.revoke("revoked by an administrator")
		}
	}
}

func (f *family) revoke(why string) {
	if f.revoked == "" {
		f.revoked = why
	}
	clear(f.access)
}

// find looks up a refresh token. The caller must hold mu.
func (s *Server) find(refresh string) (*family, *refreshToken) {
	d := Digest(refresh)
	for _, f := range s.families {
		if t := f.refresh[d]; t != nil {
			return f, t
		}
	}
	return nil, nil
}

// live reports whether an access token is good. The caller must hold mu.
func (s *Server) live(access string) bool { return s.holder(access) != nil }

// holder returns the login of a live access token, or nil. The caller must hold mu.
func (s *Server) holder(access string) *family {
	d := Digest(access)
	for _, f := range s.families {
		if until, ok := f.access[d]; ok && now().Before(until) {
			return f
		}
	}
	return nil
}

func jwt(claims map[string]any, signature string) string {
	b := base64.RawURLEncoding
	return b.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + b.EncodeToString(marshal(claims)) + "." + signature
}

func marshal(v any) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return data
}

func token(mark string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	if mark != "" {
		mark += "-"
	}
	return mark + hex.EncodeToString(b[:])
}
