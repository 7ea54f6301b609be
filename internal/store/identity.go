package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/secretfile"
)

// GenerateIdentity writes a new age X25519 identity to path (0600) and syncs it. It never
// overwrites a file (fs.ErrExist): a store is unreadable without its old identity.
func GenerateIdentity(path string) (_ *age.X25519Identity, err error) {
	defer wrap(&err, "generate identity "+path)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	if err := mkdirAll(filepath.Dir(path)); err != nil {
		return nil, err
	}
	// The file is whole or absent: a torn identity would go unnoticed until it is needed.
	f, err := os.CreateTemp(filepath.Dir(path), ".identity-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintf(f, "# created: %s\n# public key: %s\n%s\n",
		time.Now().UTC().Format(time.RFC3339), id.Recipient(), id)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return nil, err
	}
	return id, syncDir(filepath.Dir(path))
}

// LoadIdentities reads an age identity file. It refuses one that others may read.
func LoadIdentities(path string) (_ []age.Identity, err error) {
	defer wrap(&err, "load identity")
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if secretfile.Exposed(info) {
		return nil, fmt.Errorf("%s may be read by others: mode %v (chmod 600 it)", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	ids, err := age.ParseIdentities(bytes.NewReader(data))
	if err != nil {
		// The parser's message may quote the secret line.
		return nil, fmt.Errorf("%s: %w", path, ErrIdentityFile)
	}
	return ids, nil
}

// RecipientsOf returns the recipients of identities.
func RecipientsOf(ids []age.Identity) ([]age.Recipient, error) {
	var found []age.Recipient
	for _, id := range ids {
		switch id := id.(type) {
		case *age.X25519Identity:
			found = append(found, id.Recipient())
		case *age.HybridIdentity:
			found = append(found, id.Recipient())
		default:
			return nil, fmt.Errorf("identity of type %T does not tell its recipient (name the recipients in the config)", id)
		}
	}
	return found, nil
}

// ParseRecipients parses recipients of a config: "age1…".
func ParseRecipients(lines ...string) ([]age.Recipient, error) {
	var found []age.Recipient
	for _, line := range lines {
		if strings.Contains(strings.ToUpper(line), "SECRET-KEY") {
			return nil, errors.New("the recipient is a secret identity (use its public key, age1…)")
		}
		more, err := age.ParseRecipients(strings.NewReader(line))
		if err != nil {
			return nil, fmt.Errorf("recipient %q: %w", clip(line), err)
		}
		found = append(found, more...)
	}
	return found, nil
}
