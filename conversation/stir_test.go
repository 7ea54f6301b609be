package conversation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestOnlyLinesThatChangeWhatIsWaitedForStir(t *testing.T) {
	long := strings.Repeat("x", 3000)
	for line, want := range map[string]bool{
		asking(7, "i", "ls"):                   true,
		`{"id":"q","method":"who/knows"}`:      true,
		resolvedLine(7):                        true,
		turnDone("completed", ""):              true,
		wireEvent("turn/started", `"x":1`):     true,
		wireEvent("thread/closed", `"x":1`):    true,
		wireEvent("error", `"willRetry":true`): true,
		fmt.Sprintf(`{"params":{"command":%q},"id":3,"method":"item/commandExecution/requestApproval"}`, long): true,
		fmt.Sprintf(`{"params":{"delta":%q},"method":"turn/completed"}`, long):                                 true,

		`{"id":"g1.p2.3","result":{"method":"turn/completed","id":3}}`:                    false,
		`{"id":"g1.p2.3","error":{"code":-32600,"message":"no"}}`:                         false,
		started("i", "commandExecution", ""):                                              false,
		wireEvent("item/agentMessage/delta", `"delta":"{\"method\":\"turn/completed\"}"`): false,
		wireEvent("thread/status/changed", `"status":{"type":"active"}`):                  false,
		fmt.Sprintf(`{"method":"item/completed","params":{"id":4,"text":%q}}`, long):      false,
		"": false, "no JSON": false, `{"method":`: false, `[1,2]`: false,
	} {
		for _, max := range []int{0, 1000} {
			split := wire.NewSplitter(0, max)
			split.Feed([]byte(line+"\n"), func(l wire.Line) {
				if l.Stirs() != want {
					t.Errorf("bound %d: %.100s: stirs %v", max, line, !want)
				}
			})
		}
	}
}

func TestARequestThatIsTakenBackIsToldThoughTheTurnGoesOn(t *testing.T) {
	st := running()
	st.Open = []OpenRequest{openRequest(1, "")}
	s := perform(t, PumpInput{State: st}, Options{}, resolvedLine(1))
	s.attached() // the turn may be about to end
	// The stream never rests.
	for range 20 {
		s.hear(wireEvent("item/agentMessage/delta", `"itemId":"m","delta":"x"`))
		s.wait(50 * time.Millisecond)
	}
	if r := s.result(Bound); len(r.Resolved) != 1 || string(r.Resolved[0]) != "1" || len(r.State.Open) != 0 || r.State.TurnID != ourTurn {
		t.Errorf("result %+v", r)
	}

	s = perform(t, PumpInput{State: st}, Options{}, resolvedLine(1))
	s.wait(50 * time.Millisecond)
	s.hear(turnDone("interrupted", ""))
	if r := s.result(TurnEnded); len(r.Resolved) != 1 {
		t.Errorf("result %+v", r)
	}
}

func TestNothingIsDecidedOnAProcessThatEndedBefore(t *testing.T) {
	st := running()
	st.Open = []OpenRequest{openRequest(1, "")}
	for _, backlog := range [][]string{nil, {asking(2, "", "ls")}} {
		d := decision("d", 1, protocol.Accept)
		s := perform(t, PumpInput{State: st, Sends: []Send{d}}, Options{Over: true}, backlog...)
		s.wait(time.Minute)
		s.m.cancel(s.m.now)
		s.attached()
		s.m.ended(s.m.now)
		r := s.result(ProcessEnded)
		if len(r.Requests) != 0 || len(r.State.Open) != 0 || len(r.Resolved) != 1 || delivered(t, r, "d") != protocol.Decided {
			t.Errorf("result %+v", r)
		}
		s.heard()
	}
}
