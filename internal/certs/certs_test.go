package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// renewer is the environment variable of a process that renews the certificates in a folder
// until it is killed.
const renewer = "FAIRLEAD_TEST_RENEWS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(renewer); dir != "" {
		for now := time.Now(); ; now = now.Add(80 * 24 * time.Hour) {
			if _, err := ensure(dir, Validity{}, now); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println("renewed")
		}
	}
	os.Exit(m.Run())
}

func made(t *testing.T, dir string, now time.Time) bool {
	t.Helper()
	renewed, err := ensure(dir, Validity{}, now)
	if err != nil {
		t.Fatal(err)
	}
	return renewed
}

// pair reads a pair and verifies it with the authority in the folder.
func pair(path, ca string, now time.Time) (*x509.Certificate, error) {
	p, err := loadPair(path, path)
	if err != nil {
		return nil, err
	}
	roots, err := pool(ca)
	if err != nil {
		return nil, err
	}
	_, err = p.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return p.Leaf, err
}

func contents(t *testing.T, f Files) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range []string{f.AuthorityKey, f.CA, f.Server, f.Client} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(data)
	}
	return all
}

func TestCertificatesAreRenewedWellBeforeTheyEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	f, start := In(dir), time.Now()
	if !made(t, dir, start) {
		t.Error("nothing was made")
	}
	day := 24 * time.Hour
	last := contents(t, f)
	for at, want := range map[time.Duration][]string{0: nil, 59 * day: nil} {
		if made(t, dir, start.Add(at)) {
			t.Errorf("after %s something is renewed, want %v", at, want)
		}
	}
	if !made(t, dir, start.Add(61*day)) {
		t.Fatal("29 days before the end nothing is renewed")
	}
	now := contents(t, f)
	if now[f.Server] == last[f.Server] || now[f.Client] == last[f.Client] || now[f.CA] != last[f.CA] || now[f.AuthorityKey] != last[f.AuthorityKey] {
		t.Error("not the two certificates alone were renewed")
	}
	// The clock was wrong when they were made.
	if !made(t, dir, start.Add(-day)) {
		t.Error("certificates that are not valid yet are kept")
	}
}

// A program that still has the old certificate of the authority must get on with those that
// have the new one.
func TestARenewedAuthorityVouchesForWhatItSignedBefore(t *testing.T) {
	dir := t.TempDir()
	f, start := In(dir), time.Now()
	made(t, dir, start)
	old := filepath.Join(t.TempDir(), "old.pem")
	before := contents(t, f)
	if err := os.WriteFile(old, []byte(before[f.CA]), 0o600); err != nil {
		t.Fatal(err)
	}
	later := start.Add(7 * 365 * 24 * time.Hour)
	// Only the authority's own certificate is near its end.
	if _, err := ensure(dir, Validity{Leaf: 30 * 365 * 24 * time.Hour}, start.Add(61*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	leaf := contents(t, f)[f.Client]
	made(t, dir, later)
	after := contents(t, f)
	if after[f.CA] == before[f.CA] || after[f.AuthorityKey] != before[f.AuthorityKey] || after[f.Client] != leaf {
		t.Fatal("not the authority's certificate alone was renewed")
	}
	if _, err := pair(f.Client, f.CA, later); err != nil {
		t.Errorf("the new certificate does not vouch for what was signed before: %v", err)
	}
	if err := os.Remove(f.Client); err != nil {
		t.Fatal(err)
	}
	made(t, dir, later)
	if _, err := pair(f.Client, old, later); err != nil {
		t.Errorf("the old certificate does not vouch for what is signed now: %v", err)
	}
}

func TestWhatIsMissingOrDamagedIsMadeAnew(t *testing.T) {
	for _, damage := range []struct {
		name string
		do   func(path string) error
	}{
		{"missing", os.Remove},
		{"empty", func(path string) error { return os.WriteFile(path, nil, 0o600) }},
		{"cut", func(path string) error { return os.Truncate(path, 100) }},
		{"other words", func(path string) error { return os.WriteFile(path, []byte("nothing\n"), 0o600) }},
	} {
		for _, which := range []func(Files) string{
			func(f Files) string { return f.AuthorityKey }, func(f Files) string { return f.CA },
			func(f Files) string { return f.Server }, func(f Files) string { return f.Client },
		} {
			dir := t.TempDir()
			f, now := In(dir), time.Now()
			made(t, dir, now)
			if err := damage.do(which(f)); err != nil {
				t.Fatal(err)
			}
			if !made(t, dir, now) {
				t.Errorf("%s %s: nothing was made", damage.name, which(f))
			}
			for _, leaf := range []string{f.Server, f.Client} {
				if _, err := pair(leaf, f.CA, now); err != nil {
					t.Errorf("%s %s: %s: %v", damage.name, which(f), leaf, err)
				}
			}
			if made(t, dir, now) {
				t.Errorf("%s %s: something is made twice", damage.name, which(f))
			}
		}
	}
}

func TestOthersCannotReadWhatIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	f, now := In(dir), time.Now()
	made(t, dir, now)
	for path, want := range map[string]os.FileMode{dir: 0o700, f.AuthorityKey: 0o600, f.CA: 0o600, f.Server: 0o600, f.Client: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v (%v), want %v", path, info.Mode().Perm(), err, want)
		}
	}
	// A key that others may have read is worth nothing.
	was := contents(t, f)[f.Client]
	if err := os.Chmod(f.Client, 0o644); err != nil {
		t.Fatal(err)
	}
	if !made(t, dir, now) || contents(t, f)[f.Client] == was {
		t.Error("a key that others may read is kept")
	}
	if err := os.Chmod(f.AuthorityKey, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := ensure(dir, Validity{}, now); err == nil {
		t.Error("an authority's key that others may read is used")
	}
}

// Whoever reads a file while its writer is killed again and again finds a whole pair.
func TestAWriterThatIsKilledLeavesNothingHalfDone(t *testing.T) {
	dir := t.TempDir()
	f := In(dir)
	made(t, dir, time.Now())
	for range 12 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), renewer+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		word := make([]byte, len("renewed\n"))
		for range 3 {
			if _, err := io.ReadFull(out, word); err != nil {
				t.Fatalf("the writer ends by itself: %v", err)
			}
			for _, path := range []string{f.Server, f.Client} {
				if _, err := loadPair(path, path); err != nil {
					t.Errorf("while it is renewed: %v", err)
				}
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for _, path := range []string{f.Server, f.Client} {
			leaf, err := loadPair(path, path)
			if err != nil {
				t.Fatalf("after the writer was killed: %v", err)
			}
			if _, err := pair(path, f.CA, leaf.Leaf.NotBefore.Add(backdated)); err != nil {
				t.Errorf("after the writer was killed: %v", err)
			}
		}
	}
	made(t, dir, time.Now())
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) > 5 { // the four, and one that was not finished
		t.Errorf("the folder holds %v (%v)", left, err)
	}
}

// serve takes connections as a server of the stack does, and says hello.
func serve(t *testing.T, f Files) string {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		p, err := loadPair(f.Server, f.Server)
		if err != nil {
			return nil, err
		}
		roots, err := pool(f.CA)
		return &tls.Config{Certificates: []tls.Certificate{p}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				fmt.Fprint(c, "hello")
			}()
		}
	}()
	return ln.Addr().String()
}

func greeted(address string, conf *tls.Config) error {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", address, conf)
	if err != nil {
		return err
	}
	defer c.Close()
	said, err := io.ReadAll(c)
	if err == nil && !bytes.Equal(said, []byte("hello")) {
		err = errors.New("nothing was said")
	}
	return err
}

func TestAClientReadsItsFilesAtEachHandshake(t *testing.T) {
	dir := t.TempDir()
	f := In(dir)
	made(t, dir, time.Now())
	address := serve(t, f)
	conf := Client(f.CA, f.Client, f.Client, "127.0.0.1")
	if err := greeted(address, conf); err != nil {
		t.Fatal(err)
	}
	// Everything is another one now: also the authority.
	if err := os.Remove(f.AuthorityKey); err != nil {
		t.Fatal(err)
	}
	made(t, dir, time.Now())
	if err := greeted(address, conf); err != nil {
		t.Errorf("after a renewal: %v", err)
	}
	if err := CheckFiles(f.CA, f.Client, f.Client); err != nil {
		t.Errorf("files that can be used: %v", err)
	}
	// Files that cannot be used change nothing. The server reads its own ones.
	held := In(t.TempDir())
	for from, to := range map[string]string{f.CA: held.CA, f.Client: held.Client} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	conf = Client(held.CA, held.Client, held.Client, "127.0.0.1")
	for _, path := range []string{held.CA, held.Client} {
		if err := os.WriteFile(path, []byte("nothing"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := greeted(address, conf); err != nil {
			t.Errorf("without a good %s: %v", filepath.Base(path), err)
		}
		if err := CheckFiles(held.CA, held.Client, held.Client); err == nil {
			t.Errorf("a bad %s is not told", filepath.Base(path))
		}
	}
}

func TestNobodyElseIsTaken(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	f, g := In(ours), In(theirs)
	made(t, ours, time.Now())
	made(t, theirs, time.Now())
	address := serve(t, f)
	for name, conf := range map[string]*tls.Config{
		"no certificate":                 Client(f.CA, "", "", "127.0.0.1"),
		"a certificate of another stack": Client(f.CA, g.Client, g.Client, "127.0.0.1"),
		"a server of another stack":      Client(g.CA, f.Client, f.Client, "127.0.0.1"),
		"another name":                   Client(f.CA, f.Client, f.Client, "temporal.example"),
		"no name":                        Client(f.CA, f.Client, f.Client, ""),
	} {
		conf.ServerName = "127.0.0.1" // a name must be there; VerifyConnection has its own
		if err := greeted(address, conf); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	// A client's certificate is not one of a server.
	leaf, err := pair(f.Client, f.CA, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	roots, err := pool(f.CA)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		t.Error("a client can pose as the server")
	}
}
