package teamtool

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// A QueueKey is shared with the workers of a team. It encrypts the arguments and the answers
// of their activities as the codec in the encryption samples of Temporal's SDKs does:
// AES-256-GCM, with the nonce before the ciphertext. So a team can take that codec as it is,
// in each language.
type QueueKey struct {
	ID  string
	key []byte
}

const queueKeySize = 32

var queueKeyID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)

// ReadQueueKeys reads a file with one to four keys, one in a line: ID:BASE64, of 32 bytes. The
// first encrypts, and all decrypt. No error contains a key.
func ReadQueueKeys(name string) ([]QueueKey, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return nil, err
	}
	var all []QueueKey
	for _, line := range strings.Fields(string(data)) {
		id, encoded, ok := strings.Cut(line, ":")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) != queueKeySize || !queueKeyID.MatchString(id) {
			return nil, fmt.Errorf("%s: line %d is not an id, a colon, and base64 of %d bytes", name, len(all)+1, queueKeySize)
		}
		for _, k := range all {
			if k.ID == id {
				return nil, fmt.Errorf("%s: line %d has the id of another key", name, len(all)+1)
			}
		}
		all = append(all, QueueKey{ID: id, key: key})
	}
	switch {
	case len(all) == 0:
		return nil, errors.New(name + " has no key")
	case len(all) > maxSecrets:
		return nil, fmt.Errorf("%s has more than %d keys", name, maxSecrets)
	}
	return all, nil
}

func (k QueueKey) cipher() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Seal encrypts. Random nonces are safe for four thousand million calls under one key.
func (k QueueKey) Seal(plain []byte) ([]byte, error) {
	gcm, err := k.cipher()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, gcm.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return gcm.Seal(nonce, nonce, plain, nil), nil
}

// Open decrypts.
func (k QueueKey) Open(sealed []byte) ([]byte, error) {
	gcm, err := k.cipher()
	if err != nil {
		return nil, err
	}
	if len(sealed) < gcm.NonceSize() {
		return nil, errors.New("it is too short to be encrypted")
	}
	plain, err := gcm.Open(nil, sealed[:gcm.NonceSize()], sealed[gcm.NonceSize():], nil)
	if err != nil {
		return nil, fmt.Errorf("it is not encrypted with the key %s", k.ID)
	}
	return plain, nil
}
