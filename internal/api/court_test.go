package api

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/tokens"
)

// people of the access file below, and the seeds of their keys.
var people = map[string]byte{"ann": 1, "vic": 2, "olga": 3, "own": 4, "nobody": 5, "stranger": 6, "worker": 7, "authority": 8}

func keyOf(t testing.TB, who string) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{people[who]}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// accessFile has an admin, a viewer, an operator, and one who may do all to sessions that
// are their own. nobody is known and may do nothing, and the stranger is not known.
func accessFile(t testing.TB, more string) *access.Access {
	t.Helper()
	a, err := access.Parse([]byte(accessText(t, more)))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func accessText(t testing.TB, more string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("people:\n")
	for _, who := range []string{"ann", "vic", "olga", "own", "nobody"} {
		fmt.Fprintf(&b, "  - {name: %s, keys: [%q]}\n", who, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(keyOf(t, who).PublicKey()))))
	}
	fmt.Fprintf(&b, "authorities: [{key: %q, names: ['token:*']}]\n", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(keyOf(t, "authority").PublicKey()))))
	b.WriteString(`bindings:
  - {name: admins, roles: [admin], to: [ann]}
  - {name: viewers, roles: [viewer], to: [vic]}
  - {name: operators, roles: [operator], to: [olga]}
  - {name: own sessions, roles: [operator], to: [own], when: owner == who}
` + more)
	return b.String()
}

// A law is an Authority whose file a test can change.
type law struct {
	sync.Mutex
	a    *access.Access
	book *tokens.Book
}

func (l *law) keeper() *authority.Keeper {
	k := authority.Fixed(l.Current(), time.Now)
	if l.book != nil {
		k.Know(l.book)
	}
	return k
}

func (l *law) Ended(who string) string { return l.keeper().Ended(who) }

func (l *law) set(a *access.Access) {
	l.Lock()
	defer l.Unlock()
	l.a = a
}

func (l *law) Current() *access.Access {
	l.Lock()
	defer l.Unlock()
	return l.a
}

func (l *law) Decide(r access.Request) access.Answer {
	return l.keeper().Decide(r)
}
func (l *law) Could(r access.Request) access.Answer {
	return l.keeper().Could(r)
}

// things are Objects by name. A name without an object is one that Temporal does not know.
type things struct {
	sync.Mutex
	objects map[string]access.Object
	err     error
	asked   int
}

func (o *things) get(name string) (access.Object, bool, error) {
	o.Lock()
	defer o.Unlock()
	o.asked++
	v, ok := o.objects[name]
	return v, ok, o.err
}

func (o *things) Session(_ context.Context, id string) (access.Object, bool, error) {
	return o.get("session/" + id)
}

func (o *things) Batch(_ context.Context, id string) (access.Object, bool, error) {
	return o.get("batch/" + id)
}

func (o *things) Host(_ context.Context, name string) (access.Object, bool, error) {
	return o.get("host/" + name)
}

func (o *things) Login(_ context.Context, host, id string) (access.Object, bool, error) {
	return o.get("host/" + host + "/" + id)
}

// A court is a bench with an authority.
type court struct {
	*bench
	law    *law
	things *things
}

func lockedBench(t *testing.T, change ...func(*Options)) *court {
	c := &court{law: &law{a: accessFile(t, "")}, things: &things{objects: map[string]access.Object{
		"session/s1": {Session: "s1", Owner: "own"}, "session/s2": {Session: "s2", Owner: "olga"},
		"batch/b1": {Owner: "own"},
	}}}
	c.bench = serve(t, func(o *Options) {
		o.Authority, o.Objects, o.Recheck = c.law, c.things, 20*time.Millisecond
		o.Workspaces = emptyFolders{}
		c.law.book = tokens.Open(o.Store, slog.New(slog.DiscardHandler))
		if err := c.law.book.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.Tokens, o.Certify = c.law.book, func(principal, key string, life time.Duration) (string, error) {
			return fmt.Sprint("certificate of ", principal, " for ", key, " ", life.Round(time.Minute)), nil
		}
		for _, f := range change {
			f(o)
		}
	})
	return c
}

// emptyFolders are work folders without files.
type emptyFolders struct{}

func (emptyFolders) WorkDiff(context.Context, string, bool) (protocol.WorkDiff, error) {
	return protocol.WorkDiff{}, nil
}
func (emptyFolders) FetchFiles(context.Context, string, []string, bool, io.Writer) error { return nil }

// as returns a client whose requests somebody signs.
func (c *court) as(who string) *Client {
	c.Helper()
	key := keyOf(c, who)
	client, err := NewClient(c.server.Address(), ClientOptions{Patience: 20 * time.Second, Sign: func(_ context.Context, r command.Request) (string, error) {
		return command.SignRequest(key, who, r, time.Now())
	}})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { client.Close() })
	return client
}

// raw makes one request with these headers, and returns its status and body.
func (c *court) raw(method, target string, body string, header http.Header) (int, string) {
	c.Helper()
	path := strings.TrimPrefix(c.server.Address(), "unix://")
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	defer tr.CloseIdleConnections()
	r, err := http.NewRequestWithContext(c.Context(), method, "http://worker"+target, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	for k, v := range header {
		r.Header[k] = v
	}
	resp, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func (c *court) signed(who, method, target, body string, at time.Time) http.Header {
	c.Helper()
	h, err := command.SignRequest(keyOf(c, who), who, command.Request{Method: method, Target: target, Worker: c.server.id, Body: command.BodyDigest([]byte(body))}, at)
	if err != nil {
		c.Fatal(err)
	}
	return http.Header{http.CanonicalHeaderKey(command.RequestHeader): {h}}
}
