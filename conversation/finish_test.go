package conversation

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

func finishes(id int, outcome, summary string) string {
	return callsTool(id, "finish", `{"outcome":"`+outcome+`","summary":"`+summary+`"}`)
}

func TestTurnThatTheAgentDeclaresFailedIsFailed(t *testing.T) {
	const taken = "Taken. End your turn now."
	for name, c := range map[string]struct {
		lines  []string
		end    string // codex's word
		status string
		finish string
	}{
		"failed":                 {[]string{finishes(1, "failed", "no compiler")}, "completed", "failed", "failed: no compiler"},
		"done":                   {[]string{finishes(1, "done", "all tests pass")}, "completed", "completed", "done: all tests pass"},
		"nothing said":           {nil, "completed", "completed", ""},
		"the newest word counts": {[]string{finishes(1, "failed", "no"), finishes(2, "done", "found a way")}, "completed", "completed", "done: found a way"},
		"codex's failure counts": {[]string{finishes(1, "done", "fine")}, "failed", "failed", "done: fine"},
		"an interrupt counts":    {[]string{finishes(1, "failed", "no")}, "interrupted", "interrupted", "failed: no"},
		"a sub-agent has no say": {[]string{strings.Replace(finishes(1, "failed", "no"), ourThread, "thread-2", 1)}, "completed", "completed", ""},
		"an unknown outcome":     {[]string{finishes(1, "perhaps", "no")}, "completed", "completed", ""},
		"no summary":             {[]string{finishes(1, "failed", " ")}, "completed", "completed", ""},
		"no object":              {[]string{callsTool(1, "finish", `7`)}, "completed", "completed", ""},
	} {
		for _, split := range []bool{false, true} { // between two pumps
			s := perform(t, offering(running()), Options{})
			s.hear(c.lines...)
			ok := strings.Count(strings.Join(s.said, "\n"), taken)
			if len(s.said) != len(c.lines) || ok != len(c.lines) && c.finish != "" || ok != 0 && c.finish == "" {
				t.Errorf("%s: replied %q", name, s.said)
			}
			if split {
				s.m.cancel(0)
				s = perform(t, offering(s.result(PumpCancelled).State), Options{})
			}
			s.hear(turnDone(c.end, ""))
			s.wait(cleanGrace)
			r := s.result(TurnEnded)
			got := ""
			if f := r.Turn.Finish; f != nil {
				got = f.Outcome + ": " + f.Summary
			}
			if r.Turn.Status != c.status || got != c.finish || r.State.Finish != nil {
				t.Errorf("%s: turn %+v, declared %q", name, r.Turn, got)
			}
			p := r.Turn.Problem
			if declared := c.status == "failed" && c.end == "completed"; declared != (p != nil && p.Kind == protocol.EndAgentFailed && strings.Contains(p.Message, "no compiler") && p.Hint != "") {
				t.Errorf("%s: problem %+v", name, p)
			}
			last := s.sink.entries[len(s.sink.entries)-1]
			if last.Text != "turn "+c.status && !strings.HasPrefix(last.Text, "turn "+c.status+": ") {
				t.Errorf("%s: on record %+v", name, last)
			}
		}
	}
}

func TestSummaryIsShortAndHasNoSecret(t *testing.T) {
	s := perform(t, offering(running()), Options{Redactor: NewRedactor(hidden)})
	s.hear(finishes(1, "failed", "the key is "+hidden+" "+strings.Repeat("x", 3<<10)))
	s.heard(answered(1, true, "Taken; only the first 2048 bytes are kept. End your turn now."))
	f := s.m.st.Finish
	if f == nil || len(f.Summary) > protocol.MaxFinish || strings.Contains(f.Summary, hidden) || !strings.HasPrefix(f.Summary, "the key is "+placeholder) {
		t.Errorf("%+v", f)
	}
	// A session that does not offer the tool takes no such word.
	s = perform(t, PumpInput{State: running()}, Options{})
	s.hear(finishes(1, "failed", "no"))
	if s.m.st.Finish != nil || len(s.said) != 1 || !strings.Contains(s.said[0], "offers no such tool") {
		t.Errorf("%+v, %q", s.m.st.Finish, s.said)
	}
}
