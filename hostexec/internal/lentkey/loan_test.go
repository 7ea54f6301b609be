package lentkey

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// A scene has an agent with two keys, one of which is lent for logins to a server.
type scene struct {
	t            *testing.T
	keys         agent.ExtendedAgent
	lent, other  ssh.PublicKey
	server, evil ssh.Signer
	loan         *Loan
	told         []string
}

func signer(t *testing.T) (ssh.Signer, ed25519.PrivateKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s, private
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, keys: agent.NewKeyring().(agent.ExtendedAgent)}
	for _, k := range []*ssh.PublicKey{&s.lent, &s.other} {
		signs, private := signer(t)
		if err := s.keys.Add(agent.AddedKey{PrivateKey: private}); err != nil {
			t.Fatal(err)
		}
		*k = signs.PublicKey()
	}
	s.server, _ = signer(t)
	s.evil, _ = signer(t)
	s.lend(s.lent)
	return s
}

func (s *scene) lend(key ssh.PublicKey) {
	s.loan = New(Terms{
		Key: key, Server: "git.example:22", User: "git",
		Check: func(shown ssh.PublicKey) error {
			if bytes.Equal(shown.Marshal(), s.server.PublicKey().Marshal()) {
				return nil
			}
			return errors.New("it shows another key")
		},
	}, func(use func(agent.ExtendedAgent) error) error { return use(s.keys) },
		func(why string) { s.told = append(s.told, why) })
}

// connect returns a client of the lent agent.
func (s *scene) connect() (agent.ExtendedAgent, net.Conn) {
	s.t.Helper()
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer far.Close()
		_ = s.loan.Serve(far) // its refusals are looked at
	}()
	s.t.Cleanup(func() { near.Close(); <-served })
	return agent.NewClient(near), near
}

var session = bytes.Repeat([]byte{7}, 32)

// bind is what OpenSSH's client sends before it has anything signed.
func (s *scene) bind(server ssh.Signer, of []byte, forwarded bool) []byte {
	s.t.Helper()
	sig, err := server.Sign(rand.Reader, of)
	if err != nil {
		s.t.Fatal(err)
	}
	return ssh.Marshal(bindMsg{Key: server.PublicKey().Marshal(), Session: session, Signature: ssh.Marshal(sig), Forwarded: forwarded})
}

func (s *scene) login(change func(*loginMsg)) []byte {
	m := loginMsg{Session: session, Type: userauthRequest, User: "git", Service: "ssh-connection", Method: methodPlain, Signed: true,
		Algorithm: s.lent.Type(), Key: s.lent.Marshal()}
	if change != nil {
		change(&m)
	}
	return ssh.Marshal(m)
}

func (s *scene) refused(says string) {
	s.t.Helper()
	if !slices.ContainsFunc(s.loan.Refused(), func(why string) bool { return strings.Contains(why, says) }) {
		s.t.Errorf("no refusal says %q: %q", says, s.loan.Refused())
	}
	if !slices.Equal(s.told, s.loan.Refused()) {
		s.t.Errorf("told are %q, refused %q", s.told, s.loan.Refused())
	}
}

func TestALoginToTheServerIsSigned(t *testing.T) {
	for name, change := range map[string]func(*scene, *loginMsg){
		"plain": func(*scene, *loginMsg) {},
		"bound to the host": func(s *scene, m *loginMsg) {
			m.Method, m.Rest = methodHostBound, ssh.Marshal(serverMsg{s.server.PublicKey().Marshal()})
		},
	} {
		s := newScene(t)
		client, _ := s.connect()
		if _, err := client.Extension(sessionBind, s.bind(s.server, session, false)); err != nil {
			t.Fatalf("%s: bind: %v", name, err)
		}
		data := s.login(func(m *loginMsg) { change(s, m) })
		sig, err := client.Sign(s.lent, data)
		if err != nil {
			t.Fatalf("%s: %v, refused %q", name, err, s.loan.Refused())
		}
		if err := s.lent.Verify(data, sig); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if r := s.loan.Refused(); len(r) > 0 {
			t.Errorf("%s: refused %q", name, r)
		}
	}
}

func TestOnlyTheLentKeyIsListed(t *testing.T) {
	s := newScene(t)
	client, _ := s.connect()
	keys, err := client.List()
	if err != nil || len(keys) != 1 || !bytes.Equal(keys[0].Blob, s.lent.Marshal()) {
		t.Errorf("listed: %v, %v", keys, err)
	}
}

// Each case is a login that ought to be signed, but for one thing.
func TestNothingElseThanALoginToTheServerIsSigned(t *testing.T) {
	type request struct {
		bind      []byte // nil: the client does not bind
		key, data []byte
	}
	cases := map[string]struct {
		change func(*scene, *request)
		says   string
	}{
		"a file (SSHSIG)": {func(s *scene, r *request) {
			r.data = append([]byte("SSHSIG"), ssh.Marshal(struct{ Namespace, Reserved, Hash, Sum string }{"file", "", "sha512", "x"})...)
		}, "SSHSIG"},
		"any bytes":             {func(s *scene, r *request) { r.data = []byte("x") }, "no login"},
		"nothing":               {func(s *scene, r *request) { r.data = nil }, "no login"},
		"more behind the login": {func(s *scene, r *request) { r.data = append(r.data, 0) }, "follows the key"},
		"another encoding of TRUE": {func(s *scene, r *request) {
			r.data[bytes.Index(r.data, []byte(methodPlain+"\x01"))+len(methodPlain)] = 2
		}, "no message"},
		"a client that does not bind":  {func(s *scene, r *request) { r.bind = nil }, "OpenSSH 8.9"},
		"another server":               {func(s *scene, r *request) { r.bind = s.bind(s.evil, session, false) }, "another server"},
		"a server's signature of else": {func(s *scene, r *request) { r.bind = s.bind(s.server, []byte("another session"), false) }, "not signed by"},
		"forwarding it on":             {func(s *scene, r *request) { r.bind = s.bind(s.server, session, true) }, "forwards the agent"},
		"a bind that cannot be read":   {func(s *scene, r *request) { r.bind = []byte("x") }, "cannot be read"},
		"another key of the agent":     {func(s *scene, r *request) { r.key = s.other.Marshal() }, "another key"},
		"a key inside that is another": {func(s *scene, r *request) { r.data = s.login(func(m *loginMsg) { m.Key = s.other.Marshal() }) }, "another key"},
		"another connection":           {func(s *scene, r *request) { r.data = s.login(func(m *loginMsg) { m.Session = []byte("other") }) }, "another connection"},
		"another user":                 {func(s *scene, r *request) { r.data = s.login(func(m *loginMsg) { m.User = "root" }) }, `as "root"`},
		"another message":              {func(s *scene, r *request) { r.data = s.login(func(m *loginMsg) { m.Type = 51 }) }, "message type is 51"},
		"another service":              {func(s *scene, r *request) { r.data = s.login(func(m *loginMsg) { m.Service = "ssh-userauth" }) }, "service"},
		"another method":               {func(s *scene, r *request) { r.data = s.login(func(m *loginMsg) { m.Method = "hostbased" }) }, `method is "hostbased"`},
		"no signature":                 {func(s *scene, r *request) { r.data = s.login(func(m *loginMsg) { m.Signed = false }) }, "no signature"},
		"another algorithm":            {func(s *scene, r *request) { r.data = s.login(func(m *loginMsg) { m.Algorithm = ssh.KeyAlgoRSA }) }, "algorithm"},
		"a host-bound login to another": {func(s *scene, r *request) {
			r.data = s.login(func(m *loginMsg) {
				m.Method, m.Rest = methodHostBound, ssh.Marshal(serverMsg{s.evil.PublicKey().Marshal()})
			})
		}, "another server"},
		"a host-bound login to nobody": {func(s *scene, r *request) { r.data = s.login(func(m *loginMsg) { m.Method = methodHostBound }) }, "cannot be read"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			client, _ := s.connect()
			r := request{bind: s.bind(s.server, session, false), key: s.lent.Marshal(), data: s.login(nil)}
			c.change(s, &r)
			if r.bind != nil {
				_, _ = client.Extension(sessionBind, r.bind) // ssh goes on after a refusal, too
			}
			key := &agent.Key{Format: ssh.KeyAlgoED25519, Blob: r.key}
			if sig, err := client.Sign(key, r.data); err == nil {
				t.Errorf("signed: %v", sig)
			}
			s.refused(c.says)
		})
	}
}

func TestALentAgentCannotBeChanged(t *testing.T) {
	s := newScene(t)
	client, _ := s.connect()
	_, private := signer(t)
	for name, try := range map[string]func() error{
		"add":        func() error { return client.Add(agent.AddedKey{PrivateKey: private}) },
		"remove":     func() error { return client.Remove(s.lent) },
		"remove all": client.RemoveAll,
		"lock":       func() error { return client.Lock([]byte("x")) },
		"unlock":     func() error { return client.Unlock([]byte("x")) },
		"extend":     func() error { _, err := client.Extension("query", nil); return err },
	} {
		if try() == nil {
			t.Errorf("%s: it was done", name)
		}
	}
	s.refused("cannot be changed")
	s.refused(`extension "query"`)
	if keys, err := s.keys.List(); err != nil || len(keys) != 2 {
		t.Errorf("the agent has %d keys, %v", len(keys), err)
	}
}

func TestAConnectionIsBoundOnce(t *testing.T) {
	s := newScene(t)
	client, _ := s.connect()
	if _, err := client.Extension(sessionBind, s.bind(s.server, session, false)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Extension(sessionBind, s.bind(s.server, session, false)); err == nil {
		t.Error("bound twice")
	}
	s.refused("second connection")
	// What one program has shown does not count for another one.
	another, _ := s.connect()
	if _, err := another.Sign(s.lent, s.login(nil)); err == nil {
		t.Error("another program's login was signed")
	}
}

// With RSA the login names the hash, and SHA-1 is not signed.
func TestRSASignsWithTheHashThatTheLoginNames(t *testing.T) {
	s := newScene(t)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signs, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.keys.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	s.lent = signs.PublicKey()
	s.lend(s.lent)
	client, _ := s.connect()
	if _, err := client.Extension(sessionBind, s.bind(s.server, session, false)); err != nil {
		t.Fatal(err)
	}
	for _, algorithm := range []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512} {
		sig, err := client.Sign(s.lent, s.login(func(m *loginMsg) { m.Algorithm = algorithm }))
		if err != nil || sig.Format != algorithm {
			t.Errorf("%s: signed %+v, %v", algorithm, sig, err)
		}
	}
	if _, err := client.Sign(s.lent, s.login(nil)); err == nil {
		t.Error("signed with SHA-1")
	}
	s.refused("too weak")
}

func TestALoanIsBounded(t *testing.T) {
	s := newScene(t)
	_, conn := s.connect()
	if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, maxMessage+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a message that is too long was answered")
	}
	s.refused("cannot be read")

	client, _ := s.connect()
	asked := 0
	for ; asked < 2*maxRequests; asked++ {
		if _, err := client.List(); err != nil {
			break
		}
	}
	if asked != maxRequests {
		t.Errorf("%d requests were answered, want %d", asked, maxRequests)
	}
	s.refused("more than 64 requests")

	for i := range 3 * maxRefusals {
		client, _ := s.connect()
		if _, err := client.Sign(s.lent, s.login(func(m *loginMsg) { m.Type = byte(100 + i) })); err == nil {
			t.Error("signed")
		}
	}
	if n := len(s.loan.Refused()); n != maxRefusals {
		t.Errorf("%d refusals are kept, want %d", n, maxRefusals)
	}

	s.loan.signed = maxSigned
	client, _ = s.connect()
	if _, err := client.Extension(sessionBind, s.bind(s.server, session, false)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Sign(s.lent, s.login(nil)); err == nil {
		t.Error("more logins were signed than a loan has")
	}
}

// FuzzParseLogin looks that what is accepted has one encoding and is no SSHSIG.
func FuzzParseLogin(f *testing.F) {
	key := append(binary.BigEndian.AppendUint32(nil, 11), "ssh-ed25519"...)
	f.Add(ssh.Marshal(loginMsg{Session: session, Type: userauthRequest, User: "git", Service: "ssh-connection", Method: methodPlain, Signed: true, Algorithm: ssh.KeyAlgoED25519, Key: key}))
	f.Add(ssh.Marshal(loginMsg{Session: session, Type: userauthRequest, User: "git", Service: "ssh-connection", Method: methodHostBound, Signed: true, Algorithm: ssh.KeyAlgoED25519, Key: key, Rest: ssh.Marshal(serverMsg{key})}))
	f.Add([]byte("SSHSIG\x00\x00\x00\x04file"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := parseLogin(data)
		if err != nil {
			return
		}
		m := loginMsg{Session: l.session, Type: userauthRequest, User: l.user, Service: "ssh-connection", Method: methodPlain, Signed: true, Algorithm: l.algorithm, Key: l.key}
		if l.server != nil {
			m.Method, m.Rest = methodHostBound, ssh.Marshal(serverMsg{l.server})
		}
		if !bytes.Equal(ssh.Marshal(m), data) || bytes.HasPrefix(data, []byte("SSHSIG")) {
			t.Errorf("%q was read as %+v", data, l)
		}
	})
}

// FuzzServe looks that a host cannot stop the worker, or have anything signed that is no
// login, whatever it writes.
func FuzzServe(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01\x0b"))
	f.Add([]byte("\x00\x00\x00\x05\x0d\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x1d\x1b\x00\x00\x00\x18session-bind@openssh.com"))
	f.Fuzz(func(t *testing.T, data []byte) {
		signed := false
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		key, err := ssh.NewSignerFromKey(private)
		if err != nil {
			t.Fatal(err)
		}
		loan := New(Terms{Key: key.PublicKey(), Check: func(ssh.PublicKey) error { return nil }},
			func(use func(agent.ExtendedAgent) error) error { signed = true; return errors.New("no agent") }, func(string) {})
		var out bytes.Buffer
		_ = loan.Serve(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(data), &out})
		if signed && !bytes.Contains(data, []byte{msgRequestKeys}) {
			t.Errorf("%q reached the agent", data)
		}
	})
}
