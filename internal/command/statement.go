package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Namespace is the SSH namespace of commands. So a signature for a decision, a login or a
// commit is none for a command.
const Namespace = "fairlead-command@fairlead.dev"

// A Kind is the kind of message as which a command comes.
type Kind string

// The kinds. A command that names none counts as any of them, for MaxSkew.
const (
	Update Kind = "update"
	Signal Kind = "signal"
	Start  Kind = "start"
)

func (k Kind) known() bool { return k == "" || k == Update || k == Signal || k == Start }

// A Statement is what a principal signs.
type Statement struct {
	Args      string   `json:"args"`             // SHA-256 of the canonical arguments, in hex
	At        string   `json:"at"`               // RFC 3339, in UTC
	Groups    []string `json:"groups,omitempty"` // of the principal, if a worker signs
	Kind      Kind     `json:"kind,omitempty"`   // of message
	Name      string   `json:"name"`             // of the signal, the update or the workflow's type
	Nonce     string   `json:"nonce"`
	Principal string   `json:"principal"`
	Workflow  string   `json:"workflow"` // its id
}

// Message returns the canonical JSON of a statement: sorted keys, no spaces, no line end. To
// sign one by hand:
//
//	printf %s '{"args":"…","at":"…","kind":"signal","name":"interrupt","nonce":"…","principal":"alice","workflow":"session/s1"}' |
//		ssh-keygen -Y sign -n fairlead-command@fairlead.dev -f KEY
func (s Statement) Message() ([]byte, error) {
	if !s.Kind.known() {
		return nil, fmt.Errorf("a signed command is an update, a signal or a start, and not %.40q", s.Kind)
	}
	for _, part := range append([]string{s.Args, s.At, s.Name, s.Nonce, s.Principal, s.Workflow}, s.Groups...) {
		switch {
		case part == "":
			return nil, errors.New("a signed command names its principal, its workflow, what it does, its time and a nonce")
		case !utf8.ValidString(part): // two such strings could be the same JSON
			return nil, errors.New("a signed command is text in UTF-8")
		}
	}
	return encode(s)
}

// digestOf returns the digest of canonical arguments.
func digestOf(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

const (
	// MaxArgs bounds the arguments of a signed command, in bytes. Temporal takes at most
	// 2 MiB.
	MaxArgs  = 2 << 20
	maxDepth = 200
)

// Canonical returns the JSON of a value with sorted keys, no spaces, numbers as written, and
// only those escapes that JSON needs. A key that occurs twice in an object is refused, since
// programs differ in which of the two counts.
func Canonical(raw []byte) ([]byte, error) {
	v, err := decode(raw)
	if err != nil {
		return nil, err
	}
	return encode(v)
}

//workflowcheck:ignore // a pure function
func decode(raw []byte) (any, error) {
	if len(raw) > MaxArgs {
		return nil, fmt.Errorf("%d bytes are too many: %d at most", len(raw), MaxArgs)
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := value(d, 0)
	if err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("it has more than one JSON value")
	}
	if _, err := d.Token(); err == nil {
		return nil, errors.New("it has more than one JSON value")
	}
	return v, nil
}

func value(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	switch t {
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, fmt.Errorf("it is not JSON: %w", err)
			}
			key, ok := k.(string)
			if !ok {
				return nil, errors.New("it is not JSON: a key is not a string")
			}
			if _, twice := object[key]; twice {
				return nil, fmt.Errorf("the field %.100q occurs twice", key)
			}
			if object[key], err = value(d, depth+1); err != nil {
				return nil, err
			}
		}
		return object, end(d)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := value(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, end(d)
	}
	return t, nil
}

func end(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	return nil
}

//workflowcheck:ignore // a pure function
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// timeText is how Statement.At is written.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
