package sshsig

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/lab/touchkey"
)

// An agent's signature by a FIDO key has the flags and the counter of the key.
func TestAnAgentSignsWithAFIDOKey(t *testing.T) {
	k, err := touchkey.New(touchkey.Touched)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "fl-agent") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go k.ServeAgent(l)
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	signer, err := FromAgent(conn, Choice{Public: []byte(k.Line())})
	if err != nil {
		t.Fatal(err)
	}
	allowed := allow(t, "alice "+k.Line())
	for flags, want := range map[byte]error{touchkey.Touched: nil, 0: ErrWrong} {
		k.Flags = flags
		armored, err := Sign(signer, Namespace, message)
		if err != nil {
			t.Fatal(err)
		}
		if who, err := Verify(armored, Namespace, message, allowed, noon); !errors.Is(err, want) || (who == "alice") != (want == nil) {
			t.Errorf("flags %d: %q, %v, want %v", flags, who, err, want)
		}
	}
}

func TestAFileOfAFIDOKeyIsToldFromOthers(t *testing.T) {
	k, err := touchkey.New(touchkey.Touched)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, k.File(), 0o600); err != nil {
		t.Fatal(err)
	}
	if line := mustKeygen(t, nil, "-y", "-f", file); !strings.HasPrefix(string(line), k.Line()) {
		t.Fatalf("ssh-keygen reads this test's file as %s", line)
	}
	if key, is := DeviceKey(k.File()); !is || !bytes.Equal(key.Marshal(), k.PublicKey().Marshal()) {
		t.Errorf("%v, %v", key, is)
	}
	mustKeygen(t, nil, "-p", "-q", "-P", "", "-N", "open sesame", "-f", file)
	if key, is := DeviceKey(read(t, file)); !is || !bytes.Equal(key.Marshal(), k.PublicKey().Marshal()) {
		t.Errorf("encrypted: %v, %v", key, is)
	}
	plain := newPair(t, "ed25519")
	for what, data := range map[string][]byte{"another key": read(t, plain.file), "a public key": []byte(k.Line()), "nothing": nil,
		"an end too early": bytes.Replace(k.File(), []byte("\n"), []byte("\nAAAA"), 1)} {
		if key, is := DeviceKey(data); is {
			t.Errorf("%s is taken for %s", what, ssh.FingerprintSHA256(key))
		}
	}
}
