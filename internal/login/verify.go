package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"fairlead.dev/fairlead/internal/access"
)

// Reasons why nobody is logged in.
var (
	ErrBadInput = errors.New("the request to log in cannot be used")
	ErrRefused  = errors.New("the login is refused")
	ErrIssuer   = errors.New("the issuer of logins does not answer")
	ErrKey      = errors.New("the certificate key cannot be used")
)

// Settings say where people log in.
type Settings struct {
	Issuer   string   `json:"issuer"`
	ClientID string   `json:"client_id"`
	Scopes   []string `json:"scopes"`
}

// Claims name the claims of an ID token that count.
type Claims struct {
	// Principal is the claim of the name; default email, which must be verified.
	Principal string
	// Groups is the claim of the groups; default groups.
	Groups string
}

// Defaults of Claims.
const (
	PrincipalClaim = "email"
	GroupsClaim    = "groups"
)

// A Person is whom an ID token names.
type Person struct {
	Principal string
	Groups    []string
	// AskedAt is when the issuer asked the person to prove who they are, as the claim auth_time
	// says. It is zero without that claim: then the issuer may have asked long ago.
	AskedAt time.Time
}

const (
	maxToken = 64 << 10 // bytes
	// fresh is how old an ID token may be. Otherwise a token that was lost long ago could
	// still become a certificate.
	fresh = 15 * time.Minute
	// skew is how far the clocks of the issuer and the worker may be apart.
	skew = 5 * time.Minute
	// keysKept is how long the keys of the issuer are used before they are read again, so that
	// a withdrawn key does not count for long. An unknown key is looked for at once.
	keysKept = 10 * time.Minute
)

// algorithms are those of public keys. With others, everybody who can verify a token can also
// make one.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// A Verifier verifies ID tokens. It is safe for concurrent use.
type Verifier struct {
	settings Settings
	claims   Claims
	now      func() time.Time
	http     *http.Client
	flight   singleflight.Group
	known    chan keys // of one
}

// keys verify tokens of an issuer, and say where people log in there.
type keys struct {
	by    *oidc.IDTokenVerifier
	at    oauth2.Endpoint
	since time.Time
}

// NewVerifier does not ask the issuer yet. now may be nil.
func NewVerifier(s Settings, c Claims, now func() time.Time) *Verifier {
	if c.Principal == "" {
		c.Principal = PrincipalClaim
	}
	if c.Groups == "" {
		c.Groups = GroupsClaim
	}
	if now == nil {
		now = time.Now
	}
	v := &Verifier{settings: s, claims: c, now: now, known: make(chan keys, 1),
		http: newClient(s.Issuer)}
	v.known <- keys{}
	return v
}

// Close closes idle connections.
func (v *Verifier) Close() { v.http.CloseIdleConnections() }

// Verify returns whom an ID token names. nonce is what the flow asked the token to have; the
// device flow has none. The error wraps ErrRefused or ErrIssuer.
func (v *Verifier) Verify(ctx context.Context, raw, nonce string) (Person, error) {
	if len(raw) > maxToken {
		return Person{}, fmt.Errorf("%w: the ID token has %d bytes, and %d at most are allowed", ErrBadInput, len(raw), maxToken)
	}
	known, err := v.keys(ctx)
	if err != nil {
		return Person{}, err
	}
	asked := &lookup{}
	token, err := known.by.Verify(context.WithValue(ctx, lookupKey{}, asked), raw)
	var expired *oidc.TokenExpiredError
	switch {
	case asked.err != nil:
		return Person{}, fmt.Errorf("%w: read the keys of %s: %s", ErrIssuer, v.settings.Issuer, brief(asked.err))
	case errors.As(err, &expired):
		return Person{}, fmt.Errorf("%w: the ID token ended at %s", ErrRefused, expired.Expiry.UTC().Format(time.RFC3339))
	case err != nil:
		return Person{}, fmt.Errorf("%w: the ID token does not count: %s", ErrRefused, brief(err))
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return Person{}, fmt.Errorf("%w: the claims of the ID token cannot be read: %s", ErrRefused, brief(err))
	}
	if err := v.check(token, claims, nonce); err != nil {
		return Person{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return v.person(claims)
}

// check checks what the library leaves to its caller.
func (v *Verifier) check(token *oidc.IDToken, claims map[string]any, nonce string) error {
	azp, given := claims["azp"]
	switch {
	case given && azp != v.settings.ClientID, !given && len(token.Audience) > 1:
		return fmt.Errorf("the ID token was made for another client than %q", v.settings.ClientID)
	case token.Nonce != nonce:
		return errors.New("the ID token was made for another login: its nonce differs")
	case token.IssuedAt.Before(v.now().Add(-fresh)):
		return fmt.Errorf("the ID token was issued at %s, and it may be %s old: log in again, or set the clock of this worker", token.IssuedAt.UTC().Format(time.RFC3339), fresh)
	case token.IssuedAt.After(v.now().Add(skew)):
		return fmt.Errorf("the ID token was issued at %s, which is in the future: set the clock of this worker", token.IssuedAt.UTC().Format(time.RFC3339))
	}
	return nil
}

func (v *Verifier) person(claims map[string]any) (Person, error) {
	refuse := func(format string, args ...any) (Person, error) {
		return Person{}, fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
	}
	name, ok := claims[v.claims.Principal].(string)
	switch {
	case !ok || name == "":
		return refuse("the ID token has no text as claim %q, which names the person: let the issuer send it, or set login.principal_claim", v.claims.Principal)
	case v.claims.Principal == PrincipalClaim && !isTrue(claims["email_verified"]):
		return refuse("the issuer has not verified the e-mail address %.256q: have it verified there, or set login.principal_claim to another claim", name)
	case name == access.Worker:
		return refuse("the name %q is that of workers", name)
	}
	if err := access.CheckName(name); err != nil {
		return refuse("claim %q is %.256q: %w", v.claims.Principal, name, err)
	}
	groups, err := v.groups(claims)
	if err != nil {
		return refuse("%w", err)
	}
	return Person{Principal: name, Groups: groups, AskedAt: v.askedAt(claims)}, nil
}

// askedAt returns a moment that is not in the future, or none.
func (v *Verifier) askedAt(claims map[string]any) time.Time {
	seconds, ok := claims["auth_time"].(float64)
	now := v.now()
	switch {
	case !ok || !(seconds > 0):
		return time.Time{}
	case seconds > float64(now.Unix()):
		return now
	}
	return time.Unix(int64(seconds), 0)
}

func (v *Verifier) groups(claims map[string]any) ([]string, error) {
	if elsewhere, ok := claims["_claim_names"].(map[string]any); ok && elsewhere[v.claims.Groups] != nil {
		return nil, fmt.Errorf("the ID token says where to ask for claim %q, and does not have it: the person is in too many groups; let the issuer send only those that the access file names", v.claims.Groups)
	}
	switch given := claims[v.claims.Groups].(type) {
	case nil:
		return nil, nil
	case string:
		return []string{given}, nil
	case []any:
		var all []string
		for _, g := range given {
			text, ok := g.(string)
			if !ok {
				return nil, fmt.Errorf("claim %q has more than text", v.claims.Groups)
			}
			all = append(all, text)
		}
		return all, nil
	}
	return nil, fmt.Errorf("claim %q is not a list of text", v.claims.Groups)
}

// isTrue also takes the text that some issuers send.
func isTrue(v any) bool { return v == true || v == "true" }

// keys returns what verifies tokens, after it was read from the issuer.
func (v *Verifier) keys(ctx context.Context) (keys, error) {
	known := <-v.known
	v.known <- known
	if known.by != nil && v.now().Sub(known.since) < keysKept {
		return known, nil
	}
	asking := v.flight.DoChan("issuer", func() (any, error) {
		// The result is for all who wait: ctx is that of one of them. The client has time-outs.
		read, err := v.discover(context.WithoutCancel(ctx))
		if err == nil {
			<-v.known
			v.known <- read
		}
		return read, err
	})
	select {
	case <-ctx.Done():
		return keys{}, fmt.Errorf("%w: %s: %w", ErrIssuer, v.settings.Issuer, context.Cause(ctx))
	case got := <-asking:
		if got.Err != nil {
			return keys{}, got.Err
		}
		return got.Val.(keys), nil
	}
}

func (v *Verifier) discover(ctx context.Context) (keys, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, v.http), v.settings.Issuer)
	if err != nil {
		return keys{}, fmt.Errorf("%w: read the settings of %s: %s", ErrIssuer, v.settings.Issuer, brief(err))
	}
	var own struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&own); err != nil || own.Keys == "" {
		return keys{}, fmt.Errorf("%w: the settings of %s name no keys (jwks_uri)", ErrIssuer, v.settings.Issuer)
	}
	// A caller can make us look for a key, by naming one that is not known.
	seldom := paced(v.http, rate.NewLimiter(rate.Every(2*time.Second), 20))
	set := &keySet{oidc.NewRemoteKeySet(oidc.ClientContext(ctx, seldom), own.Keys)}
	return keys{since: v.now(), at: provider.Endpoint(), by: oidc.NewVerifier(v.settings.Issuer, set, &oidc.Config{
		ClientID: v.settings.ClientID, SupportedSigningAlgs: algorithms, Now: v.now,
	})}, nil
}

// A keySet notes that the keys could not be read. The library's error does not tell that from
// a signature that does not hold.
type keySet struct{ *oidc.RemoteKeySet }

type (
	lookup    struct{ err error }
	lookupKey struct{}
)

func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.RemoteKeySet.VerifySignature(ctx, jwt)
	if to, ok := ctx.Value(lookupKey{}).(*lookup); ok && err != nil && strings.HasPrefix(err.Error(), "fetching keys") {
		to.err = err
	}
	return payload, err
}
