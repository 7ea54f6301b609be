package login_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/lab/issuer"
	"fairlead.dev/fairlead/internal/login"
	"fairlead.dev/fairlead/internal/sshsig"
)

var people = []issuer.Person{
	{ID: "dora", Email: "dora@example.com", Verified: true, Groups: []string{"ops", "Domain Users"}},
	{ID: "mallory", Email: "dora@example.com", Verified: false},
}

// newKey returns a fresh key and its line in a .pub file.
func newKey(t testing.TB) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey())))
}

// keyFile writes a fresh private key.
func keyFile(t testing.TB, path string, mode os.FileMode) (public string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey())))
}

// A team has an issuer, a desk and an access file.
type team struct {
	testing.TB
	issuer *issuer.Issuer
	desk   *login.Desk
	ca     string // file
	access atomic.Pointer[access.Access]
	now    atomic.Pointer[time.Time] // nil: the clock
}

func (m *team) clock() time.Time {
	if at := m.now.Load(); at != nil {
		return *at
	}
	return time.Now()
}

// lists makes an access file in which keys are those of authorities.
func (m *team) lists(keys ...string) {
	m.Helper()
	var all []string
	for _, k := range keys {
		all = append(all, fmt.Sprintf("{key: %q, names: ['*@example.com']}", k))
	}
	a, err := access.Parse([]byte("people: [{name: root, keys: []}]\nauthorities: [" + strings.Join(all, ", ") + "]\n" +
		"bindings: [{name: ops, roles: [operator], to: ['group:ops']}, {name: r, roles: [viewer], to: [root]}]\n"))
	if len(keys) == 0 {
		a, err = access.Parse([]byte("people: [{name: root, keys: []}]\nbindings: [{name: r, roles: [viewer], to: [root]}]\n"))
	}
	if err != nil {
		m.Fatal(err)
	}
	m.access.Store(a)
}

func newTeam(t testing.TB, change func(*login.Options)) *team {
	t.Helper()
	m := &team{TB: t, issuer: issuer.Serve(t, people...), ca: filepath.Join(t.TempDir(), "ca")}
	m.lists(keyFile(t, m.ca, 0o600))
	o := login.Options{Settings: login.Settings{Issuer: m.issuer.URL, ClientID: issuer.ClientID, Scopes: []string{"openid", "email", "groups"}},
		KeyFile: m.ca, Lifetime: login.Lifetime, Access: m.access.Load, Now: m.clock}
	if change != nil {
		change(&o)
	}
	desk, err := login.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(desk.Close)
	m.desk = desk
	return m
}

func request(t testing.TB, key ssh.Signer, token string) login.Request {
	t.Helper()
	proof, err := login.Prove(key, token)
	if err != nil {
		t.Fatal(err)
	}
	return login.Request{IDToken: token, PublicKey: string(ssh.MarshalAuthorizedKey(key.PublicKey())), Proof: proof}
}

// logIn returns what signs as a person.
func (m *team) logIn(token string) (ssh.Signer, login.Certificate) {
	m.Helper()
	key, _ := newKey(m)
	c, err := m.desk.Certify(m.Context(), request(m, key, token))
	if err != nil {
		m.Fatal(err)
	}
	signer, err := sshsig.Certified(key, []byte(c.Certificate))
	if err != nil {
		m.Fatal(err)
	}
	return signer, c
}

// judge lets somebody send a message to a session.
func (m *team) judge(signer ssh.Signer, who string) authority.Verdict {
	m.Helper()
	raw, err := command.Sign(signer, who, "session/s1", "message", []byte(`{"text":"go"}`), m.clock())
	if err != nil {
		m.Fatal(err)
	}
	return authority.Fixed(m.access.Load(), m.clock).Judge(authority.Command{Verb: access.SessionMessage,
		Received: command.Received{Workflow: "session/s1", Name: "message", Raw: raw}})
}

func TestWhoLogsInByDeviceSignsCommandsWithTheGroupsOfTheToken(t *testing.T) {
	m := newTeam(t, nil)
	token, err := login.Device(t.Context(), m.desk.Settings(), func(c login.Code) {
		if c.URL != m.issuer.URL+"/device" || !strings.Contains(c.Direct, c.Code) || time.Until(c.Expires) <= 0 {
			t.Errorf("shown %+v", c)
		}
		m.issuer.Approve(c.Code, "dora")
	})
	if err != nil {
		t.Fatal(err)
	}
	signer, c := m.logIn(token)
	if c.Principal != "dora@example.com" || !slices.Equal(c.Groups, people[0].Groups) || !strings.HasPrefix(c.KeyID, "dora@example.com/") {
		t.Errorf("%+v", c)
	}
	cert := signer.PublicKey().(*ssh.Certificate)
	from, to := time.Unix(int64(cert.ValidAfter), 0), time.Unix(int64(cert.ValidBefore), 0)
	if d := time.Until(to); d > login.Lifetime || d < login.Lifetime-time.Minute || time.Since(from) < 5*time.Minute || time.Since(from) > 6*time.Minute || !to.Equal(c.ExpiresAt) {
		t.Errorf("it counts from %s to %s, and says %s", from, to, c.ExpiresAt)
	}
	if len(cert.CriticalOptions) != 0 || len(cert.Extensions) != 1 || cert.CertType != ssh.UserCert || !slices.Equal(cert.ValidPrincipals, []string{"dora@example.com"}) {
		t.Errorf("%+v", cert)
	}
	if v := m.judge(signer, "dora@example.com"); v.Refused != "" || v.Binding != "ops" || v.Principal != "dora@example.com" {
		t.Errorf("a signed command: %+v", v)
	}
	if v := m.judge(signer, "root"); v.Refused == "" {
		t.Error("a certificate signs for another name")
	}
	end := to.Add(time.Second)
	m.now.Store(&end)
	if v := m.judge(signer, "dora@example.com"); !strings.Contains(v.Refused, "ctl login") {
		t.Errorf("after its end: %+v", v)
	}
}

func TestADeniedOrForgottenCodeLogsNobodyIn(t *testing.T) {
	m := newTeam(t, nil)
	_, err := login.Device(t.Context(), m.desk.Settings(), func(c login.Code) { m.issuer.Deny(c.Code) })
	if !errors.Is(err, login.ErrRefused) || !strings.Contains(err.Error(), "denied") {
		t.Errorf("denied: %v", err)
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	if _, err := login.Device(ctx, m.desk.Settings(), func(login.Code) { cancel(stop) }); !errors.Is(err, stop) {
		t.Errorf("cancelled: %v", err)
	}
	s := m.desk.Settings()
	s.ClientID = "nobody"
	if _, err := login.Device(t.Context(), s, func(login.Code) { t.Error("a code is shown") }); err == nil || !strings.Contains(err.Error(), `"nobody"`) && !errors.Is(err, login.ErrIssuer) {
		t.Errorf("an unknown client: %v", err)
	}
}

// A network that fails for a moment while a person is in the browser costs nothing.
func TestTheFlowForDevicesOutlivesAnIssuerThatIsGoneForAMoment(t *testing.T) {
	m := newTeam(t, nil)
	_, err := login.Device(t.Context(), m.desk.Settings(), func(c login.Code) {
		m.issuer.SetDown(true)
		time.AfterFunc(2500*time.Millisecond, func() {
			m.issuer.Approve(c.Code, "dora")
			m.issuer.SetDown(false)
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTokensThatDoNotCountGiveNoCertificate(t *testing.T) {
	m := newTeam(t, nil)
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other := issuer.Serve(t, people...)
	with := func(set ...any) string {
		c := m.issuer.Claims("dora")
		for i := 0; i < len(set); i += 2 {
			if c[set[i].(string)] = set[i+1]; set[i+1] == nil {
				delete(c, set[i].(string))
			}
		}
		return m.issuer.Token(c)
	}
	der, err := x509.MarshalPKIXPublicKey(m.issuer.Public())
	if err != nil {
		t.Fatal(err)
	}
	encode := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(data)
	}
	none := encode(map[string]any{"alg": "none", "kid": m.issuer.KeyID()}) + "." + encode(m.issuer.Claims("dora")) + "."
	hour := time.Hour
	unix := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for name, c := range map[string]struct{ token, says string }{
		"another audience":             {with("aud", issuer.Other), "audience"},
		"no audience":                  {with("aud", nil), "audience"},
		"for another client":           {with("aud", []string{issuer.ClientID, issuer.Other}, "azp", issuer.Other), "another client"},
		"for several, and for nobody":  {with("aud", []string{issuer.ClientID, issuer.Other}, "azp", nil), "another client"},
		"ended":                        {with("exp", unix(-time.Minute)), "ended at"},
		"without an end":               {with("exp", nil), "ended at"},
		"old":                          {with("iat", unix(-hour), "exp", unix(hour)), "log in again"},
		"without a time":               {with("iat", nil), "log in again"},
		"of tomorrow":                  {with("iat", unix(24*hour), "exp", unix(25*hour)), "future"},
		"another issuer":               {with("iss", "https://id.example.com"), "different provider"},
		"of another issuer":            {other.Token(other.Claims("dora")), "does not count"},
		"by a key that is not its own": {issuer.Sign(t, jose.RS256, m.issuer.KeyID(), stranger, m.issuer.Claims("dora")), "does not count"},
		"alg none":                     {none, "none"},
		"HS256 with the public key":    {issuer.Sign(t, jose.HS256, m.issuer.KeyID(), der, m.issuer.Claims("dora")), "HS256"},
		"no token":                     {"abc", "does not count"},
		"an unverified address":        {m.issuer.Token(m.issuer.Claims("mallory")), "not verified"},
		"no word of verification":      {with("email_verified", nil), "not verified"},
		"no address":                   {with("email", nil), "login.principal_claim"},
		"an address that is a list":    {with("email", []string{"dora@example.com"}), "login.principal_claim"},
		"an odd name":                  {with("email", "dora@example.com,root"), "a name has"},
		"everybody":                    {with("email", "everybody"), "a name has"},
		"the name of workers":          {with("email", "worker"), "workers"},
		"a name that is not allowed":   {with("email", "dora@elsewhere.example"), "authorities"},
		"a nonce":                      {with("nonce", "n"), "nonce"},
		"groups elsewhere":             {with("groups", nil, "_claim_names", map[string]string{"groups": "a"}, "_claim_sources", map[string]any{"a": map[string]string{"endpoint": "http://127.0.0.1:1/"}}), "too many groups"},
		"groups that are numbers":      {with("groups", []int{1}), "text"},
		"groups that are no list":      {with("groups", map[string]int{"ops": 1}), "list"},
		"too many groups":              {with("groups", strings.Split(strings.Repeat("g,", 100)+"g", ",")), "too many"},
		"a group that is too long":     {with("groups", []string{strings.Repeat("g", 300)}), "300 bytes"},
		"too long":                     {strings.Repeat("a", 70_000), "70000 bytes"},
	} {
		key, _ := newKey(t)
		got, err := m.desk.Certify(t.Context(), request(t, key, c.token))
		if !errors.Is(err, login.ErrRefused) && !errors.Is(err, login.ErrBadInput) || got.Certificate != "" || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
		if err != nil && (strings.Contains(err.Error(), c.token) || len(err.Error()) > 2000) {
			t.Errorf("%s: the error has the token: %v", name, err)
		}
		// The audit record shows a few claims, and names only whom a token proves.
		var denied *login.Denied
		if !errors.As(err, &denied) || len(denied.Claimed) > 800 || strings.Contains(denied.Claimed, c.token) {
			t.Errorf("%s: denied as %+v", name, denied)
			continue
		}
		if held := map[string]string{"a name that is not allowed": "dora@elsewhere.example", "too many groups": "dora@example.com", "a group that is too long": "dora@example.com"}[name]; denied.Person.Principal != held {
			t.Errorf("%s: the token proves that it is %q, want %q", name, denied.Person.Principal, held)
		}
		if name == "expired" && !strings.Contains(denied.Claimed, `email="dora@example.com" `) {
			t.Errorf("%s: it claims %s", name, denied.Claimed)
		}
	}
	// What the refused tokens were made from does count.
	if _, c := m.logIn(with()); c.Principal != "dora@example.com" {
		t.Errorf("%+v", c)
	}
	if _, c := m.logIn(with("groups", "ops")); !slices.Equal(c.Groups, []string{"ops"}) {
		t.Errorf("one group as text: %+v", c)
	}
	if _, c := m.logIn(with("groups", nil)); c.Groups == nil || len(c.Groups) != 0 {
		t.Errorf("no groups: %+v", c)
	}
	if _, c := m.logIn(with("email_verified", "true")); c.Principal != "dora@example.com" {
		t.Errorf("verified, as text: %+v", c)
	}
}

func TestANonceMustBeThatOfTheFlow(t *testing.T) {
	m := newTeam(t, nil)
	c := m.issuer.Claims("dora")
	c["nonce"] = "n1"
	key, _ := newKey(t)
	r := request(t, key, m.issuer.Token(c))
	for nonce, ok := range map[string]bool{"n1": true, "": false, "n2": false} {
		r.Nonce = nonce
		if _, err := m.desk.Certify(t.Context(), r); (err == nil) != ok {
			t.Errorf("nonce %q: %v", nonce, err)
		}
	}
}

func TestOtherClaimsNameThePersonIfTheConfigSaysSo(t *testing.T) {
	m := newTeam(t, func(o *login.Options) { o.Claims = login.Claims{Principal: "upn", Groups: "roles"} })
	c := m.issuer.Claims("mallory")
	c["upn"], c["roles"] = "mal@example.com", []string{"sre"}
	if _, got := m.logIn(m.issuer.Token(c)); got.Principal != "mal@example.com" || !slices.Equal(got.Groups, []string{"sre"}) {
		t.Errorf("%+v", got)
	}
}

func TestTheCallerShowsThatTheKeyIsItsOwn(t *testing.T) {
	m := newTeam(t, nil)
	mine, line := newKey(t)
	theirs, theirLine := newKey(t)
	token := m.issuer.Token(m.issuer.Claims("dora"))
	good := request(t, mine, token)
	short, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := ssh.NewSignerFromKey(short)
	if err != nil {
		t.Fatal(err)
	}
	decision, err := sshsig.Sign(mine, sshsig.Namespace, []byte(token))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*login.Request){
		"another's key":              func(r *login.Request) { r.PublicKey = theirLine },
		"no proof":                   func(r *login.Request) { r.Proof = "" },
		"a proof by another key":     func(r *login.Request) { r.Proof = request(t, theirs, token).Proof },
		"a proof for another token":  func(r *login.Request) { r.Proof = request(t, mine, token+"x").Proof },
		"a signature of other use":   func(r *login.Request) { r.Proof = string(decision) },
		"an RSA key":                 func(r *login.Request) { *r = request(t, rsaKey, token) },
		"no key":                     func(r *login.Request) { r.PublicKey = "" },
		"two keys":                   func(r *login.Request) { r.PublicKey = line + "\n" + theirLine },
		"a key with options":         func(r *login.Request) { r.PublicKey = "cert-authority " + line },
		"a key that is much too big": func(r *login.Request) { r.PublicKey = line + strings.Repeat(" x", 4000) },
	} {
		r := good
		change(&r)
		if c, err := m.desk.Certify(t.Context(), r); !errors.Is(err, login.ErrBadInput) || c.Certificate != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := m.desk.Certify(t.Context(), good); err != nil {
		t.Error(err)
	}
}

func TestTokensCountAfterTheIssuerHasRotatedItsKeys(t *testing.T) {
	m := newTeam(t, nil)
	before := m.issuer.Token(m.issuer.Claims("dora"))
	m.logIn(before)
	m.issuer.Rotate()
	m.logIn(m.issuer.Token(m.issuer.Claims("dora")))
	// The key before was withdrawn: what it signed counts no longer than keys are kept. go-oidc keeps
	// the new keys a moment after it has verified a token with them.
	key, _ := newKey(t)
	for last := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		_, err := m.desk.Certify(t.Context(), request(t, key, before))
		if errors.Is(err, login.ErrRefused) {
			break
		}
		if err != nil || time.Now().After(last) {
			t.Fatalf("a token of a key that was withdrawn: %v", err)
		}
	}
}

func TestAKeyThatTheIssuerWithdrewDoesNotCountForLong(t *testing.T) {
	m := newTeam(t, nil)
	claims := m.issuer.Claims("dora")
	claims["iat"] = time.Now().Add(11 * time.Minute).Unix()
	m.logIn(m.issuer.Token(m.issuer.Claims("dora")))
	stolen := func() (token string) { // the key signs once more, after it was withdrawn
		token = m.issuer.Token(claims)
		m.issuer.Rotate()
		return token
	}()
	later := time.Now().Add(11 * time.Minute)
	m.now.Store(&later)
	key, _ := newKey(t)
	if _, err := m.desk.Certify(t.Context(), request(t, key, stolen)); !errors.Is(err, login.ErrRefused) {
		t.Errorf("%v", err)
	}
}

func TestAnIssuerThatIsGoneKeepsNobodyWhoIsLoggedInFromWork(t *testing.T) {
	m := newTeam(t, nil)
	signer, _ := m.logIn(m.issuer.Token(m.issuer.Claims("dora")))
	m.issuer.SetDown(true)
	if v := m.judge(signer, "dora@example.com"); v.Refused != "" {
		t.Errorf("a command: %+v", v)
	}
	if _, err := login.Device(t.Context(), m.desk.Settings(), func(login.Code) { t.Error("a code is shown") }); !errors.Is(err, login.ErrIssuer) || !strings.Contains(err.Error(), m.issuer.URL) {
		t.Errorf("a new login: %v", err)
	}
	// The worker says so, too, if it has not read the keys yet, or needs another one.
	fresh := newTeam(t, nil)
	fresh.issuer.SetDown(true)
	m.issuer.Rotate()
	for name, one := range map[string]*team{"settings": fresh, "keys": m} {
		key, _ := newKey(t)
		_, err := one.desk.Certify(t.Context(), request(t, key, one.issuer.Token(one.issuer.Claims("dora"))))
		if !errors.Is(err, login.ErrIssuer) || !strings.Contains(err.Error(), one.issuer.URL) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m.issuer.SetDown(false)
	m.logIn(m.issuer.Token(m.issuer.Claims("dora")))
}

func TestCallersCannotMakeAWorkerFloodTheIssuer(t *testing.T) {
	m := newTeam(t, nil)
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	m.logIn(m.issuer.Token(m.issuer.Claims("dora")))
	key, _ := newKey(t)
	for i := range 60 {
		token := issuer.Sign(t, jose.RS256, fmt.Sprint("unknown-", i), stranger, m.issuer.Claims("dora"))
		if _, err := m.desk.Certify(t.Context(), request(t, key, token)); err == nil {
			t.Fatal("a stranger's token counts")
		}
	}
	if n := m.issuer.KeysAsked(); n > 40 {
		t.Errorf("the issuer was asked for its keys %d times", n)
	}
	m.logIn(m.issuer.Token(m.issuer.Claims("dora"))) // whose key is known
	later := time.Now().Add(11 * time.Minute)        // and after the settings of the issuer have to be read again
	m.now.Store(&later)
	for i := range 30 {
		token := issuer.Sign(t, jose.RS256, fmt.Sprint("unknown-", i), stranger, m.issuer.Claims("dora"))
		if _, err := m.desk.Certify(t.Context(), request(t, key, token)); err == nil {
			t.Fatal("a stranger's token counts")
		}
	}
	claims := m.issuer.Claims("dora")
	claims["iat"] = later.Unix()
	m.logIn(m.issuer.Token(claims))
}

func TestOldCertificatesCountUntilTheirAuthorityIsTakenOut(t *testing.T) {
	m := newTeam(t, nil)
	data, err := os.ReadFile(m.ca)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := sshsig.ParseKey(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(parsed.PublicKey())))
	before, _ := m.logIn(m.issuer.Token(m.issuer.Claims("dora")))
	key, _ := newKey(t)
	again := func() error {
		_, err := m.desk.Certify(t.Context(), request(t, key, m.issuer.Token(m.issuer.Claims("dora"))))
		return err
	}
	// lost
	if err := os.Remove(m.ca); err != nil {
		t.Fatal(err)
	}
	if err := again(); !errors.Is(err, login.ErrKey) || !strings.Contains(err.Error(), m.ca) {
		t.Errorf("a new login without the key: %v", err)
	}
	if v := m.judge(before, "dora@example.com"); v.Refused != "" {
		t.Errorf("an old certificate, after the key was lost: %+v", v)
	}
	// rotated, and the access file not yet
	fresh := keyFile(t, m.ca, 0o600)
	if err := again(); !errors.Is(err, login.ErrRefused) || !strings.Contains(err.Error(), "authorities") {
		t.Errorf("a new login by a key that nobody lists: %v", err)
	}
	m.lists(old, fresh)
	after, _ := m.logIn(m.issuer.Token(m.issuer.Claims("dora")))
	for name, signer := range map[string]ssh.Signer{"old": before, "new": after} {
		if v := m.judge(signer, "dora@example.com"); v.Refused != "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
	m.lists(fresh)
	if v := m.judge(before, "dora@example.com"); !strings.Contains(v.Refused, "does not list the authority") || !strings.Contains(v.Refused, "ctl login") {
		t.Errorf("an old certificate, after its authority was taken out: %+v", v)
	}
	if v := m.judge(after, "dora@example.com"); v.Refused != "" {
		t.Errorf("a new one: %+v", v)
	}
}

func TestAKeyThatCannotBeUsedIsToldAtTheStart(t *testing.T) {
	dir := t.TempDir()
	good, readable, text, long := filepath.Join(dir, "good"), filepath.Join(dir, "readable"), filepath.Join(dir, "text"), filepath.Join(dir, "long")
	keyFile(t, good, 0o600)
	keyFile(t, readable, 0o644)
	for path, data := range map[string]string{text: "no key", long: strings.Repeat("x", 100_000)} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := access.Parse([]byte("people: [{name: root, keys: []}]\nbindings: [{name: r, roles: [viewer], to: [root]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	open := func(path string, lifetime time.Duration) error {
		d, err := login.Open(login.Options{Settings: login.Settings{Issuer: "https://id.example.com", ClientID: "c"}, KeyFile: path, Lifetime: lifetime, Access: func() *access.Access { return a }})
		if err == nil {
			d.Close()
		}
		return err
	}
	for path, says := range map[string]string{filepath.Join(dir, "none"): "no such file", readable: "chmod 600", text: "read the key", long: "more than", dir: "regular"} {
		if err := open(path, login.Lifetime); !errors.Is(err, login.ErrKey) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, d := range []time.Duration{0, -time.Hour, time.Minute, 25 * time.Hour} {
		if err := open(good, d); err == nil || !strings.Contains(err.Error(), "24h") {
			t.Errorf("a lifetime of %s: %v", d, err)
		}
	}
	if err := open(good, login.Lifetime); err != nil {
		t.Error(err)
	}
}

func TestARevokedPersonGetsNoCertificate(t *testing.T) {
	m := newTeam(t, nil)
	a, err := access.Parse([]byte("people: [{name: root, keys: []}]\nbindings: [{name: r, roles: [viewer], to: [root]}]\nrevoked: {people: [dora@example.com]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	m.access.Store(a)
	key, _ := newKey(t)
	if _, err := m.desk.Certify(t.Context(), request(t, key, m.issuer.Token(m.issuer.Claims("dora")))); !errors.Is(err, login.ErrRefused) || !strings.Contains(err.Error(), "revoked") {
		t.Error(err)
	}
}

func TestALoginWithoutACertificateIsForThoseWhoWouldGetOne(t *testing.T) {
	m := newTeam(t, nil)
	for _, who := range []login.Person{{Principal: "dora@example.com"}, {Principal: "dora@example.com", Groups: []string{"ops", "Domain Users"}}} {
		if err := m.desk.Admits(who); err != nil {
			t.Errorf("%+v: %v", who, err)
		}
	}
	for what, who := range map[string]login.Person{
		"a name that authorities do not allow": {Principal: "root"},
		"one of another domain":                {Principal: "dora@example.org"},
		"a group that does not fit":            {Principal: "dora@example.com", Groups: []string{strings.Repeat("g", 100_000)}},
	} {
		if err := m.desk.Admits(who); !errors.Is(err, login.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	m.lists()
	if err := m.desk.Admits(login.Person{Principal: "dora@example.com"}); !errors.Is(err, login.ErrRefused) {
		t.Errorf("without the authority in the access file: %v", err)
	}
}
