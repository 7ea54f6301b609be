package sshsig

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"io"

	"golang.org/x/crypto/ssh"
)

// Sign signs as a security key does. The signed bytes are the digest of the application,
// the flags with what the owner did, a counter, and the digest of the data.
func (k *touchKey) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	application, digest := sha256.Sum256([]byte("ssh:")), sha256.Sum256(data)
	tail := binary.BigEndian.AppendUint32([]byte{k.flags}, 7)
	blob := append(append(application[:], tail...), digest[:]...)
	return &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(k.key, blob), Rest: tail}, nil
}
