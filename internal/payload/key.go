package payload

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/secretfile"
)

// A Key encrypts payloads. It prints as its id.
type Key struct {
	id     string
	secret [keySize]byte
}

const keyPrefix = "FAIRLEAD-PAYLOAD-KEY-"

func newKey(secret []byte) Key {
	sum := sha256.Sum256(append([]byte("fairlead payload key id\x00"), secret...))
	k := Key{id: hex.EncodeToString(sum[:8])}
	copy(k.secret[:], secret)
	return k
}

// ID identifies the key and reveals nothing about it.
func (k Key) ID() string { return k.id }

// String returns the id, in case a key is printed by accident.
func (k Key) String() string { return "payload key " + k.id }

// GoString is like String.
func (k Key) GoString() string { return k.String() }

// GenerateKey makes a key file of mode 0600 and syncs it. It never overwrites a file
// (fs.ErrExist): histories need the old key.
func GenerateKey(path string) (_ Key, err error) {
	defer wrap(&err, "make a payload key")
	secret := make([]byte, keySize)
	rand.Read(secret)
	k := newKey(secret)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Key{}, err
	}
	// The file gets its name when it is complete.
	f, err := os.CreateTemp(filepath.Dir(path), ".payload-key-*")
	if err != nil {
		return Key{}, err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintf(f, "# Made %s: %s. The first key encrypts, all decrypt.\n# Without it what Temporal keeps of sessions cannot be read.\n%s%s\n",
		time.Now().UTC().Format(time.RFC3339), k, keyPrefix, base64.RawURLEncoding.EncodeToString(secret))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return Key{}, err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return Key{}, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return Key{}, err
	}
	return k, errors.Join(dir.Sync(), dir.Close())
}

// LoadKeys reads a key file, but not one that others may read. An empty path means no keys.
func LoadKeys(path string) (_ []Key, err error) {
	if path == "" {
		return nil, nil
	}
	defer wrap(&err, "read the payload keys")
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if secretfile.Exposed(info) {
		return nil, fmt.Errorf("others may read %s (mode %04o): chmod 600 %s", path, info.Mode().Perm(), path)
	}
	if info.Size() > 64<<10 {
		return nil, fmt.Errorf("%s has %d bytes: %w", path, info.Size(), ErrKeyFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// parseKeys does not quote the file in errors.
func parseKeys(data []byte) ([]Key, error) {
	var keys []Key
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		text, ok := strings.CutPrefix(line, keyPrefix)
		secret, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if !ok || err != nil || len(secret) != keySize {
			return nil, fmt.Errorf("line %d is no key (%s and 43 characters): %w", n, keyPrefix, ErrKeyFile)
		}
		k := newKey(secret)
		if slices.ContainsFunc(keys, func(other Key) bool { return other.id == k.id }) {
			return nil, fmt.Errorf("line %d repeats the %s: %w", n, k, ErrKeyFile)
		}
		keys = append(keys, k)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("a line is too long: %w", ErrKeyFile)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("it holds no key: %w", ErrKeyFile)
	}
	return keys, nil
}

func wrap(err *error, doing string) {
	if *err != nil && !errors.Is(*err, fs.ErrExist) {
		*err = fmt.Errorf("%s: %w", doing, *err)
	}
}
