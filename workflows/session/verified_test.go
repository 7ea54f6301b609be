package session

import (
	"bytes"
	"crypto/ed25519"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestEachCommandOfASessionCanBeVerified(t *testing.T) {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]access.Verb{protocol.TypeSession: access.SessionStart}
	for name, verb := range verbs {
		all[name] = verb
	}
	for name, verb := range all {
		raw, err := command.Sign(key, "ann", "session/s1", name, []byte(`{}`), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		r := audit.OfCommand("session/s1", name, string(verb), raw, time.Now())
		r.Principal, r.Outcome = "ann", audit.Accepted
		c := audit.Chain{Entity: "session/s1/run-1"}
		c.Add(r)
		logs, fault := audit.Sort(c.Waiting)
		if fault == nil {
			fault = logs[0].Verify(c.Newest())
		}
		if fault != nil {
			t.Errorf("%s: %v", name, fault)
		}
	}
}
