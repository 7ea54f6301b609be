package workflows

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
	"fairlead.dev/fairlead/workflows/internal/ruling"
	"fairlead.dev/fairlead/workflows/session"
)

// keyOf makes a key that is the same in every run of the test.
func keyOf(t *testing.T, name string) (ssh.Signer, string) {
	t.Helper()
	seed := bytes.Repeat([]byte{name[0]}, ed25519.SeedSize)
	signer, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	return signer, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

// approvedBy returns a policy that asks people, and accepts signatures of the named people.
func approvedBy(t *testing.T, more string, names ...string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("default: ask\nexpiry: 2h\n" + more + "approvers: |\n")
	for _, name := range names {
		_, key := keyOf(t, name)
		b.WriteString("  " + name + "@example.com," + name + " " + key + "\n")
	}
	return b.String()
}

func (w *world) signed(who string, d protocol.Decide) protocol.Decide {
	w.t.Helper()
	for _, a := range query[[]protocol.Approval](w, protocol.QueryApprovals) {
		if a.ID == d.Approval {
			if d.Digest == "" {
				d.Digest = a.Digest
			}
			return signedAt(w.t, who, a.AskedAt, "s1", sshsig.Namespace, d)
		}
	}
	w.t.Fatalf("there is no approval %s", d.Approval)
	return d
}

func signedAt(t *testing.T, who string, asked time.Time, of, namespace string, d protocol.Decide) protocol.Decide {
	t.Helper()
	signer, _ := keyOf(t, who)
	message, err := session.SignedMessage(of, asked, d)
	if err != nil {
		t.Fatal(err)
	}
	armored, err := sshsig.Sign(signer, namespace, message)
	if err != nil {
		t.Fatal(err)
	}
	d.Signature = string(armored)
	return d
}

// after runs a check once all updates of a step have been answered.
func (w *world) after(check func()) { w.checks = append(w.checks, check) }

func TestOnlySignedDecisionsOfApproversCount(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""), asks("make"), endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	var first protocol.Decide
	w.at(2*time.Second, func() {
		a := w.approval("s1.1")
		if !a.Signed || a.Missing != 1 || len(a.Approvers) != 2 || a.ExpiresAt.Sub(a.AskedAt) != 2*time.Hour {
			t.Errorf("the approval is %+v", a)
		}
		d := protocol.Decide{Approval: "s1.1", Digest: a.Digest, Outcome: "accept", By: "bob@example.com"}
		refused := w.send(protocol.SignalDecide, d)
		w.refuses(refused, protocol.RefusedState)
		w.after(func() {
			if said := fmt.Sprint(refused.rejected); !strings.Contains(said, "--sign-with") || !strings.Contains(said, "bob@example.com") {
				t.Errorf("unsigned, it says %q", said)
			}
		})
		changed := func(change func(*protocol.Decide)) protocol.Decide {
			got := w.signed("bob", d)
			change(&got)
			return got
		}
		for what, bad := range map[string]protocol.Decide{
			"unsigned decline":     {Approval: "s1.1", Digest: a.Digest, Outcome: "decline", By: "bob"},
			"nobody's key":         w.signed("mallory", d),
			"another outcome":      changed(func(d *protocol.Decide) { d.Outcome = "decline" }),
			"another scope":        changed(func(d *protocol.Decide) { d.Scope = "session" }),
			"another namespace":    signedAt(t, "bob", a.AskedAt, "s1", "git", d),
			"another session":      signedAt(t, "bob", a.AskedAt, "s2", sshsig.Namespace, d),
			"another moment":       signedAt(t, "bob", a.AskedAt.Add(-time.Nanosecond), "s1", sshsig.Namespace, d),
			"another approval":     changed(func(got *protocol.Decide) { got.Signature = w.signedFor("bob", "s1.2", d).Signature }),
			"no signature at all":  changed(func(d *protocol.Decide) { d.Signature = "-----BEGIN SSH SIGNATURE-----" }),
			"who sent the message": w.signed("ann", d),
			"that one's other name": changed(func(got *protocol.Decide) {
				*got = w.signed("ann", protocol.Decide{Approval: "s1.1", Digest: a.Digest, Outcome: "accept", By: "bob"})
			}),
			"a digest of something else": {Approval: "s1.1", Digest: strings.Repeat("0", 64), Outcome: "accept", Signature: w.signed("bob", d).Signature},
		} {
			r := w.send(protocol.SignalDecide, bad)
			w.after(func() {
				if r.rejected == nil {
					t.Errorf("%s counts", what)
				}
			})
			w.refuses(r, protocol.RefusedState)
		}
		w.refuses(w.send(protocol.SignalDecide, changed(func(d *protocol.Decide) { d.Signature = strings.Repeat("x", session.MaxSignature+1) })), protocol.RefusedBadInput)
	})
	w.at(2500*time.Millisecond, func() {
		a := w.approval("s1.1")
		if a.State != protocol.ApprovalOpen || len(a.Agreed) != 0 {
			t.Errorf("after all that the approval is %+v", a)
		}
		first = w.signed("bob", protocol.Decide{Approval: "s1.1", Outcome: "accept", By: "eve"})
		w.takes(w.send(protocol.SignalDecide, first))
	})
	w.at(2800*time.Millisecond, func() {
		if got := w.approval("s1.1").Decision; got == nil || got.By != "bob@example.com" || !got.Signed {
			t.Errorf("who decided is who signed, not who claims to: %+v", got)
		}
	})
	w.at(3*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(4*time.Second, func() {
		replayed := first
		replayed.Approval = "s1.2"
		w.refuses(w.send(protocol.SignalDecide, replayed), protocol.RefusedState)
		w.takes(w.send(protocol.SignalDecide, w.signed("bob", protocol.Decide{Approval: "s1.2", Outcome: "decline"})))
	})
	w.at(5*time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{Policy: approvedBy(t, "", "ann", "bob")})
	if got := w.fake.ran[1].Pump.Sends[0].Outcome; got != protocol.Accept {
		t.Errorf("codex was told %q", got)
	}
	if in := w.fake.ran[0]; len(in.Policies) != 1 || in.Pump.Policy != in.Policies[0].Digest || !slices.Equal(in.Requesters, []string{"ann"}) {
		t.Errorf("the pump judges by %+v for %q", in.Policies, in.Requesters)
	}
	if p := w.fake.prepared[0].Policies; len(p) != 1 || site.PolicyDigest(p[0]) != w.fake.ran[0].Pump.Policy {
		t.Errorf("prepared with the policies %q", p)
	}
}

func (w *world) signedFor(who, approval string, d protocol.Decide) protocol.Decide {
	at := w.approval(d.Approval).AskedAt
	d.Approval = approval
	return signedAt(w.t, who, at, "s1", sshsig.Namespace, d)
}

func TestAsManyMustAgreeAsThePolicyRequiresAndOneMayDecline(t *testing.T) {
	w := newWorld(t)
	one := protocol.Decide{Approval: "s1.1", Outcome: "accept"}
	w.fake.pumps = append(w.fake.pumps, asks("one"), endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.takes(w.send(protocol.SignalDecide, w.signed("bob", one)))
	})
	w.at(2100*time.Millisecond, func() {
		if a := w.approval("s1.1"); a.State != protocol.ApprovalOpen || a.Missing != 1 || len(a.Agreed) != 1 || a.Agreed[0].By != "bob@example.com" {
			t.Errorf("after one word: %+v", a)
		}
		w.refuses(w.send(protocol.SignalDecide, w.signed("bob", one)), protocol.RefusedState)
		// The two people do not agree: if they decide differently, neither decision counts.
		w.takes(w.send(protocol.SignalDecide, w.signed("cyd", protocol.Decide{Approval: "s1.1", Outcome: "accept", Scope: "session"})))
	})
	w.at(2200*time.Millisecond, func() {
		if a := w.approval("s1.1"); a.State != protocol.ApprovalOpen || a.Missing != 1 || len(a.Agreed) != 2 {
			t.Errorf("after two different words: %+v", a)
		}
		// A person may change their mind.
		w.takes(w.send(protocol.SignalDecide, w.signed("cyd", one)))
	})
	w.at(2300*time.Millisecond, func() {
		if a := w.approval("s1.1"); a.Decision == nil || a.Decision.By != "bob@example.com, cyd@example.com" {
			t.Errorf("after both: %+v", a)
		}
	})
	w.at(3*time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{Policy: approvedBy(t, "required: 2\n", "ann", "bob", "cyd")})

	w = newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("one"), endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.takes(w.send(protocol.SignalDecide, w.signed("bob", one)))
		w.takes(w.send(protocol.SignalDecide, w.signed("cyd", protocol.Decide{Approval: "s1.1", Outcome: "decline", Reason: "no"})))
	})
	w.at(2600*time.Millisecond, func() {
		if a := w.approval("s1.1"); a.Decision == nil || a.Decision.Outcome != "decline" || a.Decision.By != "cyd@example.com" {
			t.Errorf("one declined: %+v", a)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Policy: approvedBy(t, "required: 2\n", "ann", "bob", "cyd")})
}

func TestNobodyHasToSignThatNobodyDecided(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Hour+time.Minute, func() {
		if a := w.approval("s1.1"); a.State != protocol.ApprovalExpired || a.Decision.By != "expiry" || a.Decision.Signed {
			t.Errorf("approval is %+v", a)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Policy: approvedBy(t, "", "bob")})
}

func TestWhoSteersTheTurnAsksAsWell(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"))
	// The pump that steers may be cancelled because of a decision. Then another pump ends
	// the turn.
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() {
		w.refuses(w.send(protocol.SignalMessage, protocol.Message{ID: "m0", Text: "hello"}), protocol.RefusedBadInput) // the message names no sender
		w.send(protocol.SignalMessage, hello("m1"))
	})
	w.at(2*time.Second, func() {
		w.takes(w.send(protocol.SignalMessage, protocol.Message{ID: "m2", Text: "hurry", By: "bob", Mode: "steer"}))
		w.refuses(w.send(protocol.SignalDecide, w.signed("bob", protocol.Decide{Approval: "s1.1", Outcome: "accept"})), protocol.RefusedState)
		w.takes(w.send(protocol.SignalDecide, w.signed("cyd", protocol.Decide{Approval: "s1.1", Outcome: "accept"})))
	})
	w.at(time.Minute, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{Policy: approvedBy(t, "", "bob", "cyd")})
}

func TestWhoAsksIsKnownByTheNameOnTheirOwnMachine(t *testing.T) {
	r := ruling.ReadRuling("session", approvedBy(t, "", "ann", "bob"))
	for by, same := range map[string]bool{"ann@laptop": true, "ann": true, "Ann@EXAMPLE.com": true, "bob@laptop": false, "anna@laptop": false, "": false} {
		if got := r.IsThem("ann@example.com", by); got != same {
			t.Errorf("%q is ann: %v", by, got)
		}
	}
}

func TestWhatIsAcceptedForTheSessionDoesNotServeWhoAcceptedIt(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""), asks("make"), endsTurn("completed", ""), asks("make"), endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.takes(w.send(protocol.SignalDecide, w.signed("bob", protocol.Decide{Approval: "s1.1", Outcome: "accept", Scope: "session"})))
	})
	w.at(3*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(4*time.Second, func() {
		if a := w.approval("s1.2"); a.Decision == nil || a.Decision.Scope != "session" {
			t.Errorf("the same ask of the same person: %+v", a)
		}
		w.send(protocol.SignalMessage, protocol.Message{ID: "m3", Text: "hello", By: "bob"})
	})
	w.at(5*time.Second, func() {
		if a := w.approval("s1.3"); a.State != protocol.ApprovalOpen {
			t.Errorf("bob accepted it for himself: %+v", a)
		}
		w.takes(w.send(protocol.SignalDecide, w.signed("cyd", protocol.Decide{Approval: "s1.3", Outcome: "accept"})))
	})
	w.at(6*time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{Policy: approvedBy(t, "", "bob", "cyd")})
	// With a grant for the session codex would ask nobody again, whoever sends the
	// next message.
	if d := sendOf(t, w.fake.ran[1], protocol.SendID("s1", 1)); d.Outcome != protocol.Accept || d.ForSession {
		t.Errorf("codex is told %+v", d)
	}
}

func TestABrokenPolicyDoesNotStartASession(t *testing.T) {
	for _, bad := range []string{"rules:\n  - name: a\n    when: nonsense(\n    outcome: accept\n", "default: ask\n" + strings.Repeat("#", protocol.MaxPolicy)} {
		err := ruling.CheckPolicy(bad)
		if err == nil {
			t.Errorf("%.60q is taken", bad)
		} else if strings.HasPrefix(bad, "rules") && !strings.Contains(err.Error(), "line 3") {
			t.Errorf("where the mistake is, it does not say: %v", err)
		}
	}
}

func TestTheSignatureOfAnApproverIsOnRecordWithTheDecision(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("one"), endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.takes(w.send(protocol.SignalDecide, w.signed("bob", protocol.Decide{Approval: "s1.1", Outcome: "accept", Scope: "session"})))
		w.takes(w.send(protocol.SignalDecide, w.signed("cyd", protocol.Decide{Approval: "s1.1", Outcome: "decline"})))
	})
	w.at(3*time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{Policy: approvedBy(t, "required: 2\n", "ann", "bob", "cyd")})
	var got []string
	for _, r := range recorded(t, w.fake.records, w.lastView().Audit) { // which verifies the signatures
		if d := r.Decision; d != nil {
			key, err := sshsig.Holds([]byte(d.Signature), nil, sshsig.Namespace, []byte(d.Message))
			if err != nil || len(d.Digest) == 0 {
				t.Errorf("%+v: %v", d, err)
				continue
			}
			for _, who := range []string{"bob", "cyd"} {
				if _, line := keyOf(t, who); line == strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) {
					got = append(got, who+" "+d.Outcome+" "+d.Scope+" "+d.Approval)
				}
			}
		}
	}
	if want := []string{"bob accept session s1.1", "cyd decline  s1.1"}; !slices.Equal(got, want) {
		t.Errorf("on record are %q, not %q", got, want)
	}
}
