package lentkey

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Methods of RFC 4252 and of OpenSSH's PROTOCOL.
const (
	methodPlain     = "publickey"
	methodHostBound = "publickey-hostbound-v00@openssh.com"
)

// userauthRequest is SSH_MSG_USERAUTH_REQUEST.
const userauthRequest = 50

// A login is what a client signs to log in.
type login struct {
	session   []byte
	user      string
	algorithm string
	key       []byte
	server    []byte // the server's key; nil if the method does not name it
}

type loginMsg struct {
	Session   []byte
	Type      byte
	User      string
	Service   string
	Method    string
	Signed    bool
	Algorithm string
	Key       []byte
	Rest      []byte `ssh:"rest"`
}

type serverMsg struct{ Key []byte }

// errSSHSIG says that a signature of a file or a message was asked for.
var errSSHSIG = errors.New("it is a signature of a file or a message (SSHSIG)")

// parseLogin reads what a client signs to log in with a key. It accepts only the one
// encoding that SSH has for it, so that nothing else can be meant by the same bytes.
func parseLogin(data []byte) (login, error) {
	if bytes.HasPrefix(data, []byte("SSHSIG")) {
		return login{}, errSSHSIG
	}
	var m loginMsg
	if ssh.Unmarshal(data, &m) != nil || !bytes.Equal(ssh.Marshal(m), data) {
		return login{}, errors.New("it is no message of SSH's user authentication")
	}
	l := login{session: m.Session, user: m.User, algorithm: m.Algorithm, key: m.Key}
	switch {
	case m.Type != userauthRequest:
		return login{}, fmt.Errorf("its message type is %d, not %d", m.Type, userauthRequest)
	case m.Service != "ssh-connection":
		return login{}, fmt.Errorf("it asks for the service %s, not for ssh-connection", shown(m.Service))
	case !m.Signed:
		return login{}, errors.New("it says that it has no signature")
	case m.Method == methodPlain:
		if len(m.Rest) > 0 {
			return login{}, errors.New("something follows the key")
		}
		return l, nil
	case m.Method == methodHostBound:
		var s serverMsg
		if ssh.Unmarshal(m.Rest, &s) != nil {
			return login{}, errors.New("the server's key in it cannot be read")
		}
		l.server = s.Key
		return l, nil
	}
	return login{}, fmt.Errorf("its method is %s, not %s", shown(m.Method), methodPlain)
}

// flagsFor returns what an agent needs to be told to sign by the algorithm. SHA-1 is
// refused.
func flagsFor(key ssh.PublicKey, algorithm string) (agent.SignatureFlags, error) {
	typ := key.Type()
	switch {
	case typ == ssh.KeyAlgoRSA && algorithm == ssh.KeyAlgoRSASHA256, typ == ssh.CertAlgoRSAv01 && algorithm == ssh.CertAlgoRSASHA256v01:
		return agent.SignatureFlagRsaSha256, nil
	case typ == ssh.KeyAlgoRSA && algorithm == ssh.KeyAlgoRSASHA512, typ == ssh.CertAlgoRSAv01 && algorithm == ssh.CertAlgoRSASHA512v01:
		return agent.SignatureFlagRsaSha512, nil
	case typ == algorithm && typ != ssh.KeyAlgoRSA && typ != ssh.CertAlgoRSAv01:
		return 0, nil
	}
	return 0, fmt.Errorf("the algorithm %s is not for a key of type %s, or is too weak", shown(algorithm), typ)
}

// shown quotes and shortens what a host wrote.
func shown(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%+q…", s[:most])
	}
	return fmt.Sprintf("%+q", s)
}
