package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"fairlead.dev/fairlead/deploy/devserver/internal/parked"
)

// certified writes an authority, and a certificate with its key in one file, for servers and
// clients.
func certified(t *testing.T, dir string) tlsFiles {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	write := func(name string, blocks ...*pem.Block) string {
		var text []byte
		for _, b := range blocks {
			text = append(text, pem.EncodeToMemory(b)...)
		}
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sign := func(template, parent *x509.Certificate, public *ecdsa.PublicKey, by *ecdsa.PrivateKey) *pem.Block {
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
		if err != nil {
			t.Fatal(err)
		}
		return &pem.Block{Type: "CERTIFICATE", Bytes: der}
	}
	caKey, leafKey := key(), key()
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}, KeyUsage: x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	caPath := write("ca.pem", sign(ca, ca, &caKey.PublicKey, caKey))
	pair := write("pair.pem", sign(leaf, ca, &leafKey.PublicKey, caKey), &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return tlsFiles{ca: caPath, cert: pair, key: pair}
}

// answers asks a listener for a namespace.
func answers(t *testing.T, address string, creds credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = workflowservice.NewWorkflowServiceClient(conn).DescribeNamespace(testContext(t), &workflowservice.DescribeNamespaceRequest{Namespace: "default"})
	return err
}

// The services inside have ports, too, which start workflows and show histories.
func TestWithCertificatesNoPortTakesAStranger(t *testing.T) {
	files, theirs := certified(t, t.TempDir()), certified(t, t.TempDir())
	p := startServer(t, "--headless", "--tls-ca", files.ca, "--tls-cert", files.cert, "--tls-key", files.key)
	ports := listeners(t, p.PID)
	if len(ports) != len(services) {
		t.Fatalf("%d ports, want one for each of the %d services", len(ports), len(services))
	}
	stranger := theirs.client("127.0.0.1")
	stranger.VerifyConnection = nil
	for _, address := range ports {
		for name, creds := range map[string]credentials.TransportCredentials{
			"in the clear":                 insecure.NewCredentials(),
			"without a certificate":        credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
			"with a certificate of others": credentials.NewTLS(stranger),
		} {
			if err := answers(t, address.String(), creds); err == nil {
				t.Errorf("%s, %s: taken", address, name)
			}
		}
		conn, err := tls.Dial("tcp", address.String(), files.client("127.0.0.1"))
		if err != nil {
			t.Errorf("%s, with our certificate: %v", address, err)
			continue
		}
		conn.Close()
	}
	if err := answers(t, p.Address, credentials.NewTLS(files.client("127.0.0.1"))); err != nil {
		t.Errorf("with our certificate: %v", err)
	}
}

// Workers poll, tasks go from history through matching to them, and the server's own worker
// is a client of the frontend: all of that goes by certificates, also after a replacement.
func TestCertificatesAreReplacedWhileTheServerRuns(t *testing.T) {
	dir := t.TempDir()
	files := certified(t, dir)
	p := startServer(t, "--tls-ca", files.ca, "--tls-cert", files.cert, "--tls-key", files.key)
	open := func() client.Client {
		t.Helper()
		c, err := client.DialContext(testContext(t), client.Options{HostPort: p.Address, Logger: silent{},
			ConnectionOptions: client.ConnectionOptions{TLS: files.client("127.0.0.1")}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	told := func(c client.Client, id string) {
		t.Helper()
		startWorkflow(t, c, id, parked.Notes)
		until(t, func(ctx context.Context) string {
			if _, err := notes(ctx, c, id); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	before := open()
	work(t, before)
	told(before, "first")
	certified(t, dir) // another authority, too
	told(before, "second")
	after := open()
	told(after, "third")
}
