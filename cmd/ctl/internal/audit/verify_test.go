package audit

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/audit"
)

// TestACutChainIsFoundWhateverTimeIsAsked: the records that are left are older than --since.
func TestACutChainIsFoundWhateverTimeIsAsked(t *testing.T) {
	now := time.Now()
	c := audit.Chain{Entity: "session/s1/run-1"}
	for i := range 4 {
		c.Add(audit.Record{At: audit.TimeText(now.Add(time.Duration(i-5) * 24 * time.Hour)), Principal: "ann", Source: audit.Unix, Verb: "session.message", Object: "session/s1", Outcome: audit.Accepted})
	}
	f := audit.Filter{From: now.Add(-24 * time.Hour)}
	before := map[string]seen{c.Entity: {Entity: c.Entity, Seq: 4, Hash: c.Head, At: now}}
	for what, heads := range map[string]struct {
		told   told
		before map[string]seen
	}{
		"the writer's head":  {told: told{c.Entity: *c.Newest()}},
		"what ctl remembers": {before: before},
	} {
		if v, _ := audit.Check(c.Waiting[:2], heads.told, heads.before, f, nil); v.Holds {
			t.Errorf("%s: the cut was not found: %+v", what, v)
		}
		if v, _ := audit.Check(c.Waiting, heads.told, heads.before, f, nil); !v.Holds {
			t.Errorf("%s: the whole chain does not hold: %+v", what, v)
		}
	}
}

// TestAnotherStoreAtTheSamePlaceIsNamed: else its owner could have ctl forget what it saw.
func TestAnotherStoreAtTheSamePlaceIsNamed(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	a := &core.App{Out: new(bytes.Buffer), Err: new(bytes.Buffer)}
	r := reading{store: strings.Repeat("a", 32), where: "127.0.0.1:7233 default"}
	m, err := remembered(a, "verify", "", r)
	if err != nil {
		t.Fatal(err)
	}
	c := audit.Chain{Entity: "session/s1/run-1"}
	c.Add(audit.Record{At: audit.TimeText(time.Now()), Principal: "ann", Source: audit.Unix, Verb: "session.message", Object: "session/s1", Outcome: audit.Accepted})
	_, holding := audit.Check(c.Waiting, nil, nil, audit.Filter{}, nil)
	if err := m.saw(holding); err != nil {
		t.Fatal(err)
	}
	if m, err := remembered(a, "verify", "", r); err != nil || len(m.heads) != 1 {
		t.Fatalf("remembered %+v, %v", m, err)
	}
	other := r
	other.store = strings.Repeat("b", 32)
	if _, err := remembered(a, "verify", "", other); err == nil || !strings.Contains(err.Error(), "another one there before") {
		t.Errorf("another store: %v", err)
	}
	other.where = "127.0.0.1:7233 second"
	if _, err := remembered(a, "verify", "", other); err != nil {
		t.Errorf("another namespace: %v", err)
	}
}
