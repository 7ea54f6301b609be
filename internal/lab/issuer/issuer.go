package issuer

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Clients of an Issuer. Both are public and may use the device flow.
const (
	ClientID = "fairlead"
	Other    = "other"
)

// A Person can log in.
type Person struct {
	ID       string
	Email    string
	Verified bool
	Groups   []string
}

// An Issuer is a running identity provider.
type Issuer struct {
	URL    string
	fail   func(error) // does not return
	server *httptest.Server
	store  *provider
	down   atomic.Bool
	asked  atomic.Int64
}

// Serve starts an issuer on loopback. It ends with the test.
func Serve(t testing.TB, people ...Person) *Issuer {
	t.Helper()
	i, err := New(people...)
	if err != nil {
		t.Fatal(err)
	}
	i.fail = func(err error) { t.Helper(); t.Fatal(err) }
	t.Cleanup(i.Close)
	return i
}

// New starts an issuer on loopback, for more than one test. Its methods panic if they fail.
func New(people ...Person) (*Issuer, error) {
	i := &Issuer{fail: func(err error) { panic(err) }}
	users := users{}
	for _, p := range people {
		users[p.ID] = p
	}
	i.store = &provider{people: users, Storage: storage.NewStorageWithClients(users, map[string]*storage.Client{
		ClientID: storage.DeviceClient(ClientID, ""), Other: storage.DeviceClient(Other, ""),
	})}
	if err := i.rotate(); err != nil {
		return nil, err
	}
	handler, pages := http.Handler(http.NotFoundHandler()), i.pages()
	i.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() {
			panic(http.ErrAbortHandler) // as if nobody listened
		}
		if r.URL.Path == "/keys" {
			i.asked.Add(1)
		}
		if r.URL.Path == loginPath {
			pages.ServeHTTP(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	i.URL = i.server.URL
	conf := &op.Config{CryptoKey: [32]byte{1}, CryptoKeyId: "1", GrantTypeRefreshToken: true, CodeMethodS256: true,
		DeviceAuthorization: op.DeviceAuthorizationConfig{Lifetime: 5 * time.Minute, PollInterval: time.Second, UserFormPath: "/device", UserCode: op.UserCodeBase20}}
	made, err := op.NewProvider(conf, i.store, op.StaticIssuer(i.URL), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		i.Close()
		return nil, err
	}
	handler = made
	return i, nil
}

// Close ends the issuer.
func (i *Issuer) Close() { i.server.Close() }

// SetDown makes the issuer unreachable, or reachable again.
func (i *Issuer) SetDown(down bool) {
	i.down.Store(down)
	i.server.CloseClientConnections()
}

// KeysAsked is how often the keys were asked for.
func (i *Issuer) KeysAsked() int64 { return i.asked.Load() }

// Rotate replaces the key that signs tokens. The key before is not published any more.
func (i *Issuer) Rotate() {
	if err := i.rotate(); err != nil {
		i.fail(err)
	}
}

func (i *Issuer) rotate() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	i.store.key = signingKey{id: rand.Text(), key: key}
	return nil
}

// Approve lets a person enter a code, and log in.
func (i *Issuer) Approve(code, person string) {
	if err := i.store.CompleteDeviceAuthorization(context.Background(), code, person); err != nil {
		i.fail(err)
	}
}

// Deny refuses a code.
func (i *Issuer) Deny(code string) {
	if err := i.store.DenyDeviceAuthorization(context.Background(), code); err != nil {
		i.fail(err)
	}
}

// Claims are those of an ID token for a person, which a test may change.
func (i *Issuer) Claims(person string) map[string]any {
	p, now := i.store.people[person], time.Now()
	return map[string]any{"iss": i.URL, "aud": ClientID, "azp": ClientID, "sub": p.ID, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"email": p.Email, "email_verified": p.Verified, "groups": p.Groups}
}

// Token returns an ID token that the issuer's key signs.
func (i *Issuer) Token(claims map[string]any) string {
	key, _ := i.store.SigningKey(context.Background())
	token, err := sign(jose.RS256, key.ID(), key.Key(), claims)
	if err != nil {
		i.fail(err)
	}
	return token
}

// Public returns the key that verifies tokens.
func (i *Issuer) Public() crypto.PublicKey {
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	return i.store.key.key.Public()
}

// KeyID returns the id of the key that signs tokens.
func (i *Issuer) KeyID() string {
	key, _ := i.store.SigningKey(context.Background())
	return key.ID()
}

// Sign returns a token.
func Sign(t testing.TB, alg jose.SignatureAlgorithm, id string, key any, claims map[string]any) string {
	t.Helper()
	token, err := sign(alg, id, key, claims)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func sign(alg jose.SignatureAlgorithm, id string, key any, claims map[string]any) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(maps.Clone(claims))
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

type users map[string]Person

func (u users) ExampleClientID() string { return storage.ServiceUserID }

func (u users) GetUserByID(id string) *storage.User {
	p, ok := u[id]
	if !ok {
		return nil
	}
	return &storage.User{ID: p.ID, Username: p.ID, Email: p.Email, EmailVerified: p.Verified}
}

func (u users) GetUserByUsername(name string) *storage.User { return u.GetUserByID(name) }

// A provider is the example's storage with groups and with keys that change.
type provider struct {
	*storage.Storage
	people users

	mu        sync.Mutex
	key       signingKey
	redirects []string
}

type signingKey struct {
	id  string
	key *rsa.PrivateKey
}

func (k signingKey) ID() string                                  { return k.id }
func (k signingKey) Key() any                                    { return k.key }
func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }

type publicKey struct{ signingKey }

func (k publicKey) Key() any                           { return k.key.Public() }
func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }

func (p *provider) SigningKey(context.Context) (op.SigningKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.key, nil
}

func (p *provider) KeySet(context.Context) ([]op.Key, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []op.Key{publicKey{p.key}}, nil
}

func (p *provider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := p.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return public{c, slices.Clone(p.redirects)}, nil
}

func (p *provider) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	if err := p.Storage.SetUserinfoFromRequest(ctx, info, token, scopes); err != nil {
		return err
	}
	who, ok := p.people[token.GetSubject()]
	if !ok {
		return fmt.Errorf("there is no person %q", token.GetSubject())
	}
	info.AppendClaims("groups", who.Groups)
	return nil
}

// A public client has no secret.
type public struct {
	op.Client
	redirects []string
}

func (p public) RedirectURIs() []string { return p.redirects }

func (p public) GrantTypes() []oidc.GrantType {
	return append([]oidc.GrantType{oidc.GrantTypeCode}, p.Client.GrantTypes()...)
}

func (public) ApplicationType() op.ApplicationType  { return op.ApplicationTypeNative }
func (public) AuthMethod() oidc.AuthMethod          { return oidc.AuthMethodNone }
func (public) IDTokenUserinfoClaimsAssertion() bool { return true }
func (public) IsScopeAllowed(string) bool           { return true }
