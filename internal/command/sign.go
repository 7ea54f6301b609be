package command

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
)

// authField is the field of a command that has its [protocol.Auth].
const authField = "auth"

// Sign returns args, a JSON object, with a signature by principal for the command name to a
// workflow. The key may be a certificate's.
func Sign(key ssh.Signer, principal, workflow, name string, args []byte, now time.Time) (json.RawMessage, error) {
	return SignFor(key, principal, nil, workflow, name, args, now)
}

// SignFor is Sign by a worker, for a person whose login named groups.
func SignFor(key ssh.Signer, principal string, groups []string, workflow, name string, args []byte, now time.Time) (json.RawMessage, error) {
	return SignAs("", key, principal, groups, workflow, name, args, now)
}

// SignAs is SignFor a command that counts as one kind of message.
func SignAs(kind Kind, key ssh.Signer, principal string, groups []string, workflow, name string, args []byte, now time.Time) (json.RawMessage, error) {
	object, auth, err := split(args)
	switch {
	case err != nil:
		return nil, fmt.Errorf("sign %s: its arguments: %w", name, err)
	case auth != nil:
		return nil, fmt.Errorf("sign %s: it is signed already", name)
	}
	canonical, err := encode(object)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	a := protocol.Auth{Principal: principal, At: timeText(now), Nonce: rand.Text(), Kind: string(kind), Groups: groups}
	message, err := statement(a, workflow, name, canonical).Message()
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	armored, err := sshsig.Sign(key, Namespace, message)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	a.Signature = string(armored)
	object[authField] = a
	return encode(object)
}

func statement(a protocol.Auth, workflow, name string, canonical []byte) Statement {
	return Statement{Args: digestOf(canonical), At: a.At, Groups: a.Groups, Kind: Kind(a.Kind), Name: name, Nonce: a.Nonce, Principal: a.Principal, Workflow: workflow}
}

// split returns the fields of a command without its auth, and the auth, or nil.
//
//workflowcheck:ignore // a pure function
func split(raw []byte) (map[string]any, *protocol.Auth, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil, nil
	}
	v, err := decode(raw)
	if err != nil {
		return nil, nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, nil, errors.New("it is not a JSON object")
	}
	given, ok := object[authField]
	if !ok {
		return object, nil, nil
	}
	delete(object, authField)
	fields, ok := given.(map[string]any)
	if !ok {
		return nil, nil, errors.New("its field auth is not a JSON object")
	}
	a := &protocol.Auth{}
	for _, f := range []struct {
		name string
		to   *string
		max  int
	}{
		{"principal", &a.Principal, maxPrincipal}, {"at", &a.At, maxWord}, {"nonce", &a.Nonce, maxWord}, {"kind", &a.Kind, maxWord},
		{"signature", &a.Signature, maxSignature}, {"certificate", &a.Certificate, maxSignature},
	} {
		v, given := fields[f.name]
		text, is := v.(string)
		switch {
		case given && !is:
			return nil, nil, fmt.Errorf("its field auth.%s is not text", f.name)
		case len(text) > f.max:
			return nil, nil, fmt.Errorf("its field auth.%s has %d bytes, and %d at most are allowed", f.name, len(text), f.max)
		}
		*f.to = text
		delete(fields, f.name)
	}
	if a.Groups, err = groupsOf(fields); err != nil {
		return nil, nil, err
	}
	for name := range fields {
		return nil, nil, fmt.Errorf("its field auth.%.100s is not known", name)
	}
	return object, a, nil
}

// groupsOf takes the groups out of the fields of an auth.
func groupsOf(fields map[string]any) (groups []string, err error) {
	v, given := fields["groups"]
	if !given {
		return nil, nil
	}
	delete(fields, "groups")
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, errors.New("its field auth.groups is not a list of text")
	}
	for _, g := range list {
		text, ok := g.(string)
		if !ok {
			return nil, errors.New("its field auth.groups is not a list of text")
		}
		groups = append(groups, text)
	}
	if err := access.CheckGroups(groups); err != nil {
		return nil, fmt.Errorf("its field auth.groups: %w", err)
	}
	return groups, nil
}

type groupsKey struct{}

// WithGroups returns a context for commands that a worker gives for a person whose login
// named groups.
func WithGroups(ctx context.Context, groups []string) context.Context {
	return context.WithValue(ctx, groupsKey{}, groups)
}

// GroupsFrom returns the groups of WithGroups.
func GroupsFrom(ctx context.Context) []string {
	groups, _ := ctx.Value(groupsKey{}).([]string)
	return groups
}

const (
	maxPrincipal = 256
	maxWord      = 100
	maxSignature = 64 << 10
)

type principalKey struct{}

// ErrNotJudged says that a worker does not sign for a person whose command nobody judged.
var ErrNotJudged = errors.New("no command of theirs was judged")

// WithPrincipal returns a context for commands that a worker gives for a person whose own
// command was judged.
func WithPrincipal(ctx context.Context, principal string) context.Context {
	return context.WithValue(ctx, principalKey{}, principal)
}

// PrincipalFrom returns the principal of WithPrincipal, or "".
func PrincipalFrom(ctx context.Context) string {
	principal, _ := ctx.Value(principalKey{}).(string)
	return principal
}

// Marshal returns the JSON of a command's arguments.
func Marshal(v any) ([]byte, error) { return encode(v) }

// Plain returns a command's fields without its auth, and the auth, or nil. With an auth, the
// field by names its principal. Plain verifies nothing.
func Plain(raw []byte) (json.RawMessage, *protocol.Auth, error) {
	object, auth, err := split(raw)
	if err != nil {
		return nil, nil, err
	}
	if auth == nil {
		return raw, nil, nil
	}
	object["by"] = auth.Principal
	plain, err := encode(object)
	return plain, auth, err
}
