// Package touchkey is a FIDO key in software, for tests: it signs as a key of type
// sk-ssh-ed25519 does, whether or not somebody touched it.
package touchkey

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Flags of a signature, which say what the owner did.
const (
	Touched  byte = 1
	Verified byte = 4 // by a PIN or a fingerprint
)

const application = "ssh:"

// A Key is an [ssh.Signer].
type Key struct {
	Flags byte // of its next signatures

	public  ssh.PublicKey
	private ed25519.PrivateKey
}

// New makes a key whose signatures have the flags.
func New(flags byte) (*Key, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Type        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, public, application}))
	return &Key{flags, key, private}, err
}

// PublicKey is that of an ssh.Signer.
func (k *Key) PublicKey() ssh.PublicKey { return k.public }

// Line returns the line of a .pub file.
func (k *Key) Line() string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.public))) }

// Sign makes a signature of the digests of the application and the data, the flags, and a counter.
func (k *Key) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	of, digest := sha256.Sum256([]byte(application)), sha256.Sum256(data)
	tail := binary.BigEndian.AppendUint32([]byte{k.Flags}, 7)
	blob := append(append(of[:], tail...), digest[:]...)
	return &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(k.private, blob), Rest: tail}, nil
}

// File returns the file of the private key, as ssh-keygen writes it. It has a handle for the
// device, and nothing that can sign.
func (k *Key) File() []byte {
	secret := ssh.Marshal(struct {
		Check1, Check2 uint32
		Type           string
		Key            []byte
		Application    string
		Flags          byte
		Handle         []byte
		Reserved       string
		Comment        string
	}{1, 1, ssh.KeyAlgoSKED25519, k.private.Public().(ed25519.PublicKey), application, Touched, []byte("handle"), "", "test"})
	for pad := byte(1); len(secret)%8 != 0; pad++ {
		secret = append(secret, pad)
	}
	raw := ssh.Marshal(struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public, Secret       []byte
	}{"none", "none", "", 1, k.public.Marshal(), secret})
	return pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: append([]byte("openssh-key-v1\x00"), raw...)})
}

// ServeAgent answers on a listener as an ssh-agent with this key alone, until the listener is
// closed.
func (k *Key) ServeAgent(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = agent.ServeAgent(keyring{agent.NewKeyring(), k}, conn) // ends when ctl hangs up
		}()
	}
}

// A keyring has the key, which the agent of x/crypto cannot hold.
type keyring struct {
	agent.Agent
	key *Key
}

func (r keyring) List() ([]*agent.Key, error) {
	return []*agent.Key{{Format: r.key.public.Type(), Blob: r.key.public.Marshal(), Comment: "test"}}, nil
}

func (r keyring) Sign(key ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	if string(key.Marshal()) != string(r.key.public.Marshal()) {
		return nil, errors.New("touchkey: not its key")
	}
	return r.key.Sign(nil, data)
}
