package passkey

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/softkey"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

var site = Site{ID: "fairlead.example.com", Origin: "https://fairlead.example.com:8443"}

func newKey() *softkey.Key { return softkey.New(site.ID, site.Origin) }

// memory is a store of blobs.
type memory struct {
	mu   sync.Mutex
	m    map[string][]byte
	down bool
}

var errDown = errors.New("the store is down")

func (b *memory) Get(_ context.Context, key string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.m[key]
	switch {
	case b.down:
		return nil, errDown
	case !ok:
		return nil, store.ErrNotFound
	}
	return data, nil
}

func (b *memory) Put(_ context.Context, key string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.m[key] = data
	return nil
}

func (b *memory) CreateOnce(_ context.Context, key string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.m[key]; ok {
		return store.ErrExists
	}
	b.m[key] = data
	return nil
}

func (b *memory) List(_ context.Context, prefix string) (all []store.Info, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, errDown
	}
	for key := range b.m {
		if strings.HasPrefix(key, prefix) {
			all = append(all, store.Info{Key: key})
		}
	}
	return all, nil
}

func newBook(m *memory) *Book { return Open(m, slog.New(slog.DiscardHandler)) }

// registered returns a passkey of a person, and the book that has it.
func registered(t *testing.T, b *Book, who, name string) *softkey.Key {
	t.Helper()
	k := newKey()
	made, err := Created(k.Created([]byte("challenge")), []byte("challenge"), site)
	if err == nil {
		_, err = b.Add(t.Context(), who, name, made)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestANewPasskeyIsOfItsSiteAndItsChallenge(t *testing.T) {
	k := newKey()
	made, err := Created(k.Created([]byte("c")), []byte("c"), site)
	if err != nil || made.ID != k.ID() || made.PublicKey != k.PublicKey() || made.Site != site || len(made.Transports) != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	for what, raw := range map[string][]byte{
		"of another challenge":     newKey().Created([]byte("d")),
		"of another origin":        softkey.New(site.ID, "https://evil.example.com").Created([]byte("c")),
		"of another site":          softkey.New("evil.example.com", site.Origin).Created([]byte("c")),
		"no JSON":                  []byte("{"),
		"too large":                make([]byte, maxCreated+1),
		"an assertion":             []byte(`{"id":"AA","rawId":"AA","type":"public-key","response":{"clientDataJSON":"e30","authenticatorData":"AA","signature":"AA"}}`),
		"followed by other things": append(newKey().Created([]byte("c")), "{}"...),
	} {
		if _, err := Created(raw, []byte("c"), site); !errors.Is(err, ErrBad) {
			t.Errorf("%s: %v", what, err)
		}
	}
	unverified := newKey()
	unverified.Flags = softkey.Present
	if _, err := Created(unverified.Created([]byte("c")), []byte("c"), site); !errors.Is(err, ErrBad) {
		t.Errorf("an authenticator that verified nobody: %v", err)
	}
}

// message is of a decision, whose outcome differs.
func message(outcome string) []byte { return []byte(`{"approval":"s.1","outcome":"` + outcome + `"}`) }

func TestAnAssertionCountsForOneDecision(t *testing.T) {
	k := newKey()
	accept := k.Assert(Challenge(message("accept")))
	if err := Of(accept, message("accept")); err != nil {
		t.Error(err)
	}
	bare := accept
	bare.Signature = ""
	for what, c := range map[string]struct {
		p       protocol.Passkey
		outcome string
	}{
		"of another decision":   {accept, "decline"},
		"for a new credential":  {k.AssertAs("webauthn.create", Challenge(message("accept"))), "accept"},
		"of the bare message":   {k.Assert(message("accept")), "accept"},
		"without its signature": {bare, "accept"},
		"not base64url":         {protocol.Passkey{ID: "a", ClientData: "#", AuthenticatorData: "a", Signature: "a"}, "accept"},
		"not JSON":              {protocol.Passkey{ID: "a", ClientData: "e30x", AuthenticatorData: "a", Signature: "a"}, "accept"},
		"too large":             {protocol.Passkey{ID: "a", ClientData: strings.Repeat("a", maxClient+1), AuthenticatorData: "a", Signature: "a"}, "accept"},
	} {
		if err := Of(c.p, message(c.outcome)); !errors.Is(err, ErrBad) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The digest is part of what people sign, so it never changes.
func TestTheChallengeIsAsDocumented(t *testing.T) {
	const want = "2113fbc7465284c2649a156b205aba3f202b20d9db598026deed0a425dd3c15f"
	if got := fmt.Sprintf("%x", Challenge(message("accept"))); got != want {
		t.Errorf("the challenge is %s, want %s", got, want)
	}
}

func TestAnAssertionCountsOnlyForItsPersonAndItsSite(t *testing.T) {
	m := &memory{m: map[string][]byte{}}
	b := newBook(m)
	k, other := registered(t, b, "ann", "laptop"), registered(t, b, "ben", "phone")
	sign := func(k *softkey.Key) protocol.Passkey {
		p := k.Assert(Challenge(message("accept")))
		p.PublicKey = k.PublicKey()
		return p
	}
	if err := b.Counts("ann", sign(k)); err != nil {
		t.Errorf("ann's passkey: %v", err)
	}
	if err := b.Counts("ben", sign(k)); !errors.Is(err, ErrNone) {
		t.Errorf("ann's passkey for ben: %v", err)
	}
	foreign := sign(other)
	foreign.ID = k.ID()
	if err := b.Counts("ann", foreign); !errors.Is(err, ErrBad) {
		t.Errorf("ben's key under the id of ann's: %v", err)
	}
	for what, change := range map[string]func(*softkey.Key){
		"another origin":      func(k *softkey.Key) { k.Origin = "https://evil.example.com" },
		"another port":        func(k *softkey.Key) { k.Origin = "https://fairlead.example.com" },
		"another site":        func(k *softkey.Key) { k.RPID = "example.com" },
		"nobody was verified": func(k *softkey.Key) { k.Flags = softkey.Present },
		"nobody was present":  func(k *softkey.Key) { k.Flags = softkey.Verified },
		"a page of another":   func(k *softkey.Key) { k.Cross = true },
	} {
		wrong := *k
		change(&wrong)
		if err := b.Counts("ann", sign(&wrong)); !errors.Is(err, ErrBad) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, change := range map[string]func(*protocol.Passkey){
		"client data":   func(p *protocol.Passkey) { p.ClientData = sign(other).ClientData + "" },
		"its signature": func(p *protocol.Passkey) { p.Signature = sign(other).Signature },
		"public key":    func(p *protocol.Passkey) { p.PublicKey = other.PublicKey() },
		"data":          func(p *protocol.Passkey) { p.AuthenticatorData = "AAAA" },
	} {
		p := sign(k)
		change(&p)
		if what == "client data" { // that of another decision
			p.ClientData = k.Assert(Challenge(message("cancel"))).ClientData
		}
		if err := b.Counts("ann", p); !errors.Is(err, ErrBad) {
			t.Errorf("changed %s: %v", what, err)
		}
	}
	if _, err := b.Remove(t.Context(), "ann", k.ID(), "ann"); err != nil {
		t.Fatal(err)
	}
	if err := b.Counts("ann", sign(k)); !errors.Is(err, ErrRemoved) {
		t.Errorf("a removed passkey: %v", err)
	}
	// Another worker sees that, too, and so does one that has known the passkey.
	if err := newBook(m).Counts("ann", sign(k)); !errors.Is(err, ErrRemoved) {
		t.Errorf("a removed passkey at another worker: %v", err)
	}
	made, _ := Created(k.Created([]byte("c")), []byte("c"), site)
	if _, err := b.Add(t.Context(), "ann", "again", made); !errors.Is(err, ErrTaken) {
		t.Errorf("a removed passkey is added again: %v", err)
	}
}

func TestACounterThatDoesNotGrowIsRefused(t *testing.T) {
	b := newBook(&memory{m: map[string][]byte{}})
	k := newKey()
	k.Counter = 7
	made, err := Created(k.Created([]byte("c")), []byte("c"), site)
	if err == nil {
		_, err = b.Add(t.Context(), "", "key", made)
	}
	if err != nil {
		t.Fatal(err)
	}
	copied := *k
	first := k.Assert(Challenge(message("accept")))
	for range 2 { // a browser may repeat a request
		if p, err := b.Used(t.Context(), "", first); err != nil || p.PublicKey != k.PublicKey() {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	if _, err := b.Used(t.Context(), "", copied.Assert(Challenge(message("decline")))); !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), "a copy of it") {
		t.Errorf("a copy of the authenticator: %v", err)
	}
	if _, err := b.Used(t.Context(), "", k.Assert(Challenge(message("decline")))); err != nil {
		t.Errorf("the next assertion: %v", err)
	}
	if u, err := b.Last(t.Context(), made); err != nil || u.At.IsZero() && u.Counter == 0 {
		t.Errorf("the last use: %+v, %v", u, err)
	}
}

func TestPasskeysOfAStoreThatDoesNotAnswerDoNotCount(t *testing.T) {
	m := &memory{m: map[string][]byte{}}
	b := newBook(m)
	now := time.Now()
	b.now = func() time.Time { return now }
	k := registered(t, b, "ann", "laptop")
	p := k.Assert(Challenge(message("accept")))
	p.PublicKey = k.PublicKey()
	m.down = true
	if err := b.Counts("ann", p); err != nil {
		t.Errorf("soon after the store was read: %v", err)
	}
	now = now.Add(2 * stale)
	for range 2 {
		if err := b.Counts("ann", p); !errors.Is(err, ErrUnknown) {
			t.Errorf("long after the store was read: %v", err)
		}
	}
	if _, err := b.Used(t.Context(), "ann", p); !errors.Is(err, ErrUnknown) {
		t.Errorf("used: %v", err)
	}
}

func TestARecordThatCannotBeUsedStopsNobodyElse(t *testing.T) {
	m := &memory{m: map[string][]byte{}}
	k := registered(t, newBook(m), "ann", "laptop")
	registered(t, newBook(m), "ben", "phone")
	for key := range m.m {
		if strings.HasPrefix(key, folder+hexOf("ben")) {
			m.m[key] = []byte(`{"of a later release`)
		}
	}
	b := newBook(m) // of a worker that begins now
	p := k.Assert(Challenge(message("accept")))
	if _, err := b.Used(t.Context(), "ann", p); err != nil {
		t.Errorf("ann's passkey does not count: %v", err)
	}
	if all, err := b.Of(t.Context(), "ben"); err != nil || len(all) != 0 {
		t.Errorf("ben has %v (%v)", all, err)
	}
}

func TestPasskeysAreBounded(t *testing.T) {
	b := newBook(&memory{m: map[string][]byte{}})
	for i := range MaxKeys {
		registered(t, b, "ann", fmt.Sprint("key ", i))
	}
	made, _ := Created(newKey().Created([]byte("c")), []byte("c"), site)
	if _, err := b.Add(t.Context(), "ann", "one more", made); !errors.Is(err, ErrMany) {
		t.Errorf("one more: %v", err)
	}
	if _, err := b.Add(t.Context(), "ben", "key 1", made); err != nil {
		t.Errorf("another person: %v", err)
	}
	for _, name := range []string{"", " x", "a\nb", strings.Repeat("x", MaxName+1), "\u202eabc"} {
		if _, err := b.Add(t.Context(), "cat", name, made); !errors.Is(err, ErrBad) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	all, err := b.Of(t.Context(), "ann")
	if err != nil || len(all) != MaxKeys {
		t.Errorf("%d, %v", len(all), err)
	}
}

func TestASiteIsANameThatBrowsersKeepPasskeysFor(t *testing.T) {
	for address, want := range map[string]Site{
		"https://fairlead.example.com":     {"fairlead.example.com", "https://fairlead.example.com"},
		"https://fairlead.example.com:44/": {"fairlead.example.com", "https://fairlead.example.com:44"},
		"http://127.0.0.1:8080":            {"localhost", "http://localhost:8080"},
		"http://[::1]:8080":                {"localhost", "http://localhost:8080"},
		"http://localhost:8080":            {"localhost", "http://localhost:8080"},
	} {
		if got, err := SiteOf(address); err != nil || got != want {
			t.Errorf("%s: %+v, %v", address, got, err)
		}
	}
	for _, address := range []string{"", "x", "http://fairlead.example.com", "https://192.0.2.1", "http://192.0.2.1"} {
		if got, err := SiteOf(address); err == nil {
			t.Errorf("%s: %+v", address, got)
		}
	}
}

// Whatever a browser sends as an assertion, it is read within bounds, and counts only if the key
// signed it.
func FuzzAssertion(f *testing.F) {
	k := newKey()
	made, err := Created(k.Created([]byte("c")), []byte("c"), site)
	if err != nil {
		f.Fatal(err)
	}
	good := k.Assert(Challenge(message("accept")))
	raw, _ := json.Marshal(good)
	f.Add(raw)
	f.Add([]byte(`{"id":"` + good.ID + `","client_data":"e30","authenticator_data":"` + base64.RawURLEncoding.EncodeToString(make([]byte, 37)) + `","signature":"AA"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p protocol.Passkey
		if json.Unmarshal(raw, &p) != nil {
			return
		}
		for _, err := range []error{Of(p, message("accept")), Bounded(p)} {
			if err != nil && (!errors.Is(err, ErrBad) || len(err.Error()) > 1000) {
				t.Errorf("%v", err)
			}
		}
		if _, err := made.Verify(p); err == nil && (p.ClientData != good.ClientData || p.AuthenticatorData != good.AuthenticatorData) {
			t.Errorf("an assertion counts that nobody signed: %s", raw)
		}
	})
}

// Whatever a browser sends as a new credential is read within bounds.
func FuzzCreated(f *testing.F) {
	f.Add(newKey().Created([]byte("c")))
	f.Add([]byte(`{"id":"AA","rawId":"AA","type":"public-key","response":{"clientDataJSON":"e30","attestationObject":"oA"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if k, err := Created(raw, []byte("other"), site); err == nil || !errors.Is(err, ErrBad) {
			t.Errorf("%+v, %v", k, err)
		} else if len(err.Error()) > 1000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

func TestAnAssertionProvesItsDecisionWithoutTheStore(t *testing.T) {
	k := newKey()
	p := k.Assert(Challenge(message("accept")))
	p.PublicKey = k.PublicKey()
	if err := Proves(p, message("accept")); err != nil {
		t.Error(err)
	}
	if err := Proves(p, message("decline")); !errors.Is(err, ErrBad) {
		t.Errorf("of another decision: %v", err)
	}
	other := p
	other.PublicKey = newKey().PublicKey()
	if err := Proves(other, message("accept")); !errors.Is(err, ErrBad) {
		t.Errorf("of another key: %v", err)
	}
	k.RPID = "evil.example.com"
	elsewhere := k.Assert(Challenge(message("accept")))
	elsewhere.PublicKey = k.PublicKey()
	if err := Proves(elsewhere, message("accept")); !errors.Is(err, ErrBad) {
		t.Errorf("of another site: %v", err)
	}
}
