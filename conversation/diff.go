package conversation

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// MaxDiff bounds the kept diff of a turn, in bytes.
const MaxDiff = 4 << 20

// A DiffSink also receives diffs of turns. A returning pump hands over the newest one,
// unless an earlier pump handed over the same. A second attempt hands it over again.
type DiffSink interface {
	Diff(protocol.TurnDiff) error
}

func (t *turns) diffUpdated(p json.RawMessage) {
	var n struct {
		wire.Notice
		Diff string `json:"diff"`
	}
	if json.Unmarshal(p, &n) != nil || n.TurnID != t.st.TurnID || t.st.TurnID == "" {
		return
	}
	t.st.DiffStat = diffStat(n.Diff)
	t.st.Touched = touched(n.Diff, t.in.Thread.CWD, t.in.Watched)
	t.diff = &protocol.TurnDiff{Turn: t.st.Turn, Place: protocol.Cursor{Incarnation: t.st.Cursor.Incarnation, Offset: t.line.Offset}, Text: n.Diff}
}

func (t *turns) handDiff() {
	sink, ok := t.sink.(DiffSink)
	if t.diff == nil || t.err != nil {
		return
	}
	d := *t.diff
	was, sum := t.st.Diffed, sha256.Sum256([]byte(d.Text))
	// An earlier attempt may have handed over another diff.
	if t.st.Diffed = fmt.Sprintf("%d %x", d.Turn, sum[:16]); !ok || t.st.Diffed == was && t.opt.Attempt <= 1 {
		t.diff = nil
		return
	}
	d.Text = t.redact(d.Text)
	if len(d.Text) > MaxDiff {
		// Cut at the end of a line, so that the text is still a diff.
		d.Text, d.Cut = d.Text[:strings.LastIndexByte(d.Text[:MaxDiff], '\n')+1], true
	}
	t.err, t.diff = sink.Diff(d), nil
}

// diffStat counts as git's --shortstat does.
func diffStat(diff string) string {
	files, added, removed := 0, 0, 0
	inHunk := false
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "diff --git "):
			files++
			inHunk = false
		case strings.HasPrefix(line, "@@"):
			inHunk = true
		case !inHunk:
		case strings.HasPrefix(line, "+"):
			added++
		case strings.HasPrefix(line, "-"):
			removed++
		}
	}
	if files == 0 {
		return ""
	}
	plural := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprint(n, " ", many)
	}
	s := plural(files, "file changed", "files changed")
	if added > 0 {
		s += ", " + plural(added, "insertion(+)", "insertions(+)")
	}
	if removed > 0 {
		s += ", " + plural(removed, "deletion(-)", "deletions(-)")
	}
	return s
}
