package audit_test

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// chain returns the records of a session with n signed commands, and one that was refused.
func chain(t testing.TB, n int) audit.Chain {
	t.Helper()
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	c := audit.Chain{Entity: "session/s1/run-1"}
	for i := range n {
		raw, err := command.Sign(key, "ann", "session/s1", "message", fmt.Appendf(nil, `{"id":"m%d","text":"the prompt"}`, i), noon)
		if err != nil {
			t.Fatal(err)
		}
		r := audit.OfCommand("session/s1", "message", "session.message", raw, noon.Add(time.Duration(i)*time.Second))
		r.Principal, r.Outcome = "ann", audit.Accepted
		c.Add(r)
	}
	r := audit.OfCommand("session/s1", "close", "session.close", []byte(`{"by":"mallory <\u202e>"}`), noon)
	r.Outcome, r.Reason = audit.Refused, "it is not signed\x00\xff"
	c.Add(r)
	return c
}

func verify(t testing.TB, c audit.Chain, lines []string) *audit.Fault {
	t.Helper()
	logs, fault := audit.Sort(lines)
	if fault != nil {
		return fault
	}
	if len(logs) == 0 {
		logs = []audit.Log{{Entity: c.Entity}}
	}
	for _, l := range logs {
		if f := l.Verify(c.Newest()); f != nil {
			return f
		}
	}
	return nil
}

func TestEveryChangeOfARecordIsFound(t *testing.T) {
	c := chain(t, 4)
	whole := c.Waiting
	if f := verify(t, c, whole); f != nil {
		t.Fatalf("an untouched chain: %v", f)
	}
	again := append(slices.Clone(whole), whole...)
	slices.Reverse(again)
	if f := verify(t, c, again); f != nil {
		t.Errorf("the same records twice, in another order, are the same records: %v", f)
	}
	if strings.Contains(strings.Join(whole, ""), "the prompt") {
		t.Error("a record has the arguments themselves")
	}
	for at := range whole {
		if f := verify(t, c, slices.Delete(slices.Clone(whole), at, at+1)); f == nil || f.Seq != int64(at+1) {
			t.Errorf("record %d was removed: %v", at+1, f)
		}
		for _, change := range [][2]string{{`"at":"2026`, `"at":"2025`}, {`"outcome":"accepted"`, `"outcome":"refused"`}, {`"principal":"ann"`, `"principal":"bob"`},
			{"session.message", "session.close"}, {`"entity":"session/s1`, `"entity":"session/s2`}, {`"reason":"`, `"reason":"x`}, {`"args":"`, `"args":"0`},
			{`"object":"`, `"object":"x`}, {`{"at"`, `{ "at"`}} {
			changed := slices.Clone(whole)
			if changed[at] = strings.Replace(changed[at], change[0], change[1], 1); changed[at] == whole[at] {
				continue
			}
			if f := verify(t, c, changed); f == nil {
				t.Errorf("%s of record %d became %s, and that was not found", change[0], at+1, change[1])
			}
			if change[0] == `"at":"2026` {
				continue // see TestARecordOfAWorkerThatDiedIsNoChange
			}
			if f := verify(t, c, append(slices.Clone(whole), changed[at])); f == nil {
				t.Errorf("a second record %d with %s was not found", at+1, change[1])
			}
		}
	}
	for n := range whole {
		if f := verify(t, c, whole[:n]); f == nil || f.Seq != int64(n+1) {
			t.Errorf("all after record %d were cut off: %v", n, f)
		}
	}
}

// TestARecordOfAWorkerThatDiedIsNoChange: a record was written twice, because the task of the first
// time was lost. The chain goes on with the second one. The first one is named, and is no fault.
func TestARecordOfAWorkerThatDiedIsNoChange(t *testing.T) {
	c := chain(t, 3)
	whole := c.Waiting
	for at, line := range whole {
		if strings.Contains(line, `"outcome":"refused"`) {
			continue // workers write only what was accepted before Temporal has the task
		}
		lost := strings.Replace(line, `"at":"2026`, `"at":"2025`, 1)
		for _, lines := range [][]string{append(slices.Clone(whole), lost), append([]string{lost}, whole...)} {
			logs, fault := audit.Sort(lines)
			if fault != nil {
				t.Fatal(fault)
			}
			l := logs[0].Along(c.Newest())
			if f := l.Verify(c.Newest()); f != nil || len(l.Strays) != 1 || l.Strays[0].At[:4] != "2025" || !slices.Equal(l.Lines, whole) {
				t.Errorf("record %d is there twice: %v, beside the chain are %+v", at+1, f, l.Strays)
			}
			if alone := logs[0].Along(nil); alone.Unsure() != (at == len(whole)-1) {
				t.Errorf("without a head, record %d of %d leaves the newest one unsure: %t", at+1, len(whole), alone.Unsure())
			}
		}
		other := strings.Replace(lost, `"args":"`, `"args":"0`, 1)
		if f := verify(t, c, append(slices.Clone(whole), other)); f == nil {
			t.Errorf("a record %d of a command that nobody signed was not found", at+1)
		}
	}
}

func TestAChainThatWasWrittenAnewIsFoundByItsHead(t *testing.T) {
	c, other := chain(t, 3), audit.Chain{Entity: "session/s1/run-1"}
	for range 4 {
		other.Add(audit.Record{At: audit.TimeText(noon), Principal: "eve", Source: audit.Unix, Verb: "session.message", Object: "session/s1", Outcome: audit.Accepted})
	}
	if f := verify(t, other, other.Waiting); f != nil {
		t.Fatalf("by itself it holds: %v", f)
	}
	if f := verify(t, c, other.Waiting); f == nil || f.Seq != 4 {
		t.Errorf("with the true head: %v", f)
	}
}

// TestAForgerOfTheWholeChainNeedsTheKeys writes chains anew, with good digests.
func TestAForgerOfTheWholeChainNeedsTheKeys(t *testing.T) {
	good, err := audit.Parse(chain(t, 1).Waiting[0])
	if err != nil {
		t.Fatal(err)
	}
	for what, forge := range map[string]func(*audit.Record){
		"another principal": func(r *audit.Record) { r.Principal = "bob" },
		"other arguments":   func(r *audit.Record) { r.Evidence.Args = strings.Repeat("0", 64) },
		"another message": func(r *audit.Record) {
			r.Evidence.Message = strings.Replace(r.Evidence.Message, `"message"`, `"close"`, 1)
		},
		"no signature":  func(r *audit.Record) { r.Evidence.Signature = "" },
		"a certificate": func(r *audit.Record) { r.Source = audit.Certificate },
		"another message of the same principal": func(r *audit.Record) {
			r.Evidence.Message = strings.Replace(r.Evidence.Message, `"nonce":"`, `"nonce":"x`, 1)
		},
	} {
		r, c := good, audit.Chain{Entity: good.Entity}
		forge(&r)
		c.Add(r)
		if f := verify(t, c, c.Waiting); f == nil {
			t.Errorf("%s: it holds", what)
		}
	}
}

func TestRecordsThatAreTooManyAreCounted(t *testing.T) {
	var c audit.Chain
	c.Entity = "session/s1/run-1"
	add := func(outcome string) {
		c.Add(audit.Record{At: audit.TimeText(noon), Principal: "ann", Source: audit.Unix, Verb: "session.set", Object: "session/s1", Outcome: outcome})
	}
	for range 500 {
		add(audit.Refused)
	}
	for range 10 {
		add(audit.Accepted)
	}
	if n := len(c.Waiting); n != 60 || !c.Due() {
		t.Errorf("%d records wait: a flood of refused ones must leave room for accepted ones", n)
	}
	all := c.Waiting
	c.Wrote(c.Batch().Last())
	if len(c.Waiting) != 1 || !strings.Contains(c.Waiting[0], "0 accepted and 450 refused") {
		t.Fatalf("what was left out is on record as %q", c.Waiting)
	}
	if f := verify(t, c, append(all, c.Waiting...)); f != nil {
		t.Error(f)
	}
	c.Wrote(c.Seq - 1) // an old answer
	if len(c.Waiting) != 1 {
		t.Error("a record was dropped that is not in the store")
	}
	if c.Wrote(c.Seq); !c.Empty() || c.Batch() != nil {
		t.Errorf("%d records wait", len(c.Waiting))
	}
}

func TestALongRecordIsCutAndSaysSo(t *testing.T) {
	c := audit.Chain{Entity: "session/s1/run-1"}
	c.Add(audit.Record{At: audit.TimeText(noon), Principal: strings.Repeat("é", 9000), Source: audit.Certificate, Verb: "session.set", Object: "session/s1", Outcome: audit.Accepted,
		Evidence: audit.Evidence{Signature: strings.Repeat("s", 64<<10), Certificate: strings.Repeat("c", 64<<10)}})
	r, err := audit.Parse(c.Waiting[0])
	if err != nil || !r.Evidence.Cut || len(r.Evidence.Signature) != 64 || len(r.Principal) > 512 {
		t.Errorf("%+v, %v", r, err)
	}
}

func FuzzAReaderOfRecordsTakesOnlyWhatAWriterWrote(f *testing.F) {
	for _, line := range chain(f, 2).Waiting {
		f.Add(line)
	}
	f.Add(`{"seq":1,"Seq":2}`)
	f.Add(strings.Repeat("[", 100000))
	f.Fuzz(func(t *testing.T, line string) {
		r, err := audit.Parse(line)
		if err != nil {
			return
		}
		if r.Seq < 1 || r.Entity == "" {
			t.Errorf("%q is a record", line)
		}
		logs, fault := audit.Sort([]string{line})
		if fault != nil || len(logs) != 1 || logs[0].Lines[0] != line {
			t.Errorf("%q: %v", line, fault)
		}
		logs[0].Verify(nil)
	})
}
