package command

import (
	"bytes"
	"encoding/json"
	"errors"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
)

// Evidence is what a command says about itself. Nothing of it is verified.
type Evidence struct {
	Args      string         // digest of the canonical arguments
	Auth      *protocol.Auth // nil if it is not signed
	Message   []byte         // what was signed
	Certified bool           // a certificate signed
}

// EvidenceOf returns what a command to a workflow says about itself.
func EvidenceOf(workflow, name string, raw []byte) (Evidence, error) {
	object, auth, err := split(raw)
	if err != nil {
		return Evidence{}, err
	}
	canonical, err := encode(object)
	if err != nil {
		return Evidence{}, err
	}
	e := Evidence{Args: digestOf(canonical), Auth: auth}
	if auth == nil {
		return e, nil
	}
	if e.Message, err = statement(*auth, workflow, name, canonical).Message(); err != nil {
		return e, nil // a field is missing: nothing can have been signed
	}
	if key, err := sshsig.KeyOf([]byte(auth.Signature), []byte(auth.Certificate)); err == nil {
		_, e.Certified = key.(*ssh.Certificate)
	}
	return e, nil
}

// ParseStatement reads a statement's message.
func ParseStatement(message []byte) (Statement, error) {
	var s Statement
	d := json.NewDecoder(bytes.NewReader(message))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return Statement{}, err
	}
	again, err := s.Message()
	if err == nil && !bytes.Equal(again, message) {
		err = errors.New("it is not canonical JSON")
	}
	return s, err
}
