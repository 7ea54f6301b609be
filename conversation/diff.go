package conversation

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
)

// MaxDiff bounds the diff of a turn that is kept, in bytes.
const MaxDiff = 4 << 20

// A TurnDiff is everything that a turn has changed in files so far, as a unified
// diff.
type TurnDiff struct {
	Turn int `json:"turn"`
	// Place is the journal position of the diff. It orders the diffs of a turn; the
	// newest one counts.
	Place Cursor `json:"place"`
	Text  string `json:"text"`
	// Cut says that Text was longer than MaxDiff.
	Cut bool `json:"cut,omitempty"`
}

// A DiffSink also receives the diffs of turns: when a pump returns, the newest one
// that it has seen, unless an earlier pump handed over the same. A second attempt
// gives it again.
type DiffSink interface {
	Diff(TurnDiff) error
}

func (m *machine) diffUpdated(p json.RawMessage) {
	var n struct {
		notice
		Diff string `json:"diff"`
	}
	if json.Unmarshal(p, &n) != nil || n.TurnID != m.st.TurnID || m.st.TurnID == "" {
		return
	}
	m.st.DiffStat = diffStat(n.Diff)
	m.diff = &TurnDiff{Turn: m.st.Turn, Place: Cursor{m.st.Cursor.Incarnation, m.line.Offset}, Text: n.Diff}
}

func (m *machine) handDiff() {
	sink, ok := m.sink.(DiffSink)
	if m.diff == nil || m.err != nil {
		return
	}
	d := *m.diff
	was, sum := m.st.Diffed, sha256.Sum256([]byte(d.Text))
	// An earlier attempt may have handed over a diff that replaced the one before it.
	if m.st.Diffed = fmt.Sprintf("%d %x", d.Turn, sum[:16]); !ok || m.st.Diffed == was && m.opt.Attempt <= 1 {
		m.diff = nil
		return
	}
	d.Text = m.redact(d.Text)
	if len(d.Text) > MaxDiff {
		// Cut at a line's end, so that it is still a diff.
		d.Text, d.Cut = d.Text[:strings.LastIndexByte(d.Text[:MaxDiff], '\n')+1], true
	}
	m.err, m.diff = sink.Diff(d), nil
}
