package conversation

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestThreadIsKnownByEachOfItsNames(t *testing.T) {
	in := PumpInput{State: PumpState{Cursor: protocol.Cursor{Incarnation: 1}}, Thread: ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never"}}
	for answer, want := range map[string]string{
		`{"thread":{"id":"t-1"}}`:                                    "t-1",
		`{"threadId":"t-1"}`:                                         "t-1",
		`{"sessionId":"t-1","thread":{}}`:                            "t-1",
		`{"sessionId":"t-1","threadId":"t-1","thread":{"id":"t-1"}}`: "t-1",
		`{"thread":{"id":"t-1","sessionId":"the-tree"}}`:             "t-1", // threads of one tree share it
		`{"threadId":"t-2","thread":{"id":"t-1"}}`:                   "two threads as its own, thread.id t-1 and threadId t-2",
		`{"sessionId":"t-3","thread":{"id":"t-1"}}`:                  "two threads as its own, thread.id t-1 and sessionId t-3",
		`{"model":"m"}`:                                              "names no thread",
	} {
		s := perform(t, in, Options{})
		s.hear(`{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`, `{"id":"g1.p9.thread.0","result":`+answer+`}`)
		if strings.Contains(want, " ") {
			if r := s.result(Refused); r.Problem.Kind != "protocol" || !strings.Contains(r.Problem.Message, want) || r.State.ThreadID != "" {
				t.Errorf("%s: %+v", answer, r.Problem)
			}
			continue
		}
		if s.m.st.ThreadID != want {
			t.Errorf("%s: thread %q", answer, s.m.st.ThreadID)
		}
	}
}

func TestNotificationsNameTheirThreadByAnyName(t *testing.T) {
	// renamed calls the thread by another name in a line of a test.
	renamed := func(line, names string) string { return strings.Replace(line, `"threadId":"thread-1"`, names, 1) }
	says := completed("a", "agentMessage", `,"text":"hi"`)
	for names, want := range map[string]string{
		`"sessionId":"thread-1"`:                           "hi",
		`"thread":{"id":"thread-1","sessionId":"tree"}`:    "hi",
		`"threadId":"thread-1","sessionId":"thread-1"`:     "hi",
		`"sessionId":"thread-2"`:                           "", // a sub-agent's
		`"thread":{"id":"thread-2"}`:                       "",
		`"threadId":"thread-1","sessionId":"thread-2"`:     "two threads",
		`"threadId":"thread-1","thread":{"id":"thread-2"}`: "two threads",
	} {
		s := perform(t, PumpInput{State: running()}, Options{})
		s.hear(renamed(says, names))
		e := s.sink.entries[0]
		if want == "two threads" {
			if e.Status != "warning" || !strings.Contains(e.Text, want) || s.m.st.FinalText != "" {
				t.Errorf("%s: %+v", names, e)
			}
			continue
		}
		if s.m.st.FinalText != want || (e.Data["thread"] == "") != (want != "") {
			t.Errorf("%s: final text %q, entry %+v", names, s.m.st.FinalText, e)
		}
	}

	clash := `"threadId":"thread-1","sessionId":"thread-2"`
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(started("a", "agentMessage", ""), renamed(wireEvent("item/agentMessage/delta", `"itemId":"a","delta":"x"`), `"sessionId":"thread-1"`))
	if len(s.sink.deltas) != 1 {
		t.Errorf("a piece by another name: %+v", s.sink.deltas)
	}
	s.hear(renamed(asking(7, "c", "ls"), clash))
	if len(s.m.st.Open) != 0 || len(s.said) != 1 || !strings.Contains(s.said[0], `{"decision":"decline"}`) {
		t.Errorf("a request of two threads: %q", s.said)
	}
	s.hear(renamed(turnDone("completed", ""), clash))
	if r := s.result(TurnEnded); r.Turn.Status != "unknown" || r.Turn.Problem.Kind != "protocol" || !strings.Contains(r.Turn.Problem.Message, "two threads") {
		t.Errorf("%+v", r.Turn)
	}
}

// A sessionId of a search or a call is no thread.
func TestOtherSessionsAreNoThreads(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(`{"method":"fuzzyFileSearch/sessionUpdated","params":{"sessionId":"s-1","query":"q","files":[]}}`,
		wireEvent("thread/realtime/started", `"sessionId":"call-1","version":"v1"`))
	if len(s.sink.entries) != 0 {
		t.Errorf("%+v", s.sink.entries)
	}
}
