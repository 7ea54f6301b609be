package workflows

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// byToken returns a message that somebody sent with an API token.
func (w *world) byToken(token string, m protocol.Message) json.RawMessage {
	w.t.Helper()
	signer, _ := keyOf(w.t, "worker")
	raw, err := json.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	signed, err := command.SignFor(signer, token, nil, protocol.SessionID("s1"), protocol.SignalMessage, raw, w.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return signed
}

// Who asks with a token of their own is who asks.
func TestTheOwnerOfATokenDoesNotDecideWhatTheTokenAskedFor(t *testing.T) {
	for what, send := range map[string]func(*world, json.RawMessage){
		"an update": func(w *world, raw json.RawMessage) { w.takes(w.send(protocol.SignalMessage, raw)) },
		"a signal":  func(w *world, raw json.RawMessage) { w.SignalWorkflow(protocol.SignalMessage, raw) },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.tokens = bookOf{"ci": {Name: "ci", Owner: "ann", Roles: []access.Role{access.Operator}, ExpiresAt: w.Now().Add(time.Hour)}}
			w.guard("  - {name: all, roles: [operator, approver], to: [ann, bob]}\n", "ann", "bob")
			w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""))
			w.at(time.Second, func() { send(w, w.byToken("token:ci", hello("m1"))) })
			w.at(2*time.Second, func() {
				accept := protocol.Decide{Approval: "s1.1", Outcome: "accept"}
				w.refusal(w.send(protocol.SignalDecide, w.by("ann", protocol.SignalDecide, w.signed("ann", accept))), protocol.RefusedState, "a sender may not decide")
				w.takes(w.send(protocol.SignalDecide, w.by("bob", protocol.SignalDecide, w.signed("bob", accept))))
			})
			w.whenTurn(1, "completed", func() {
				w.takes(w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{})))
			})
			w.startBy("ann", session.Options{Policy: approvedBy(t, "", "ann", "bob")})
			w.verify()
		})
	}
}

// Who signs a message asks for what it says, whatever name is in it.
func TestWhoAsksInTheNameOfAnotherDoesNotDecide(t *testing.T) {
	for what, send := range map[string]func(*world, json.RawMessage){
		"an update": func(w *world, raw json.RawMessage) { w.takes(w.send(protocol.SignalMessage, raw)) },
		"a signal":  func(w *world, raw json.RawMessage) { w.SignalWorkflow(protocol.SignalMessage, raw) },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.guard("  - {name: all, roles: [operator, approver], to: [ann, bob]}\n", "ann", "bob")
			w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""))
			w.at(time.Second, func() {
				m := hello("m1")
				m.By = "bob"
				send(w, w.by("ann", protocol.SignalMessage, m))
			})
			w.at(2*time.Second, func() {
				accept := protocol.Decide{Approval: "s1.1", Outcome: "accept", By: "bob"}
				w.refusal(w.send(protocol.SignalDecide, w.by("ann", protocol.SignalDecide, w.signed("ann", accept))), protocol.RefusedState, "a sender may not decide")
				w.takes(w.send(protocol.SignalDecide, w.by("bob", protocol.SignalDecide, w.signed("bob", accept))))
			})
			w.whenTurn(1, "completed", func() {
				w.takes(w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{})))
			})
			w.startBy("ann", session.Options{Policy: approvedBy(t, "", "ann", "bob")})
			w.verify()
		})
	}
}

// A session keeps the policy with which it began, and the access file is that of now.
func TestTheSignatureOfARevokedApproverDoesNotCountWhoeverSendsIt(t *testing.T) {
	key, _ := keyOf(t, "bob")
	for what, revoked := range map[string]string{
		"the person": "revoked: {people: [bob]}\n",
		"the key":    fmt.Sprintf("revoked: {keys: [%q]}\n", ssh.FingerprintSHA256(key.PublicKey())),
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.guard("  - {name: all, roles: [operator, approver], to: [ann, bob, cyd]}\n"+revoked, "ann", "bob", "cyd")
			w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""))
			w.at(time.Second, func() {
				w.takes(w.send(protocol.SignalMessage, w.by("ann", protocol.SignalMessage, hello("m1"))))
			})
			accept := protocol.Decide{Approval: "s1.1", Outcome: "accept"}
			w.at(2*time.Second, func() {
				stolen := w.signed("bob", accept)
				for _, field := range []string{"signature", "Signature"} { // Go reads both
					d := map[string]string{"approval": stolen.Approval, "digest": stolen.Digest, "outcome": stolen.Outcome, field: stolen.Signature}
					w.refusal(w.send(protocol.SignalDecide, w.by("cyd", protocol.SignalDecide, d)), protocol.RefusedForbidden, "is revoked")
					w.SignalWorkflow(protocol.SignalDecide, w.by("cyd", protocol.SignalDecide, d))
				}
				w.takes(w.send(protocol.SignalDecide, w.by("cyd", protocol.SignalDecide, w.signed("cyd", accept))))
			})
			w.at(3*time.Second, func() {
				if a := w.approval("s1.1"); a.State != protocol.ApprovalOpen || a.Missing != 1 || len(a.Agreed) != 1 {
					t.Errorf("after one word of cyd's: %+v", a)
				}
				w.takes(w.send(protocol.SignalDecide, w.by("cyd", protocol.SignalDecide, w.signed("dee", accept)))) // whom the access file does not name
			})
			w.whenTurn(1, "completed", func() {
				w.takes(w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{})))
			})
			w.startBy("ann", session.Options{Policy: approvedBy(t, "required: 2\n", "bob", "cyd", "dee")})
			w.verify()
		})
	}
}

// Where nobody signs commands, the worker has a file of approvers that are revoked. It changes
// while the session runs.
func TestTheSignatureOfARevokedApproverDoesNotCountWithoutAuthorityEither(t *testing.T) {
	key, line := keyOf(t, "bob")
	for what, text := range map[string]string{
		"the person": fmt.Sprintf("people: [{name: bob, keys: [%q]}]\nrevoked: {people: [bob]}\n", line),
		"the key":    fmt.Sprintf("revoked: {keys: [%q]}\n", ssh.FingerprintSHA256(key.PublicKey())),
	} {
		t.Run(what, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "revoked.yaml")
			put := func(text string) {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put("")
			k, err := authority.OpenRevoked(file, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t)
			w.judgedBy(nil, authority.Options{Revoked: k})
			w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""))
			w.at(time.Second, func() { w.takes(w.send(protocol.SignalMessage, hello("m1"))) })
			accept := protocol.Decide{Approval: "s1.1", Outcome: "accept"}
			w.at(2*time.Second, func() {
				put(text)
				k.Reload() // as Watch does
				stolen := w.signed("bob", accept)
				w.refusal(w.send(protocol.SignalDecide, stolen), protocol.RefusedForbidden, "is revoked")
				w.SignalWorkflow(protocol.SignalDecide, stolen)
			})
			w.at(3*time.Second, func() {
				if a := w.approval("s1.1"); a.State != protocol.ApprovalOpen || len(a.Agreed) != 0 {
					t.Errorf("after the words of a revoked key: %+v", a)
				}
				put("revoked: {keys: [broken]}\n")
				k.Reload() // the last good file stays in force
				w.refusal(w.send(protocol.SignalDecide, w.signed("bob", accept)), protocol.RefusedForbidden, "is revoked")
				w.SignalWorkflow(protocol.SignalDecide, w.signed("cyd", accept))
			})
			w.whenTurn(1, "completed", func() { w.takes(w.send(protocol.SignalClose, protocol.Close{})) })
			w.start(session.Options{Policy: approvedBy(t, "", "bob", "cyd")})
			w.verify()
			if refused := w.lastView().Refusals; len(refused) != 1 || !strings.Contains(refused[0].Reason, "is revoked") {
				t.Errorf("refused signals: %+v", refused)
			}
		})
	}
}

// A bookOf has API tokens by name.
type bookOf map[string]access.Token

func (b bookOf) Named(name string) (access.Token, error) {
	t, ok := b[name]
	if !ok {
		return t, fmt.Errorf("there is no token %s", name)
	}
	return t, nil
}
