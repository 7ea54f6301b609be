package conversation

import (
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
)

// A question may be open for hours while codex writes many other lines. Only the pump that
// brings the answer reads all these lines again.
func TestAnOpenQuestionIsReadAgainOnlyByThePumpThatAnswersIt(t *testing.T) {
	for _, f := range askedFamilies {
		first, r := f.ask(t, Options{})
		lines, st := first.past, r.State
		for i := range 3 { // pumps that are attached and return
			in := f.in
			in.State = st
			if from := in.From(); from != st.Cursor.Offset && !strings.Contains(f.before, `"fileChange"`) {
				t.Fatalf("%s: pump %d begins at %d, the cursor is at %d", f.name, i, from, st.Cursor.Offset)
			}
			var more []string
			for n := range 20 {
				more = append(more, completed(fmt.Sprintf("m-%d-%d", i, n), "agentMessage", fmt.Sprintf(`,"text":%q`, strings.Repeat("x", 1000))))
			}
			s := attachedTo(t, in, lines, more...)
			s.m.cancel(s.m.now)
			if s.m.result == nil {
				t.Fatal(s.m.err)
			}
			lines, st = append(lines, s.past[len(s.past)-len(more):]...), s.m.result.State
		}
		asked, a := r.Requests[0], f.answers[0]
		d := a.send
		d.ID, d.Kind, d.RPC, d.Incarnation, d.RequestKind, d.Method = "d", SendDecision, asked.RPC, asked.Incarnation, asked.Kind, asked.Method
		in := f.in
		in.State, in.Sends = st, []Send{d}
		if at := st.Open[0].At; at > 0 && in.From() != min(at, st.Rewind) || at == 0 && in.From() < st.Rewind {
			t.Errorf("%s: the pump that answers begins at %d, what was asked is at %d", f.name, in.From(), at)
		}
		s := attachedTo(t, in, lines)
		if want := `{"id":7,"result":` + a.want + `}`; len(s.said) != 1 || s.said[0] != want {
			t.Errorf("%s: said %q, want %s", f.name, s.said, want)
		}
		other := in
		other.Sends[0].Incarnation++ // of another process, so none of its lines are here
		if !strings.Contains(f.before, `"fileChange"`) && other.From() != st.Cursor.Offset {
			t.Errorf("%s: for a decision of another process it begins at %d", f.name, other.From())
		}
	}
}

// attachedTo runs a pump on a journal of these lines and more, from the offset that
// the pump asks for.
func attachedTo(t *testing.T, in PumpInput, journal []wire.Line, more ...string) *stage {
	t.Helper()
	var backlog []string
	size := in.From()
	for _, l := range journal {
		if l.Offset >= in.From() {
			backlog, size = append(backlog, string(l.Raw)), l.End
		}
	}
	for _, l := range more {
		backlog, size = append(backlog, l), size+int64(len(l))+1
	}
	in.Prefix = "g1.p9"
	k := newKeeper()
	m, err := newMachine(in, k, Options{}, size)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, m: m, sink: k, at: in.From()}
	m.atStart()
	s.hear(backlog...)
	return s
}
