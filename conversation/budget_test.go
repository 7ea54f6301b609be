package conversation

import (
	"fmt"
	"strings"
	"testing"
)

const budgetInterrupt = `{"id":"send/budget.turn-1/0","method":"turn/interrupt","params":{"threadId":"thread-1","turnId":"turn-1"}}`

const cleanUp = `{"id":"g1.p9.clean.0","method":"thread/backgroundTerminals/clean","params":{"threadId":"thread-1"}}`

// usage is codex's word on the thread's tokens after one more answer.
func usage(totalIn, totalOut, lastIn, lastOut int) string {
	return wireEvent("thread/tokenUsage/updated", fmt.Sprintf(
		`"tokenUsage":{"total":{"inputTokens":%d,"outputTokens":%d},"last":{"inputTokens":%d,"outputTokens":%d}}`, totalIn, totalOut, lastIn, lastOut))
}

func TestTurnOverItsBudgetIsInterrupted(t *testing.T) {
	s := perform(t, PumpInput{State: running(), Limits: Limits{Tokens: 100}}, Options{})
	s.hear(usage(60, 20, 60, 20), usage(75, 25, 15, 5))
	s.heard() // it is not over yet
	s.hear(usage(75, 26, 0, 1), usage(85, 30, 10, 4))
	s.heard(budgetInterrupt)
	s.hear(`{"id":"send/budget.turn-1/0","result":{}}`, turnDone("interrupted", ""))
	s.hear(`{"id":"g1.p9.clean.0","result":{}}`)
	r := s.result(TurnEnded)
	if p := r.Turn.Problem; r.Turn.Status != "interrupted" || p == nil || p.Kind != "budget" || p.Hint == "" || !strings.Contains(p.Message, "115 tokens") {
		t.Errorf("turn %+v, problem %+v", r.Turn, r.Turn.Problem)
	}
	if len(r.Deliveries) != 0 || r.State.Budget != "" {
		t.Errorf("the workflow hears of a message that it did not send: %+v, state %+v", r.Deliveries, r.State)
	}
}

func TestTurnThatEndsInTimeKeepsItsWord(t *testing.T) {
	s := perform(t, PumpInput{State: running(), Limits: Limits{Tokens: 100}}, Options{})
	s.hear(usage(90, 20, 90, 20), turnDone("completed", ""))
	if r := s.result(TurnEnded); r.Turn.Status != "completed" || r.Turn.Problem != nil {
		t.Errorf("%+v", r.Turn)
	}
}

// What was used before this pump is the workflow's to count.
func TestBudgetIsOfTheTokensThatAreStillToCome(t *testing.T) {
	st := running()
	st.TurnUsage, st.Total = Usage{Input: 1000}, Usage{Input: 5000}
	s := perform(t, PumpInput{State: st, Limits: Limits{Tokens: 100}}, Options{})
	s.hear(usage(5100, 0, 100, 0))
	s.heard()
	s.hear(usage(5101, 0, 1, 0))
	s.heard(budgetInterrupt)
	// and a turn that begins has all of it
	in := PumpInput{State: opened(), Limits: Limits{Tokens: 100}, Sends: []Send{turn(5, "m-5", "hello")}}
	in.State.TurnUsage = Usage{}
	s = perform(t, in, Options{})
	s.hear(`{"id":"send/m-5/0","result":{"turn":{"id":"turn-1"}}}`, usage(101, 0, 101, 0))
	if n := len(s.said); n != 2 || s.said[1] != budgetInterrupt {
		t.Errorf("said %q", s.said)
	}
}

func TestBudgetsInterruptIsTakenUpByTheNextPump(t *testing.T) {
	in := PumpInput{State: running(), Limits: Limits{Tokens: 100}}
	over := usage(200, 0, 200, 0)
	ack := `{"id":"send/budget.turn-1/0","result":{}}`
	for name, c := range map[string]struct {
		heard []string
		want  DeliveryState
		again bool
	}{
		"written":  {[]string{over}, Sent, true},
		"answered": {[]string{over, ack}, Acknowledged, false},
	} {
		s := perform(t, in, Options{})
		s.hear(c.heard...)
		s.m.cancel(s.m.now)
		r := s.result(PumpCancelled)
		if r.State.Budget != c.want {
			t.Errorf("%s: budget %q", name, r.State.Budget)
		}
		next := perform(t, PumpInput{State: r.State, Limits: Limits{Tokens: 1}}, Options{})
		if c.again {
			next.heard(budgetInterrupt)
			next.hear(`{"id":"send/budget.turn-1/0","error":{"code":-32600,"message":"no active turn to interrupt"}}`)
		} else {
			next.heard(cleanUp)
		}
		next.hear(turnDone("interrupted", ""))
		next.hear(`{"id":"g1.p9.clean.0","result":{}}`)
		if r := next.result(TurnEnded); r.Turn.Problem == nil || r.Turn.Problem.Kind != "budget" || r.State.Budget != "" {
			t.Errorf("%s: %+v", name, r.Turn)
		}
	}
	// An attempt that died after it: the journal tells.
	s := perform(t, in, Options{Attempt: 2}, over, ack)
	s.heard(cleanUp)
	s.attached()
	// One that died before: the interrupt is behind the backlog.
	s = perform(t, in, Options{Attempt: 2}, over)
	s.heard(budgetInterrupt)
}
