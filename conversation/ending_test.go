package conversation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestLongAndStrayLinesAreSurvived(t *testing.T) {
	long := strings.Repeat("x", 300)
	in := PumpInput{State: running(), Limits: Limits{Line: 250}}
	s := perform(t, in, Options{})
	s.hear("what is this", "and this \xff", `{"neither":1}`, "", "again")
	if n := len(s.sink.entries); n != 1 || !strings.Contains(s.sink.entries[0].Text, "what is this") {
		t.Errorf("a run of stray lines made %d entries: %+v", n, s.sink.entries)
	}
	s.hear(completed("a", "agentMessage", `,"text":"fine"`), "stray once more")
	if n := len(s.sink.entries); n != 3 {
		t.Errorf("%d entries", n)
	}
	s.hear(asking(5, "c", long))
	if len(s.said) != 1 || !strings.HasPrefix(s.said[0], `{"id":5,"error":`) {
		t.Errorf("the long request got %q", s.said)
	}
	s.attached()
	s.hear(turnDone("completed", `,"items":["`+long+`"]`))
	r := s.result(TurnEnded)
	if r.Turn.Status != "unknown" || r.Turn.Problem == nil || r.Turn.FinalText != "fine" {
		t.Errorf("%+v", r.Turn)
	}
	if r.State.Cursor.Offset != s.at {
		t.Errorf("cursor %d, want %d", r.State.Cursor.Offset, s.at)
	}
}

func TestCompletionThatRacesTheCancelWins(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(turnDone("completed", ""))
	s.m.cancel(0)
	s.result(TurnEnded)
	s = perform(t, PumpInput{State: running()}, Options{})
	s.m.cancel(0)
	r := s.result(PumpCancelled)
	if r.State.TurnID != ourTurn || r.State.Cursor.Offset != 1000 {
		t.Errorf("%+v", r.State)
	}
}

func TestInterruptWaitsForTheCommandsItEnds(t *testing.T) {
	st := running()
	st.Items = []OpenItem{{ID: "c", Type: "commandExecution", Turn: 4}}
	in := PumpInput{State: st, Sends: []Send{{ID: "i", Kind: SendInterrupt}}}
	s := perform(t, in, Options{})
	s.hear(`{"id":"send/i/0","result":{}}`, turnDone("interrupted", ""))
	s.heard(`{"id":"send/i/0","method":"turn/interrupt","params":{"threadId":"thread-1","turnId":"turn-1"}}`,
		`{"id":"g1.p9.clean.0","method":"thread/backgroundTerminals/clean","params":{"threadId":"thread-1"}}`)
	s.hear(`{"id":"g1.p9.clean.0","result":{}}`)
	s.attached()
	s.hear(completed("c", "commandExecution", `,"status":"failed"`))
	if r := s.result(TurnEnded); r.Turn.Status != "interrupted" || delivered(t, r, "i") != protocol.Acknowledged {
		t.Errorf("%+v", r)
	}
	// The pump does not wait forever for a command that does not end.
	s = perform(t, in, Options{})
	s.hear(`{"id":"send/i/0","result":{}}`, turnDone("interrupted", ""))
	s.wait(6 * time.Second)
	s.result(TurnEnded)
}

func TestProcessEndLeavesTruthfulDeliveries(t *testing.T) {
	st := running()
	st.Open = []OpenRequest{openRequest(0, "c"), openRequest(1, "d")}
	opt := Options{Exit: func() (string, string) { return "exit status 137", "some line\nthe end" }}
	s := perform(t, PumpInput{State: st, Sends: []Send{decision("d-0", 0, protocol.Accept), {ID: "s-1", Kind: SendSteer, Text: "x"}}}, opt)
	s.m.ended(time.Second)
	r := s.result(ProcessEnded)
	if delivered(t, r, "d-0") != protocol.Sent || delivered(t, r, "s-1") != protocol.Sent || r.Turn != nil || r.State.TurnID != ourTurn {
		t.Errorf("%+v", r)
	}
	if len(r.State.Open) != 0 || len(r.Resolved) != 2 {
		t.Errorf("requests of a dead process are open: %+v", r)
	}
	if r.Problem.Kind != "process_exit" || !strings.Contains(r.Problem.Message, "the end") {
		t.Errorf("problem %+v", r.Problem)
	}
	s = perform(t, PumpInput{State: opened(), Sends: []Send{turn(5, "m", "x")}}, opt, wireEvent("warning", `"message":"w"`))
	if s.m.ended(0); delivered(t, s.result(ProcessEnded), "m") != protocol.Sent {
		t.Error("a message that was written is not called sent")
	}
}

func TestChangesOfAnOpenItemAreReadAgain(t *testing.T) {
	first := started("f", "fileChange", `,"changes":[{"path":"/w/a","kind":{"type":"update","move_path":"/w/b"},"diff":"-x\n+y\n"}]`)
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(first)
	s.m.cancel(0)
	r := s.result(PumpCancelled)
	if r.State.Rewind != 1000 || r.State.Cursor.Offset <= 1000 {
		t.Fatalf("rewind %d, cursor %+v", r.State.Rewind, r.State.Cursor)
	}
	ask := `{"method":"item/fileChange/requestApproval","id":4,"params":{"threadId":"thread-1","turnId":"turn-1","itemId":"f","startedAtMs":3}}`
	s = perform(t, PumpInput{State: r.State}, Options{}, first, ask)
	s.wait(time.Second)
	got := s.result(RequestsOpen).Requests
	if len(got) != 1 || len(got[0].Changes) != 1 || got[0].Changes[0] != (protocol.Change{Path: "/w/a -> /w/b", Kind: "update", Diff: "-x\n+y\n"}) {
		t.Errorf("%+v", got)
	}
	if len(s.sink.entries) != 1 {
		t.Errorf("what was folded before made entries again: %+v", s.sink.entries)
	}
}

func TestDeltasTellTheirPlaceAcrossPumps(t *testing.T) {
	delta := func(text string) string {
		return wireEvent("item/agentMessage/delta", `"itemId":"a","delta":"`+text+`"`)
	}
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(started("a", "agentMessage", ""), delta("größer "), delta("two "))
	s.m.cancel(0)
	st := s.result(PumpCancelled).State
	s2 := perform(t, PumpInput{State: st}, Options{}, delta("größer "), delta("two ")) // read again, but not shown again
	if s2.at != st.Cursor.Offset {
		t.Fatalf("read again up to %d, the cursor is %+v", s2.at, st.Cursor)
	}
	s2.hear(delta("three"))
	all := append(s.sink.deltas, s2.sink.deltas...)
	want := []protocol.Delta{{Item: "a", Type: protocol.EntryAssistant, Turn: 4, At: 0, Text: "größer "}, {Item: "a", Type: protocol.EntryAssistant, Turn: 4, At: 9, Text: "two "}, {Item: "a", Type: protocol.EntryAssistant, Turn: 4, At: 13, Text: "three"}}
	if !slices.Equal(all, want) {
		t.Errorf("%+v", all)
	}
}

func TestOtherThreadsDoNotMixIn(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	foreign := strings.ReplaceAll(completed("x", "agentMessage", `,"text":"a sub-agent's"`), ourThread, "thread-2")
	s.hear(foreign, completed("r", "reasoning", `,"summary":["thinking"]`), completed("a", "agentMessage", `,"text":"ours"`),
		strings.ReplaceAll(turnDone("failed", ""), ourTurn, "turn-x"), turnDone("completed", ""))
	if r := s.result(TurnEnded); r.Turn.FinalText != "ours" || r.Turn.Items != 2 || r.Turn.Status != "completed" {
		t.Errorf("%+v", r.Turn)
	}
	if e := s.sink.entries[0]; e.Data["thread"] != "thread-2" {
		t.Errorf("%+v", e)
	}
}

func TestFinalTextIsCutAndSaysSo(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	half := strings.Repeat("ä", 10<<10)
	s.hear(completed("a", "agentMessage", `,"text":"`+half+`"`), completed("b", "agentMessage", `,"text":"`+half+`"`), turnDone("completed", ""))
	r := s.result(TurnEnded)
	if !r.Turn.FinalTruncated || len(r.Turn.FinalText) > maxFinal || !strings.HasPrefix(r.Turn.FinalText, half+"\n\nä") || !strings.HasSuffix(r.Turn.FinalText, "ä") {
		t.Errorf("%d bytes, truncated %t", len(r.Turn.FinalText), r.Turn.FinalTruncated)
	}
}

func TestRequestIsExcerptedAndDigestedWhole(t *testing.T) {
	long := strings.Repeat("y", 20<<10)
	s := perform(t, PumpInput{State: running(), Limits: Limits{Excerpt: 1000}}, Options{})
	s.hear(asking(0, "c", long))
	s.wait(time.Second)
	r := s.result(RequestsOpen).Requests[0]
	if !r.Truncated || len(r.Command) != 1000 || r.Whole.Command != long || s.sink.requests[0].Command != long {
		t.Errorf("command of %d bytes, truncated %t", len(r.Command), r.Truncated)
	}
	if want := (&asked{Kind: protocol.KindCommand, Command: long, CWD: "/w"}).digest(); r.Digest != want {
		t.Errorf("digest %s, want %s", r.Digest, want)
	}
}

func TestUsageAddsUpWhateverIsRepeated(t *testing.T) {
	usage := func(total, last int) string {
		return wireEvent("thread/tokenUsage/updated", fmt.Sprintf(`"tokenUsage":{"total":{"inputTokens":%d,"outputTokens":1,"cachedInputTokens":0},"last":{"inputTokens":%d,"outputTokens":1,"cachedInputTokens":0}}`, total, last))
	}
	st := opened()
	st.Total, st.Usage = protocol.Usage{Input: 100, Output: 1}, protocol.Usage{Input: 100, Output: 1}
	s := perform(t, PumpInput{State: st, Sends: []Send{turn(5, "m", "x")}}, Options{})
	s.hear(usage(100, 70), // codex reports this first for a resumed thread
		`{"id":"send/m/0","result":{"turn":{"id":"turn-1"}}}`, usage(150, 50), usage(150, 50), usage(210, 60), usage(20, 20), turnDone("completed", ""))
	r := s.result(TurnEnded)
	if r.Turn.Usage.Input != 50+60+20 || r.State.Usage.Input != 230 {
		t.Errorf("turn %+v, session %+v", r.Turn.Usage, r.State.Usage)
	}
}

func TestNotesComeFirstAndOnce(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	in := PumpInput{State: running(), Notes: []Note{{ID: "n-1", Type: protocol.EntryDecision, At: at, Turn: 4, Text: "accepted", Data: map[string]string{"by": "ada"}}}}
	s := perform(t, in, Options{}, completed("a", "agentMessage", `,"text":"t"`))
	e := s.sink.entries
	if len(e) != 2 || e[0].ID != "n-1" || e[0].Seq != 11 || !e[0].At.Equal(at) || e[1].Seq != 12 || e[1].ID != "i3.1000" {
		t.Errorf("%+v", e)
	}
}

func TestOpeningRefusesWhatItMust(t *testing.T) {
	st := PumpState{Cursor: protocol.Cursor{Incarnation: 1}, ThreadID: ourThread}
	in := PumpInput{State: st, Resume: true, Thread: ThreadSpec{CWD: "/w", Sandbox: "read-only", Permissions: "fl", ApprovalPolicy: "never", Mark: "m"}}
	initAnswer := `{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`
	for name, c := range map[string]struct {
		lines []string
		kind  string
	}{
		"missing":   {[]string{initAnswer, `{"id":"g1.p9.thread.0","error":{"code":-32600,"message":"no rollout found for thread id thread-1"}}`}, "thread_missing"},
		"busy":      {[]string{initAnswer, `{"id":"g1.p9.thread.0","error":{"code":-32600,"message":"thread thread-1 already has an active writer"}}`}, "thread_busy"},
		"other one": {[]string{initAnswer, `{"id":"g1.p9.thread.0","result":{"thread":{"id":"thread-2"}}}`}, "protocol"},
		"too old":   {[]string{`{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.110.0 (x)"}}`}, "version"},
	} {
		s := perform(t, in, Options{})
		s.hear(c.lines...)
		r := s.result(Refused)
		if r.Problem.Kind != c.kind || r.Problem.Hint == "" || r.State.Opened != 0 || r.State.ThreadID != ourThread {
			t.Errorf("%s: %+v", name, r)
		}
		for _, line := range s.said {
			if strings.Contains(line, "thread/start") {
				t.Errorf("%s: a new thread was asked for", name)
			}
			if strings.Contains(line, "thread/resume") && (!strings.Contains(line, `"excludeTurns":true`) || !strings.Contains(line, `"permissions":"fl"`) || strings.Contains(line, `"sandbox"`)) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

func TestAccountTroubleIsOnRecordAndStopsNothing(t *testing.T) {
	in := PumpInput{State: PumpState{Cursor: protocol.Cursor{Incarnation: 1}}, Thread: ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never"}}
	s := perform(t, in, Options{})
	s.hear(`{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`,
		`{"id":"g1.p9.account.0","error":{"code":-32603,"message":"workspace routing discovery failed"}}`,
		`{"id":"g1.p9.models.0","error":{"code":-32603,"message":"offline"}}`,
		`{"id":"g1.p9.thread.0","result":{"thread":{"id":"thread-1"}}}`)
	if r := s.result(Bound); r.State.Opened != 1 {
		t.Errorf("%+v", r.State)
	}
	if n := len(s.sink.entries); n != 3 {
		t.Errorf("%d entries: %+v", n, s.sink.entries)
	}
}

func TestBadInputIsRefusedBeforeAnythingHappens(t *testing.T) {
	spec := ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never"}
	fresh := PumpState{Cursor: protocol.Cursor{Incarnation: 1}}
	for name, in := range map[string]PumpInput{
		"no prefix":       {State: fresh, Thread: spec},
		"no incarnation":  {Prefix: "p", Thread: spec},
		"relative cwd":    {Prefix: "p", State: fresh, Thread: ThreadSpec{CWD: "w", Sandbox: "read-only", ApprovalPolicy: "never"}},
		"no sandbox":      {Prefix: "p", State: fresh, Thread: ThreadSpec{CWD: "/w", ApprovalPolicy: "never"}},
		"same id twice":   {Prefix: "p", State: fresh, Thread: spec, Sends: []Send{turn(1, "m", "a"), turn(2, "m", "b")}},
		"unknown kind":    {Prefix: "p", State: fresh, Thread: spec, Sends: []Send{{ID: "m", Kind: "shout"}}},
		"decision of nil": {Prefix: "p", State: fresh, Thread: spec, Sends: []Send{{ID: "m", Kind: SendDecision}}},
	} {
		if _, err := newMachine(in, newKeeper(), Options{}, 0); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
