package session

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestABrokenPolicyIsNotSaidOfTheOther(t *testing.T) {
	s := assembled(&core{st: &State{}, opt: Options{Policy: "default: ask\n"}})
	s.st.SeedPolicy = "default: decline\n"
	s.st.PolicyBroken = map[string]string{"seed": "the policy of the seed cannot be used: its text is not in the store"}
	own, seed := s.approvals.policyViews()
	if own.State != protocol.PolicyActive || own.Error != "" || seed.State != protocol.PolicyBroken || !strings.Contains(seed.Error, "not in the store") {
		t.Errorf("the session's is %+v, the seed's %+v", own, seed)
	}
}

func TestWhatWasAcceptedForTheSessionServesNobodyUnknown(t *testing.T) {
	s := assembled(&core{st: &State{}, opt: Options{Policy: "default: ask\napprovers: |\n" + signer(t, "bob") + signer(t, "cyd")}})
	for _, c := range []struct {
		asked []string
		want  bool
	}{{nil, false}, {[]string{""}, false}, {[]string{"ann", ""}, false}, {[]string{"bob"}, false}, {[]string{"ann"}, true}} {
		s.st.Requesters = c.asked
		if got := s.approvals.mayServe("bob@example.com"); got != c.want {
			t.Errorf("bob's word serves %q: %v", c.asked, got)
		}
	}
}

// The signed payload is the same in whichever form the decision comes.
func TestPayloadsAreCanonical(t *testing.T) {
	digest := func(d protocol.Decide) string {
		t.Helper()
		text, err := payloadOf(d)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if digest(protocol.Decide{}) != "" || digest(protocol.Decide{Grant: json.RawMessage("{}")}) != "" {
		t.Error("nothing has a payload")
	}
	if digest(protocol.Decide{Answers: json.RawMessage(`{"b": ["x<y"], "a":"1"}`)}) != site.PolicyDigest(`{"a":"1","b":["x<y"]}`) {
		t.Error("answers are not over their canonical JSON")
	}
	blob := protocol.Decide{AnswersBlob: "answers/s1/x"}
	if digest(blob) != site.PolicyDigest(`{"answers":{},"answers_blob":"answers/s1/x"}`) {
		t.Error("the blob of secret answers is not signed")
	}
	if _, err := payloadOf(protocol.Decide{Grant: json.RawMessage("{\"a\":\"\xff\"}")}); err == nil {
		t.Error("what is no text is signed as something else")
	}
	twice := protocol.Decide{Signature: "x", Grant: json.RawMessage(`{"network":{"enabled":true},"network":{"enabled":false}}`)}
	if got := string(plainDecide(twice).Grant); got != `{"network":{"enabled":false}}` {
		t.Errorf("what is given is %s", got)
	}
}

// signer returns a line for the approvers of a policy.
func signer(t *testing.T, name string) string {
	t.Helper()
	key, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{name[0]}, ed25519.SeedSize)).Public())
	if err != nil {
		t.Fatal(err)
	}
	return "  " + name + "@example.com," + name + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + "\n"
}
