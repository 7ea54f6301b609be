package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIdentityIsWrittenOnceAndForUsAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "identity.txt")
	id, err := GenerateIdentity(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := GenerateIdentity(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("again: %v; want fs.ErrExist", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	ids, err := LoadIdentities(path)
	if err != nil || len(ids) != 1 {
		t.Fatalf("loaded %d, %v", len(ids), err)
	}
	recipients, err := RecipientsOf(ids)
	if err != nil || len(recipients) != 1 {
		t.Fatalf("recipients: %d, %v", len(recipients), err)
	}
	opts := Options{URL: "mem://", Recipients: recipients, Identities: ids}
	open(t, opts)
	parsed, err := ParseRecipients(id.Recipient().String())
	if err != nil || len(parsed) != 1 {
		t.Errorf("parsed %d, %v", len(parsed), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside it: %v, %v", entries, err)
	}
}

func TestIdentityThatOthersReadIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.txt")
	if _, err := GenerateIdentity(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadIdentities(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("got %v", err)
	}
}

func TestIdentityIsNeverInAnError(t *testing.T) {
	const secret = "AGE-SECRET-KEY-1QQQQ"
	path := filepath.Join(t.TempDir(), "identity.txt")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errFile := LoadIdentities(path)
	_, errRecipient := ParseRecipients(secret)
	for _, err := range []error{errFile, errRecipient} {
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v", err)
		}
	}
}
