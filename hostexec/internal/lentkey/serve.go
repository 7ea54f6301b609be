package lentkey

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Bounds of one connection. An ssh client asks for three things: it binds, lists, and has
// its login signed.
const (
	maxRequests = 64
	maxMessage  = 32 << 10
	maxSession  = 64 // bytes of a session identifier, which is a hash
)

// Message numbers of draft-ietf-sshm-ssh-agent.
const (
	msgFailure          = 5
	msgSuccess          = 6
	msgRequestKeys      = 11
	msgKeys             = 12
	msgSign             = 13
	msgExtension        = 27
	msgExtensionFailure = 28
)

const sessionBind = "session-bind@openssh.com"

type signMsg struct {
	Key   []byte `sshtype:"13"`
	Data  []byte
	Flags uint32
}

type extensionMsg struct {
	Name     string `sshtype:"27"`
	Contents []byte `ssh:"rest"`
}

type bindMsg struct {
	Key       []byte
	Session   []byte
	Signature []byte
	Forwarded bool
}

// A connection is one of an ssh client to the server, as the server has signed it.
type connection struct{ key, session []byte }

// A borrower is a program on the host that has connected to the agent.
type borrower struct {
	loan    *Loan
	to      *connection // nil before the program has shown it
	unbound bool        // what the program has shown was refused
}

// Serve answers a program of the host until it hangs up.
func (l *Loan) Serve(conn io.ReadWriter) error {
	b := borrower{loan: l}
	for range maxRequests {
		msg, err := readMessage(conn)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			l.refuse("a message to the agent cannot be read: %v", err)
			return err
		}
		if err := writeMessage(conn, b.answer(msg)); err != nil {
			return err
		}
	}
	l.refuse("more than %d requests came on one connection to the agent", maxRequests)
	return fmt.Errorf("more than %d requests", maxRequests)
}

func readMessage(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n == 0 || n > maxMessage {
		return nil, fmt.Errorf("it has %d bytes, want 1 to %d", n, maxMessage)
	}
	msg := make([]byte, n)
	if _, err := io.ReadFull(r, msg); err != nil {
		return nil, errors.New("it is cut off")
	}
	return msg, nil
}

func writeMessage(w io.Writer, msg []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...))
	return err
}

func (b *borrower) answer(msg []byte) []byte {
	failed := func(code byte, err error) []byte {
		b.loan.refuse("%v", err)
		return []byte{code}
	}
	switch msg[0] {
	case msgRequestKeys:
		keys, err := b.loan.list()
		if err != nil {
			return failed(msgFailure, fmt.Errorf("the worker's agent does not list its keys: %w", err))
		}
		return keysAnswer(keys)
	case msgSign:
		var m signMsg
		if err := ssh.Unmarshal(msg, &m); err != nil {
			return failed(msgFailure, errors.New("a request to sign cannot be read"))
		}
		if b.to == nil && b.unbound {
			return []byte{msgFailure} // the reason is on record
		}
		sig, err := b.loan.sign(b.to, m.Key, m.Data)
		if err != nil {
			return failed(msgFailure, fmt.Errorf("asked to sign: %w", err))
		}
		return ssh.Marshal(struct {
			Signature []byte `sshtype:"14"`
		}{ssh.Marshal(sig)})
	case msgExtension:
		var m extensionMsg
		if err := ssh.Unmarshal(msg, &m); err != nil {
			return failed(msgExtensionFailure, errors.New("a request for an extension cannot be read"))
		}
		if m.Name != sessionBind {
			return failed(msgExtensionFailure, fmt.Errorf("asked for the extension %s: only %s is served", shown(m.Name), sessionBind))
		}
		if err := b.bind(m.Contents); err != nil {
			b.unbound = b.to == nil
			return failed(msgExtensionFailure, fmt.Errorf("asked to serve an ssh client: %w", err))
		}
		return []byte{msgSuccess}
	}
	return failed(msgFailure, fmt.Errorf("asked for request type %d: the agent lists one key and signs logins with it, and its keys cannot be changed", msg[0]))
}

func keysAnswer(keys []*agent.Key) []byte {
	msg := binary.BigEndian.AppendUint32([]byte{msgKeys}, uint32(len(keys)))
	for _, k := range keys {
		msg = append(msg, ssh.Marshal(struct {
			Blob    []byte
			Comment string
		}{k.Blob, k.Comment})...)
	}
	return msg
}

// bind takes a server's signature of the session identifier of the client's connection to
// it.
func (b *borrower) bind(contents []byte) error {
	terms := b.loan.terms
	var m bindMsg
	var sig ssh.Signature
	if ssh.Unmarshal(contents, &m) != nil || len(m.Session) == 0 || len(m.Session) > maxSession || ssh.Unmarshal(m.Signature, &sig) != nil {
		return errors.New("what it says of its connection cannot be read")
	}
	if b.to != nil {
		return errors.New("it names a second connection")
	}
	if m.Forwarded {
		return errors.New("it forwards the agent to another machine")
	}
	key, err := ssh.ParsePublicKey(m.Key)
	if err != nil {
		return errors.New("its server's key cannot be read")
	}
	if err := terms.Check(key); err != nil {
		return fmt.Errorf("it is connected to another server than %s: %w", terms.Server, err)
	}
	if sig.Format == ssh.KeyAlgoRSA {
		return fmt.Errorf("%s signed its connection with SHA-1", terms.Server)
	}
	if err := key.Verify(m.Session, &sig); err != nil {
		return fmt.Errorf("its connection is not signed by %s", terms.Server)
	}
	b.to = &connection{key: m.Key, session: m.Session}
	return nil
}
