package authority

import (
	"encoding/json"
	"strings"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
)

// Passkeys knows people's passkeys; *passkey.Book implements it.
type Passkeys interface {
	// Counts says why an assertion is not one of a principal's passkey, or returns nil. What the
	// assertion decides is asked elsewhere.
	Counts(principal string, p protocol.Passkey) error
}

type passkeysKey struct{}

// KnowPasskeys says which passkeys there are. None counts before the first call.
func (k *Keeper) KnowPasskeys(p Passkeys) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.passkeys = p
}

func (k *Keeper) knownPasskeys() Passkeys {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.passkeys
}

// A proof is what a decision says of its sender's passkey or FIDO key.
type proof struct {
	passkey *protocol.Passkey
	touched bool
	bad     bool // it cannot be read
}

// proofs returns the proofs in a decision, as package json reads its fields.
func proofs(name string, args []byte) (all []proof) {
	var fields map[string]json.RawMessage
	if name != protocol.SignalDecide || json.Unmarshal(args, &fields) != nil {
		return nil
	}
	for field, value := range fields {
		switch {
		case string(value) == "null":
		case strings.EqualFold(field, "passkey"):
			var p protocol.Passkey
			err := json.Unmarshal(value, &p)
			all = append(all, proof{passkey: &p, bad: err != nil})
		case strings.EqualFold(field, "touched") && string(value) != "false":
			all = append(all, proof{touched: true})
		}
	}
	return all
}

// wrongPasskey says why a decision's passkey, or its claim that a FIDO key of the sender signed it,
// does not count, or returns "". a is nil if nobody signs commands. Whether they are about this
// decision is for the session, which knows the request.
//
//workflowcheck:ignore // for validators and recorded side effects
func wrongPasskey(name string, args []byte, principal string, known Passkeys, a *access.Access) string {
	for _, p := range proofs(name, args) {
		switch {
		case p.bad:
			return "its passkey cannot be read"
		case p.touched && a == nil:
			return "it says that a FIDO key of its sender signed it, and there is no access file that lists keys of people: name the key among the approvers of the policy"
		case p.touched:
			if why := untouched(name, args, principal, a); why != "" {
				return why
			}
		case known == nil:
			return "this worker knows no passkeys"
		default:
			if err := known.Counts(principal, *p.passkey); err != nil {
				return err.Error()
			}
		}
	}
	return ""
}

// untouched says why the signatures in a decision are not by keys of a principal, or returns "".
// The session asks whether they are FIDO keys, and what they signed.
func untouched(name string, args []byte, principal string, a *access.Access) string {
	signatures := approvers(name, args)
	if len(signatures) == 0 {
		return "it says that a FIDO key signed it, and has no signature"
	}
	for _, armored := range signatures {
		key, err := sshsig.KeyOf([]byte(armored), nil)
		if err != nil {
			return "its signature cannot be read: " + err.Error()
		}
		if !a.Lists(principal, key) {
			return "the access file does not list the FIDO key that signed it among the keys of " + principal
		}
	}
	return ""
}
