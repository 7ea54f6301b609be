package authority

import (
	"encoding/json"
	"strings"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
)

type revokedKey struct{}

// RevokedApprover says why the signature of an approver in a decision, or the passkey of its
// sender, does not count now, or returns "". It is for workers without a keeper, where everybody is
// the owner of the stack. It reads a file of the worker, so it is for validators and recorded side effects.
// args is the command without its auth.
func RevokedApprover(ctx workflow.Context, name string, args []byte) string {
	known, _ := ctx.Value(passkeysKey{}).(Passkeys)
	if why := wrongPasskey(name, args, "", known, nil); why != "" {
		return why
	}
	k, _ := ctx.Value(revokedKey{}).(*Keeper)
	if k == nil {
		return ""
	}
	if why := revokedApprover(name, args, k.Current()); why != "" {
		return notCounted + why
	}
	return ""
}

const notCounted = "the approver's signature in it does not count: "

// SignedByApprover reports whether a command is a decision with the signature of an approver, or
// with a passkey.
//
//workflowcheck:ignore // a pure function of its arguments
func SignedByApprover(name string, args []byte) bool {
	return len(approvers(name, args)) > 0 || len(proofs(name, args)) > 0
}

// revokedApprover says why the signature of an approver in a decision does not count any
// more, or returns "". The session verifies the signature, by the policy with which it began.
//
//workflowcheck:ignore // a pure function of its arguments
func revokedApprover(name string, args []byte, a *access.Access) string {
	for _, armored := range approvers(name, args) {
		key, err := sshsig.KeyOf([]byte(armored), nil)
		if err != nil {
			continue // the session says so
		}
		if why := a.Revoked(key); why != "" {
			return why
		}
	}
	return ""
}

// approvers returns the approvers' signatures in a decision, as package json reads its field.
func approvers(name string, args []byte) (armored []string) {
	var fields map[string]json.RawMessage
	if name != protocol.SignalDecide || json.Unmarshal(args, &fields) != nil {
		return nil
	}
	for field, value := range fields {
		var text string
		if strings.EqualFold(field, "signature") && json.Unmarshal(value, &text) == nil && text != "" {
			armored = append(armored, text)
		}
	}
	return armored
}
