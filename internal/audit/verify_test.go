package audit_test

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
)

// recorded returns a record of a command that was signed at noon, and then changed.
func recorded(t *testing.T, change func(*audit.Record)) audit.Record {
	t.Helper()
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := command.Sign(key, "ann", "session/s1", "interrupt", []byte(`{}`), noon)
	if err != nil {
		t.Fatal(err)
	}
	r := audit.OfCommand("session/s1", "interrupt", "session.interrupt", raw, noon)
	r.Principal, r.Outcome = "ann", audit.Accepted
	if change != nil {
		change(&r)
	}
	return r
}

// verifyAll verifies a chain of records whose digests are right.
func verifyAll(t *testing.T, records ...audit.Record) *audit.Fault {
	t.Helper()
	c := audit.Chain{Entity: "session/s1/run-1"}
	for _, r := range records {
		c.Add(r)
	}
	return verify(t, c, c.Waiting)
}

func TestASignatureProvesNoOtherCommand(t *testing.T) {
	at := func(d time.Duration) func(*audit.Record) {
		return func(r *audit.Record) { r.At = audit.TimeText(noon.Add(d)) }
	}
	for what, c := range map[string]struct {
		change func(*audit.Record)
		why    string // "" if it holds
	}{
		"what was signed":                  {nil, ""},
		"another verb":                     {func(r *audit.Record) { r.Verb = "session.close" }, "none of"},
		"a verb of no command":             {func(r *audit.Record) { r.Verb = "seed.export" }, "none of"},
		"another object":                   {func(r *audit.Record) { r.Object = "session/s2" }, "not for its object"},
		"a day before":                     {at(-24 * time.Hour), "could not count"},
		"two days after":                   {at(48 * time.Hour), "could not count"},
		"after no worker was up for a day": {at(24 * time.Hour), ""},
		"on a clock that is slow":          {at(-5 * time.Minute), ""},
	} {
		f := verifyAll(t, recorded(t, c.change))
		if (f == nil) != (c.why == "") || f != nil && !strings.Contains(f.Reason, c.why) {
			t.Errorf("%s: %v, want a fault with %q", what, f, c.why)
		}
	}
}

func TestARecordWithoutItsSignatureIsNotProven(t *testing.T) {
	cut := func(r *audit.Record) { r.Evidence.Signature = strings.Repeat("s", audit.MaxLine) }
	f := verifyAll(t, recorded(t, cut), recorded(t, nil))
	if f == nil || f.Seq != 1 || !strings.Contains(f.Reason, "nothing proves it") {
		t.Errorf("a signature that was cut: %v", f)
	}
	f = verifyAll(t, recorded(t, cut), recorded(t, func(r *audit.Record) { r.Verb = "session.close" }))
	if f == nil || f.Seq != 2 {
		t.Errorf("a record that does not hold, after one that was cut: %v", f)
	}
	f = verifyAll(t, recorded(t, func(r *audit.Record) { cut(r); r.Principal = "bob" }))
	if f == nil || !strings.Contains(f.Reason, "not its principal") {
		t.Errorf("a record of another principal that was cut: %v", f)
	}
}
