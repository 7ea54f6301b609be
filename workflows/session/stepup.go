package session

import (
	"slices"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/passkey"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/ruling"
)

// If a policy marks a request as high risk, a decision to accept it needs a proof, made for this
// decision, that the person is there: the assertion of a passkey, or the signature of a FIDO key.
// The session asks what was signed. Whether the passkey or the key is the sender's, and whether it
// signed, is judged where commands are (authority.Passkeys), in validators and recorded side
// effects, because passkeys come and go.

// How a person proved who they are.
const (
	byPasskey = "passkey"
	byTouch   = "fido"
	byToken   = "token"
)

func highRisk(r protocol.Request) bool { return r.Ruling != nil && r.Ruling.Risk == protocol.RiskHigh }

func (c checkedDecide) stepUp(to *protocol.Decision) error {
	d := c.d
	if err := c.aboutThis(); err != nil {
		return err
	}
	if !highRisk(c.a.Request) || oneSuffices(d.Outcome) {
		return nil
	}
	if d.Scope == protocol.ScopeSession || d.Outcome == string(protocol.Amend) {
		return c.no("its policy marks it as high risk, so it can be accepted only once: accept it with scope once")
	}
	message, err := SignedMessage(c.s.id, c.a.AskedAt, d)
	if err != nil {
		return c.bad("%v", err)
	}
	another := c.signedByAnother(message)
	switch {
	case d.Passkey != nil && another == "":
		to.StepUp = byPasskey
	case c.touched(message):
		to.StepUp = byTouch
	case c.s.mayAccept(d.By) && another == "":
		to.StepUp = byToken
	case another != "" && d.Passkey != nil:
		return kit.Refuse(protocol.RefusedPasskey, "decide %s: the policy marks the request as high risk, and what %s proves does not count for the signature of %s: sign the decision with a FIDO key that the policies name (`ctl approval %s %s --sign-with KEYFILE`), or let %s send it. Nobody needs one to decline", d.Approval, kit.Cut(d.By, 200), kit.Cut(another, 200), d.Outcome, d.Approval, kit.Cut(another, 200))
	default:
		return kit.Refuse(protocol.RefusedPasskey, "decide %s: this decision needs your passkey: the policy marks the request as high risk. Decide it in the console with a passkey, or sign the decision with a FIDO key (`ctl approval %s %s --sign-with KEYFILE`). Nobody needs one to decline", d.Approval, d.Outcome, d.Approval)
	}
	return nil
}

// aboutThis refuses a passkey or a touch for anything but this decision.
func (c checkedDecide) aboutThis() error {
	d := c.d
	if d.Passkey == nil && !d.Touched {
		return nil
	}
	message, err := SignedMessage(c.s.id, c.a.AskedAt, d)
	if err != nil {
		return c.bad("%v", err)
	}
	if d.Passkey != nil {
		//workflowcheck:ignore // digests and JSON are pure functions
		if err := passkey.Of(*d.Passkey, message); err != nil {
			return kit.Refuse(protocol.RefusedPasskey, "decide %s: %.400v", d.Approval, err)
		}
	}
	if d.Touched {
		//workflowcheck:ignore // a pure function
		if key, err := sshsig.Holds([]byte(d.Signature), nil, sshsig.Namespace, message); err != nil || !sshsig.ByTouch(key) {
			return kit.Refuse(protocol.RefusedPasskey, "decide %s: no FIDO key signed this decision", d.Approval)
		}
	}
	return nil
}

// touched reports whether a FIDO key signed the decision: one of the sender's in the access file, or
// one of an approver's that each policy that marks the request names. Another policy's approver
// proves nothing, because whoever started the session may have made that key in software.
func (c checkedDecide) touched(message []byte) bool {
	if c.d.Touched {
		return true
	}
	marking := c.s.marking()
	if c.d.Signature == "" || len(marking) == 0 {
		return false
	}
	//workflowcheck:ignore // a pure function
	if key, err := sshsig.KeyOf([]byte(c.d.Signature), nil); err != nil || !sshsig.ByTouch(key) {
		return false
	}
	return !slices.ContainsFunc(marking, func(r ruling.Ruling) bool {
		if r.Broken() != "" || r.Allowed() == nil {
			return true
		}
		_, err := c.s.signer(r, c.d, message)
		return err != nil
	})
}

// signedByAnother returns whose signature counts for a policy that names approvers, if it is not
// the sender's. What the sender proves does not count for that person.
func (c checkedDecide) signedByAnother(message []byte) string {
	for _, r := range c.s.signing() {
		if r.Broken() != "" {
			continue // the check of signatures refuses the decision
		}
		if who, err := c.s.signer(r, c.d, message); err == nil && who != c.d.By && !r.Allowed().Same(who, c.d.By) {
			return who
		}
	}
	return ""
}

// marking returns the policies that mark requests as high risk, including broken ones.
func (s *approvalsPart) marking() (all []ruling.Ruling) {
	for _, r := range s.rulings() {
		if r.Broken() != "" || r.MarksHighRisk() {
			all = append(all, r)
		}
	}
	return all
}

// mayAccept reports whether each policy that marks requests as high risk names an API token. A
// policy that does not mark them any more names none.
func (s *approvalsPart) mayAccept(by string) bool {
	name, is := access.TokenName(by)
	marking := s.marking()
	if !is || !s.admission.Signed || len(marking) == 0 {
		return false
	}
	return !slices.ContainsFunc(marking, func(r ruling.Ruling) bool {
		return r.Broken() != "" || !slices.Contains(r.HighRiskTokens, name)
	})
}
