package dial

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/certs"
	"fairlead.dev/fairlead/internal/config"
)

// A stack's certificate is shown to the stack's own server, whichever source names its
// address, and to no other server.
func TestAStacksCertificateIsOnlyForItsServer(t *testing.T) {
	t.Setenv("TEMPORAL_CONFIG_FILE", t.TempDir()+"/none.toml")
	dir := t.TempDir()
	if _, err := certs.Ensure(dir, certs.Validity{}); err != nil {
		t.Fatal(err)
	}
	f := certs.In(dir)
	files := &config.TLS{CA: f.CA, Cert: f.Client, Key: f.Client}
	stack := Stack("127.0.0.1:7233", "", "", time.Time{}, files)
	named, err := Config(&config.Config{Temporal: config.Temporal{Address: "127.0.0.1:7233"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		sources []Source
		shown   bool
	}{
		"the stack alone":               {[]Source{stack}, true},
		"its address, typed":            {[]Source{Flags("127.0.0.1:7233", ""), stack}, true},
		"its address, in a config":      {[]Source{named, stack}, true},
		"another address":               {[]Source{Flags("temporal.example:7233", ""), stack}, false},
		"a stack of an earlier version": {[]Source{Stack("127.0.0.1:7233", "", "", time.Time{}, nil)}, false},
	} {
		got, err := Resolve(c.sources...)
		if err != nil {
			t.Fatal(err)
		}
		conf := got.ConnectionOptions.TLS
		if (conf != nil) != c.shown {
			t.Errorf("%s: TLS is %v, want %v", name, conf != nil, c.shown)
			continue
		}
		if conf != nil && (conf.GetClientCertificate == nil || conf.Certificates != nil || conf.VerifyConnection == nil || conf.ServerName != "127.0.0.1") {
			t.Errorf("%s: the files are not read at each handshake: %+v", name, conf)
		}
	}
	if _, err := Resolve(Stack("127.0.0.1:7233", "", "", time.Time{}, &config.TLS{CA: f.CA, Cert: filepath.Join(dir, "none"), Key: filepath.Join(dir, "none")})); err == nil {
		t.Error("a certificate that is not there was passed over")
	}
}

// What a config names is read anew, too.
func TestARenewedCertificateOfAConfigIsShown(t *testing.T) {
	t.Setenv("TEMPORAL_CONFIG_FILE", t.TempDir()+"/none.toml")
	dir := t.TempDir()
	if _, err := certs.Ensure(dir, certs.Validity{}); err != nil {
		t.Fatal(err)
	}
	f := certs.In(dir)
	s, err := Config(&config.Config{Temporal: config.Temporal{Address: "temporal.example:7233", TLS: &config.TLS{CA: f.CA, Cert: f.Client, Key: f.Client}}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Resolve(s)
	if err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		t.Helper()
		c, err := got.ConnectionOptions.TLS.GetClientCertificate(&tls.CertificateRequestInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.SerialNumber.String()
	}
	before := shown()
	other := t.TempDir()
	if _, err := certs.Ensure(other, certs.Validity{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(certs.In(other).Client, f.Client); err != nil {
		t.Fatal(err)
	}
	if shown() == before {
		t.Error("the certificate that was read at the start is still shown")
	}
}
