package workflows

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/lab/softkey"
	"fairlead.dev/fairlead/internal/lab/touchkey"
	"fairlead.dev/fairlead/internal/passkey"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
	"fairlead.dev/fairlead/workflows/session"
)

const riskyPolicy = "rules:\n  - {name: risky, when: 'true', outcome: ask, risk: high}\n"

// risky has a policy mark what codex asks for as high risk.
func risky(commands ...string) func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := asks(commands...)(ctx, in)
		for i := range out.Pump.Requests {
			out.Pump.Requests[i].Ruling = &protocol.Ruling{Rule: "risky", Risk: protocol.RiskHigh}
		}
		return out, err
	}
}

// keyring has people's passkeys.
type keyring map[string]*softkey.Key

func (r keyring) Counts(principal string, p protocol.Passkey) error {
	k := r[principal]
	if k == nil || k.ID() != p.ID {
		return passkey.ErrNone
	}
	_, err := passkey.Key{ID: k.ID(), PublicKey: k.PublicKey(), Site: passkey.Site{ID: "localhost", Origin: "http://localhost"}}.Verify(p)
	return err
}

func newPasskey() *softkey.Key { return softkey.New("localhost", "http://localhost") }

// with returns a decision with the assertion of a passkey for what may be another decision.
func (w *world) with(k *softkey.Key, d, signs protocol.Decide) protocol.Decide {
	w.t.Helper()
	a := w.approval(signs.Approval)
	d.Digest, signs.Digest = w.approval(d.Approval).Digest, a.Digest
	message, err := session.SignedMessage("s1", a.AskedAt, signs)
	if err != nil {
		w.t.Fatal(err)
	}
	p := k.Assert(passkey.Challenge(message))
	p.PublicKey = k.PublicKey()
	d.Passkey = &p
	return d
}

// decidedByToken returns a decision that a worker signed for the API token ci.
func (w *world) decidedByToken(d protocol.Decide) json.RawMessage {
	w.t.Helper()
	signer, _ := keyOf(w.t, "worker")
	raw, err := json.Marshal(d)
	if err != nil {
		w.t.Fatal(err)
	}
	signed, err := command.Sign(signer, "token:ci", protocol.SessionID("s1"), protocol.SignalDecide, raw, w.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return signed
}

func TestHighRiskIsAcceptedOnlyByThePersonsOwnPasskey(t *testing.T) {
	w := newWorld(t)
	w.tokens = bookOf{"ci": {Name: "ci", Owner: "ann", Roles: []access.Role{access.Approver}, ExpiresAt: w.Now().Add(time.Hour)}}
	w.guard("  - {name: all, roles: [operator, approver], to: [ann, bob, cyd]}\n", "ann", "bob", "cyd")
	ring := keyring{"bob": newPasskey(), "cyd": newPasskey()}
	w.keeper.KnowPasskeys(ring)
	w.fake.pumps = append(w.fake.pumps, risky("one", "two"), endsTurn("completed", ""))
	one, two := protocol.Decide{Approval: "s1.1", Outcome: "accept"}, protocol.Decide{Approval: "s1.2", Outcome: "accept"}
	decline := protocol.Decide{Approval: "s1.1", Outcome: "decline"}
	w.at(time.Second, func() {
		w.takes(w.send(protocol.SignalMessage, w.by("ann", protocol.SignalMessage, hello("m1"))))
	})
	w.at(2*time.Second, func() {
		bob := func(d protocol.Decide) *updated {
			return w.send(protocol.SignalDecide, w.by("bob", protocol.SignalDecide, d))
		}
		digested := func(d protocol.Decide) protocol.Decide {
			d.Digest = w.approval(d.Approval).Digest
			return d
		}
		w.refusal(bob(digested(one)), protocol.RefusedPasskey, "this decision needs your passkey")
		w.refusal(bob(w.signed("bob", one)), protocol.RefusedPasskey, "this decision needs your passkey") // a plain SSH key
		w.refusal(w.send(protocol.SignalDecide, w.decidedByToken(digested(one))), protocol.RefusedPasskey, "this decision needs your passkey")
		w.refusal(bob(w.with(ring["bob"], one, two)), protocol.RefusedPasskey, "signed another decision")
		w.refusal(bob(w.with(ring["bob"], one, decline)), protocol.RefusedPasskey, "signed another decision")
		w.refusal(bob(w.with(ring["bob"], decline, one)), protocol.RefusedPasskey, "signed another decision")
		w.refusal(bob(w.with(ring["cyd"], one, one)), protocol.RefusedForbidden, "there is no such passkey")
		wrong := w.with(ring["bob"], one, one)
		wrong.Passkey.Signature = w.with(ring["bob"], two, two).Passkey.Signature
		w.refusal(bob(wrong), protocol.RefusedForbidden, "does not count")
		session := one
		session.Scope = protocol.ScopeSession
		w.refusal(bob(w.with(ring["bob"], session, session)), protocol.RefusedState, "accept it with scope once")
		claimed := w.signed("bob", one)
		claimed.Touched = true
		w.refusal(bob(claimed), protocol.RefusedPasskey, "no FIDO key signed this decision")
		claimed.Signature = ""
		w.refusal(bob(claimed), protocol.RefusedForbidden, "has no signature")
		w.SignalWorkflow(protocol.SignalDecide, w.by("bob", protocol.SignalDecide, w.with(ring["cyd"], one, one)))
	})
	w.at(3*time.Second, func() {
		if a := w.approval("s1.1"); a.State != protocol.ApprovalOpen {
			t.Errorf("after decisions that do not count: %+v", a)
		}
		no := protocol.Decide{Approval: "s1.2", Outcome: "decline", Digest: w.approval("s1.2").Digest}
		w.takes(w.send(protocol.SignalDecide, w.by("bob", protocol.SignalDecide, no)))
		accept := w.with(ring["bob"], one, one)
		w.takes(w.send(protocol.SignalDecide, w.by("bob", protocol.SignalDecide, accept)))
		w.refusal(w.send(protocol.SignalDecide, w.by("bob", protocol.SignalDecide, accept)), protocol.RefusedState, "already decided")
	})
	w.whenTurn(1, "completed", func() {
		if a := w.approval("s1.1"); a.Decision == nil || a.Decision.StepUp != "passkey" || a.Decision.By != "bob" {
			t.Errorf("after bob's passkey: %+v", a)
		}
		w.takes(w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{})))
	})
	w.startBy("ann", session.Options{Policy: riskyPolicy})
	w.verify()
	if refused := w.lastView().Refusals; len(refused) != 1 || !strings.Contains(refused[0].Reason, "no such passkey") {
		t.Errorf("refused signals: %+v", refused)
	}
}

func TestHighRiskIsAcceptedByAFIDOKeyOfTheSenderAndByATokenThatThePolicyNames(t *testing.T) {
	key, err := touchkey.New(touchkey.Touched)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.tokens = bookOf{"ci": {Name: "ci", Owner: "ann", Roles: []access.Role{access.Approver}, ExpiresAt: w.Now().Add(time.Hour)}}
	const all = "  - {name: all, roles: [operator, approver], to: [ann, bob]}\n"
	w.guard(all, "ann", "bob")
	_, ann := keyOf(t, "ann")
	_, bob := keyOf(t, "bob")
	_, worker := keyOf(t, "worker")
	a, err := access.Parse([]byte(fmt.Sprintf("people:\n  - {name: ann, keys: [%q]}\n  - {name: bob, keys: [%q, %q]}\nworkers: [%q]\nbindings:\n%s", ann, bob, key.Line(), worker, all)))
	if err != nil {
		t.Fatal(err)
	}
	w.keeper, w.access = authority.Fixed(a, w.Now), a.Digest
	w.keeper.Know(w.tokens)
	w.keeps(w.keeper)
	w.fake.pumps = append(w.fake.pumps, risky("one", "two"), endsTurn("completed", ""))
	w.at(time.Second, func() {
		w.takes(w.send(protocol.SignalMessage, w.by("ann", protocol.SignalMessage, hello("m1"))))
	})
	w.at(2*time.Second, func() {
		d := protocol.Decide{Approval: "s1.1", Outcome: "accept", Digest: w.approval("s1.1").Digest}
		message, err := session.SignedMessage("s1", w.approval("s1.1").AskedAt, d)
		if err != nil {
			t.Error(err)
		}
		armored, err := sshsig.Sign(key, sshsig.Namespace, message)
		if err != nil {
			t.Error(err)
		}
		d.Signature, d.Touched = string(armored), true
		w.refusal(w.send(protocol.SignalDecide, w.by("ann", protocol.SignalDecide, d)), protocol.RefusedForbidden, "among the keys of ann")
		other := d
		other.Approval, other.Digest = "s1.2", w.approval("s1.2").Digest
		w.refusal(w.send(protocol.SignalDecide, w.by("bob", protocol.SignalDecide, other)), protocol.RefusedPasskey, "no FIDO key signed this decision")
		w.takes(w.send(protocol.SignalDecide, w.by("bob", protocol.SignalDecide, d)))
		w.takes(w.send(protocol.SignalDecide, w.decidedByToken(protocol.Decide{Approval: "s1.2", Outcome: "accept", Digest: w.approval("s1.2").Digest})))
	})
	w.whenTurn(1, "completed", func() {
		if one, two := w.approval("s1.1"), w.approval("s1.2"); one.Decision == nil || two.Decision == nil || one.Decision.StepUp != "fido" || two.Decision.StepUp != "token" {
			t.Errorf("decided are %+v and %+v", one.Decision, two.Decision)
		}
		w.takes(w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{})))
	})
	w.startBy("ann", session.Options{Policy: riskyPolicy + "high_risk_tokens: [ci]\n"})
	w.verify()
}

// On a stack of one person, nobody signs commands, and the owner has passkeys.
func TestTheOwnerOfAStackAcceptsHighRiskWithAPasskey(t *testing.T) {
	w := newWorld(t)
	ring := keyring{"": newPasskey()}
	w.judgedBy(nil, authority.Options{Passkeys: ring})
	w.fake.pumps = append(w.fake.pumps, risky("make"), endsTurn("completed", ""))
	one := protocol.Decide{Approval: "s1.1", Outcome: "accept", By: "bob"}
	w.at(time.Second, func() { w.takes(w.send(protocol.SignalMessage, hello("m1"))) })
	w.at(2*time.Second, func() {
		plain := one
		plain.Digest = w.approval("s1.1").Digest
		w.refusal(w.send(protocol.SignalDecide, plain), protocol.RefusedPasskey, "this decision needs your passkey")
		stranger := newPasskey()
		w.refusal(w.send(protocol.SignalDecide, w.with(stranger, one, one)), protocol.RefusedForbidden, "no such passkey")
		w.SignalWorkflow(protocol.SignalDecide, w.with(stranger, one, one))
		w.SignalWorkflow(protocol.SignalDecide, w.with(ring[""], one, one))
	})
	w.whenTurn(1, "completed", func() { w.takes(w.send(protocol.SignalClose, protocol.Close{})) })
	w.start(session.Options{Policy: riskyPolicy})
	w.verify()
	if v := w.lastView(); len(v.Refusals) != 1 || !strings.Contains(v.Refusals[0].Reason, "no such passkey") {
		t.Errorf("refused signals: %+v", v.Refusals)
	}
}

// signedWith returns a decision that a FIDO key signed, made in software.
func (w *world) signedWith(key *touchkey.Key, d protocol.Decide) protocol.Decide {
	w.t.Helper()
	a := w.approval(d.Approval)
	d.Digest = a.Digest
	message, err := session.SignedMessage("s1", a.AskedAt, d)
	if err != nil {
		w.t.Fatal(err)
	}
	armored, err := sshsig.Sign(key, sshsig.Namespace, message)
	if err != nil {
		w.t.Fatal(err)
	}
	d.Signature = string(armored)
	return d
}

func TestAnApproverOfTheSessionsOwnPolicyDoesNotLiftTheMarkOfTheSeed(t *testing.T) {
	key, err := touchkey.New(touchkey.Touched)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.guard("  - {name: all, roles: [operator, approver], to: [ann]}\n", "ann")
	w.judges = riskyPolicy
	w.fake.pumps = append(w.fake.pumps, risky("one"), endsTurn("completed", ""))
	w.at(time.Second, func() {
		w.takes(w.send(protocol.SignalMessage, w.by("ann", protocol.SignalMessage, hello("m1"))))
	})
	w.at(2*time.Second, func() {
		one := protocol.Decide{Approval: "s1.1", Outcome: "accept"}
		w.refusal(w.send(protocol.SignalDecide, w.by("ann", protocol.SignalDecide, w.signedWith(key, one))), protocol.RefusedPasskey, "needs your passkey")
		one.Outcome = "decline"
		w.takes(w.send(protocol.SignalDecide, w.by("ann", protocol.SignalDecide, w.signedWith(key, one))))
	})
	w.whenTurn(1, "completed", func() {
		w.takes(w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{})))
	})
	w.startBy("ann", session.Options{Seed: "team", Policy: "default: ask\nrequester_may_decide: true\napprovers: |\n  me " + key.Line() + "\n"})
	w.verify()
}

func TestAPasskeyDoesNotCountForAnothersSignature(t *testing.T) {
	w := newWorld(t)
	w.guard("  - {name: all, roles: [operator, approver], to: [ann, bob, cyd]}\n", "ann", "bob", "cyd")
	ring := keyring{"bob": newPasskey()}
	w.keeper.KnowPasskeys(ring)
	w.fake.pumps = append(w.fake.pumps, risky("one"), endsTurn("completed", ""))
	w.at(time.Second, func() {
		w.takes(w.send(protocol.SignalMessage, w.by("ann", protocol.SignalMessage, hello("m1"))))
	})
	w.at(2*time.Second, func() {
		one := protocol.Decide{Approval: "s1.1", Outcome: "accept"}
		cyds := w.signed("cyd", one)
		cyds.Passkey = w.with(ring["bob"], one, one).Passkey
		w.refusal(w.send(protocol.SignalDecide, w.by("bob", protocol.SignalDecide, cyds)), protocol.RefusedPasskey, "does not count for the signature of cyd@example.com")
		own := w.signed("bob", one)
		own.Passkey = cyds.Passkey
		w.takes(w.send(protocol.SignalDecide, w.by("bob", protocol.SignalDecide, own)))
	})
	w.whenTurn(1, "completed", func() {
		w.takes(w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{})))
	})
	w.startBy("ann", session.Options{Policy: approvedBy(t, "rules: [{name: risky, when: 'true', outcome: ask, risk: high}]\n", "bob", "cyd")})
	w.verify()
}
