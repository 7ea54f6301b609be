package conversation

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

const abortedText = `<turn_aborted>\nThe user interrupted the previous turn on purpose.\n</turn_aborted>`

func userSays(id, text, more string) string {
	return completed(id, "userMessage", `,"content":[{"type":"text","text":"`+text+`"}]`+more)
}

func TestMarkOfAnAbortedTurnEndsIt(t *testing.T) {
	first := userSays("u-1", "do it", `,"clientId":"m-4"`)
	for name, c := range map[string]struct {
		version string
		lines   []string
		ends    bool
	}{
		"codex's own":            {"0.169.0", []string{first, userSays("u-2", abortedText, "")}, true},
		"with blank lines":       {"0.169.0", []string{first, userSays("u-2", `\n`+abortedText+`\n\n`, "")}, true},
		"of an old version":      {"0.125.0", []string{userSays("u-1", "do it", ""), userSays("u-2", abortedText, "")}, true},
		"a person's message":     {"0.169.0", []string{first, userSays("u-2", abortedText, `,"clientId":"m-5"`)}, false},
		"the first of the turn":  {"0.125.0", []string{userSays("u-1", abortedText, "")}, false},
		"a steer without an id":  {"0.125.0", []string{userSays("u-1", "do it", ""), userSays("u-2", `<turn_aborted>mine</turn_aborted>`, "")}, false},
		"quoted in a text":       {"0.169.0", []string{first, userSays("u-2", `why `+abortedText+`?`, "")}, false},
		"said by the model":      {"0.169.0", []string{first, completed("a", "agentMessage", `,"text":"`+abortedText+`"`)}, false},
		"of a sub-agent":         {"0.169.0", []string{first, strings.ReplaceAll(userSays("u-2", abortedText, ""), ourThread, "thread-2")}, false},
		"of another turn":        {"0.169.0", []string{first, strings.ReplaceAll(userSays("u-2", abortedText, ""), ourTurn, "turn-0")}, false},
		"begun and not finished": {"0.169.0", []string{first, started("u-2", "userMessage", `,"content":[{"type":"text","text":"`+abortedText+`"}]`)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			st := running()
			st.CodexVersion = c.version
			s := perform(t, PumpInput{State: st, Sends: []Send{{ID: "s-1", Kind: SendSteer, Text: "<turn_aborted>mine</turn_aborted>"}}}, Options{})
			s.hear(c.lines...)
			if got := s.m.turns.end != nil; got != c.ends {
				t.Fatalf("the turn ended: %t, want %t", got, c.ends)
			}
			if !c.ends {
				return
			}
			// The end that codex reports besides changes nothing.
			s.hear(turnDone("interrupted", ""), `{"id":"g1.p9.barrier-a1.0","result":{}}`)
			s.wait(cleanGrace)
			if r := s.result(TurnEnded); r.Turn.Status != "interrupted" || r.Turn.N != 4 {
				t.Errorf("%+v", r.Turn)
			}
			for _, e := range s.sink.entries {
				if e.Type == protocol.EntryUser && strings.Contains(e.Text, "turn_aborted") {
					t.Errorf("the mark counts as a person's word: %+v", e)
				}
				if e.Status == "aborted" && !strings.Contains(e.Text, "on purpose") {
					t.Errorf("%+v", e)
				}
			}
		})
	}
}
