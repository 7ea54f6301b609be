package conversation

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

const budgetInterrupt = `{"id":"send/budget.turn-1/0","method":"turn/interrupt","params":{"threadId":"thread-1","turnId":"turn-1"}}`

const cleanUp = `{"id":"g1.p9.clean.0","method":"thread/backgroundTerminals/clean","params":{"threadId":"thread-1"}}`

// usage is codex's report of the thread's tokens after one more answer.
func usage(totalIn, totalOut, lastIn, lastOut int) string {
	return wireEvent("thread/tokenUsage/updated", fmt.Sprintf(
		`"tokenUsage":{"total":{"inputTokens":%d,"outputTokens":%d},"last":{"inputTokens":%d,"outputTokens":%d}}`, totalIn, totalOut, lastIn, lastOut))
}

func TestTurnOverItsBudgetIsInterrupted(t *testing.T) {
	s := perform(t, PumpInput{State: running(), Limits: Limits{Budget: protocol.Bounds{Tokens: 100}}}, Options{})
	s.hear(usage(60, 20, 60, 20), usage(75, 25, 15, 5))
	s.heard() // the turn is not over yet
	s.hear(usage(75, 26, 0, 1), usage(85, 30, 10, 4))
	s.heard(budgetInterrupt)
	s.hear(`{"id":"send/budget.turn-1/0","result":{}}`, turnDone("interrupted", ""))
	s.hear(`{"id":"g1.p9.clean.0","result":{}}`)
	r := s.result(TurnEnded)
	if p := r.Turn.Problem; r.Turn.Status != "interrupted" || p == nil || p.Kind != "budget" || p.Hint == "" || !strings.Contains(p.Message, "115 of the 100 tokens") {
		t.Errorf("turn %+v, problem %+v", r.Turn, r.Turn.Problem)
	}
	if len(r.Deliveries) != 0 || r.State.Budget != "" {
		t.Errorf("the workflow hears of a message that it did not send: %+v, state %+v", r.Deliveries, r.State)
	}
}

func TestTurnThatEndsInTimeKeepsItsWord(t *testing.T) {
	s := perform(t, PumpInput{State: running(), Limits: Limits{Budget: protocol.Bounds{Tokens: 100}}}, Options{})
	s.hear(usage(90, 20, 90, 20), turnDone("completed", ""))
	if r := s.result(TurnEnded); r.Turn.Status != "completed" || r.Turn.Problem != nil {
		t.Errorf("%+v", r.Turn)
	}
}

// Use before this pump and before this turn counts too.
func TestBudgetIsOfTheWholeSession(t *testing.T) {
	st := running()
	st.Usage, st.Total = protocol.Usage{Input: 4000, Output: 900}, protocol.Usage{Input: 5000}
	in := PumpInput{Session: "s1", State: st, Limits: Limits{Budget: protocol.Bounds{Tokens: 5000}}}
	s := perform(t, in, Options{})
	s.hear(usage(5100, 0, 100, 0))
	s.heard()
	s.hear(usage(5101, 0, 1, 0))
	s.heard(budgetInterrupt)
	s.hear(`{"id":"send/budget.turn-1/0","result":{}}`, turnDone("interrupted", ""))
	s.hear(`{"id":"g1.p9.clean.0","result":{}}`)
	if p := s.result(TurnEnded).Turn.Problem; p == nil || !strings.Contains(p.Message, "5001 of the 5000 tokens") || !strings.Contains(p.Hint, "ctl session set s1 --budget tokens=N") {
		t.Errorf("%+v", p)
	}
}

func TestBudgetsInterruptIsTakenUpByTheNextPump(t *testing.T) {
	in := PumpInput{State: running(), Limits: Limits{Budget: protocol.Bounds{Tokens: 100}}}
	over := usage(200, 0, 200, 0)
	ack := `{"id":"send/budget.turn-1/0","result":{}}`
	for name, c := range map[string]struct {
		heard []string
		want  protocol.DeliveryState
		again bool
	}{
		"written":  {[]string{over}, protocol.Sent, true},
		"answered": {[]string{over, ack}, protocol.Acknowledged, false},
	} {
		s := perform(t, in, Options{})
		s.hear(c.heard...)
		s.m.cancel(s.m.now)
		r := s.result(PumpCancelled)
		if r.State.Budget != c.want {
			t.Errorf("%s: budget %q", name, r.State.Budget)
		}
		next := perform(t, PumpInput{State: r.State, Limits: Limits{Budget: protocol.Bounds{Tokens: 1}}}, Options{})
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
	// The earlier attempt died after the interrupt, which the journal shows.
	s := perform(t, in, Options{Attempt: 2}, over, ack)
	s.heard(cleanUp)
	s.attached()
	// The earlier attempt died before the interrupt. This attempt sends it after the
	// backlog.
	s = perform(t, in, Options{Attempt: 2}, over)
	s.heard(budgetInterrupt)
}

func at(ms int, line string) string {
	for _, name := range []string{"emittedAtMs", "startedAtMs"} {
		line = strings.Replace(line, `"`+name+`":2000`, fmt.Sprintf(`"%s":%d`, name, ms), 1)
	}
	return line
}

func itemBegins(n int, kind string) string {
	return wireEvent("item/started", fmt.Sprintf(`"item":{"id":"item-%d","type":%q}`, n, kind))
}

func (s *stage) warnings() (texts []string) {
	for _, e := range s.sink.entries {
		if e.Status == "budget" {
			texts = append(texts, e.Data["budget"]+" "+e.Data["used"]+"/"+e.Data["limit"]+": "+e.Text)
		}
	}
	return texts
}

func TestCommandsAreCountedAndBounded(t *testing.T) {
	in := PumpInput{Session: "s1", State: running(), Limits: Limits{Budget: protocol.Bounds{Commands: 5}}}
	in.State.Spent.Commands = 3
	s := perform(t, in, Options{})
	s.hear(itemBegins(1, "commandExecution"), itemBegins(1, "commandExecution"), itemBegins(2, "fileChange"))
	if w := s.warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "commands 4/5: ") || !strings.Contains(w[0], "80 %") {
		t.Errorf("warned %q", w)
	}
	s.hear(itemBegins(3, "commandExecution"))
	s.heard() // the fifth is the last
	s.hear(itemBegins(4, "commandExecution"), itemBegins(5, "commandExecution"))
	s.heard(budgetInterrupt)
	s.hear(`{"id":"send/budget.turn-1/0","result":{}}`, turnDone("interrupted", ""))
	s.wait(time.Minute)
	r := s.result(TurnEnded)
	if p := r.Turn.Problem; p == nil || p.Kind != protocol.EndBudget || !strings.Contains(p.Message, "7 of the 5 commands") {
		t.Errorf("%+v", p)
	}
	if w := s.warnings(); len(w) != 2 || !strings.Contains(w[1], "the turn is interrupted") || r.State.Spent.Over != "" || r.State.Spent.Commands != 7 {
		t.Errorf("%q, %+v", w, r.State.Spent)
	}
}

// timed is a state within a turn whose beginning codex has reported.
func timed() PumpState {
	s := running()
	s.Spent.CountedMS = anew
	return s
}

// The same journal gives the same result in two pumps, and in a second attempt.
func TestWhatWasUsedIsAFunctionOfTheJournal(t *testing.T) {
	lines := []string{
		at(1000, itemBegins(1, "commandExecution")), at(3000, itemBegins(2, "commandExecution")), at(9000, usage(50, 30, 50, 30)),
		at(9500, itemBegins(3, "commandExecution")), at(10100, usage(60, 31, 10, 1)),
	}
	in := PumpInput{Session: "s1", State: timed(), Limits: Limits{Budget: protocol.Bounds{Commands: 3, Tokens: 100, Time: 11 * time.Second}}}
	whole := perform(t, in, Options{}, lines...)
	whole.m.cancel(whole.m.now)
	want := whole.result(PumpCancelled)
	if len(whole.warnings()) != 3 || want.State.Spent.TimeMS != 9100 {
		t.Errorf("%q, %+v", whole.warnings(), want.State.Spent)
	}
	for cut := range len(lines) {
		first := perform(t, in, Options{}, lines[:cut]...)
		first.m.cancel(first.m.now)
		next := in
		next.State = first.result(PumpCancelled).State
		second := perform(t, next, Options{Attempt: 2}, lines[cut:]...)
		second.m.cancel(second.m.now)
		r := second.result(PumpCancelled)
		if got := append(first.warnings(), second.warnings()...); !slices.Equal(got, whole.warnings()) {
			t.Errorf("cut at %d: warned %q, want %q", cut, got, whole.warnings())
		}
		if r.State.Spent != want.State.Spent {
			t.Errorf("cut at %d: %+v, want %+v", cut, r.State.Spent, want.State.Spent)
		}
	}
}

func TestTimeIsThatOfTheTurnsWithoutTheirWaits(t *testing.T) {
	in := PumpInput{Session: "s1", State: timed(), Limits: Limits{Budget: protocol.Bounds{Time: 10 * time.Second}, Attach: time.Hour}}
	in.State.Open, in.State.Items = nil, nil
	s := perform(t, in, Options{})
	s.hear(at(1000, itemBegins(1, "commandExecution")), at(4000, asking(7, "item-1", "ls")))
	s.hear(at(604000, resolvedLine(7)))
	if ms := s.m.st.Spent.TimeMS; ms != 3000 {
		t.Errorf("%d ms are counted, want the 3 s before the question", ms)
	}
	since := s.m.now
	if wake := s.m.wake(); wake > since+7*time.Second {
		t.Errorf("it would look again after %v, want after 7 s at most", wake-since)
	}
	s.wait(6900 * time.Millisecond)
	s.heard()
	s.wait(100 * time.Millisecond)
	s.heard(budgetInterrupt)
	s.hear(`{"id":"send/budget.turn-1/0","result":{}}`, at(611050, turnDone("interrupted", "")))
	s.wait(time.Minute)
	if p := s.result(TurnEnded).Turn.Problem; p == nil || p.Kind != protocol.EndBudget || !strings.Contains(p.Message, "10.05s of the 10s") {
		t.Errorf("%+v", p)
	}
	// An attempt that died after its interrupt left no record of it.
	again := perform(t, in, Options{Attempt: 2}, at(1000, itemBegins(1, "commandExecution")), at(11050, turnDone("interrupted", "")))
	again.wait(time.Minute)
	if p := again.result(TurnEnded).Turn.Problem; p == nil || p.Kind != protocol.EndBudget {
		t.Errorf("after a kill: %+v", p)
	}
	// If a person interrupted a turn before its time was up, the turn has no budget
	// problem.
	early := perform(t, in, Options{}, at(1000, itemBegins(1, "commandExecution")), at(8000, turnDone("interrupted", "")))
	early.wait(time.Minute)
	if p := early.result(TurnEnded).Turn.Problem; p != nil {
		t.Errorf("in time: %+v", p)
	}
}

func TestNobodyIsAskedForAnApprovalBeyondTheBudget(t *testing.T) {
	in := PumpInput{Session: "s1", State: running(), Limits: Limits{Budget: protocol.Bounds{Approvals: 2}}, Policy: "p"}
	in.State.Tally.InSession = 2
	judged := 0
	s := perform(t, in, Options{Judge: func(Asked) Verdict { judged++; return Verdict{Outcome: protocol.Accept, Rule: "all", Policy: "p"} }})
	s.hear(itemBegins(1, "commandExecution"), asking(7, "item-1", "ls"))
	s.heard(budgetInterrupt)
	s.wait(time.Minute / 2)
	if s.m.result != nil || judged != 0 {
		t.Errorf("judged %d times, returned %+v", judged, s.m.result)
	}
	s.hear(`{"id":"send/budget.turn-1/0","result":{}}`, turnDone("interrupted", ""))
	s.wait(time.Minute)
	r := s.result(TurnEnded)
	if p := r.Turn.Problem; p == nil || !strings.Contains(p.Message, "3 of the 2 approvals") || len(r.Requests) != 0 {
		t.Errorf("%+v, requests %+v", p, r.Requests)
	}
}

func TestTurnsAreWarnedOfAndNeverInterrupted(t *testing.T) {
	in := PumpInput{Session: "s1", State: opened(), Limits: Limits{Budget: protocol.Bounds{Turns: 5}}, Sends: []Send{turn(5, "m-5", "hello")}}
	s := perform(t, in, Options{})
	s.hear(`{"id":"send/m-5/0","result":{"turn":{"id":"turn-1"}}}`)
	if w := s.warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "turns 5/5") || s.m.st.Budget != "" {
		t.Errorf("%q", w)
	}
}

func TestABoundIsWarnedOfOnceAndAnewWhenItIsAnotherOne(t *testing.T) {
	in := PumpInput{Session: "s1", State: running(), Limits: Limits{Budget: protocol.Bounds{Tokens: 100}}}
	s := perform(t, in, Options{}, usage(80, 0, 80, 0), usage(90, 0, 10, 0))
	s.m.cancel(s.m.now)
	st := s.result(PumpCancelled).State
	if n := len(s.warnings()); n != 1 {
		t.Errorf("%d warnings", n)
	}
	in.State, in.Limits.Budget.Tokens = st, 200
	s = perform(t, in, Options{}, usage(100, 0, 10, 0), usage(165, 0, 65, 0), usage(166, 0, 1, 0))
	if w := s.warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "tokens 165/200") {
		t.Errorf("%q", w)
	}
}

// If the time is up by the clock of one attempt, this changes no entry and no verdict of
// this or another attempt.
func TestAnInterruptByTheClockIsNoPartOfTheRecord(t *testing.T) {
	in := PumpInput{Session: "s1", State: timed(), Limits: Limits{Budget: protocol.Bounds{Time: 10 * time.Second}}, Policy: "p"}
	opt := Options{Judge: func(Asked) Verdict { return Verdict{Outcome: protocol.Accept, Rule: "all", Policy: "p"} }}
	idle := `{"method":"thread/status/changed","params":{"threadId":"thread-1","status":{"type":"active"}},"emittedAtMs":2000}`
	refused := `{"id":"send/budget.turn-1/0","error":{"code":-32600,"message":"expected active turn id turn-0"}}`
	begin := at(1000, itemBegins(1, "commandExecution"))
	for name, after := range map[string][]string{
		"asked in time":  {at(10900, asking(7, "item-1", "rm -rf x")), at(10950, turnDone("interrupted", ""))},
		"asked too late": {at(11005, asking(7, "item-1", "rm -rf x")), at(11020, turnDone("interrupted", ""))},
		"said a word":    {refused, at(11010, idle), at(11020, turnDone("interrupted", ""))},
	} {
		first := perform(t, in, opt)
		first.hear(begin)
		first.wait(10 * time.Second)
		first.heard(budgetInterrupt)
		first.hear(after...)
		first.wait(time.Minute)
		want := first.result(TurnEnded)

		second := perform(t, in, Options{Attempt: 2, Judge: opt.Judge}, append([]string{begin}, after...)...)
		second.wait(time.Minute)
		got := second.result(TurnEnded)
		if !reflect.DeepEqual(first.sink.entries, second.sink.entries) {
			t.Errorf("%s: the first attempt has\n%+v\nthe second\n%+v", name, first.sink.entries, second.sink.entries)
		}
		if !reflect.DeepEqual(want.State, got.State) || !reflect.DeepEqual(want.Turn, got.Turn) || !reflect.DeepEqual(want.Judged, got.Judged) {
			t.Errorf("%s: %+v\n%+v", name, want, got)
		}
		if p := got.Turn.Problem; p == nil || p.Kind != protocol.EndBudget {
			t.Errorf("%s: %+v", name, got.Turn)
		}
	}
}

func TestABudgetsInterruptThatIsRefusedIsSentAgain(t *testing.T) {
	in := PumpInput{Session: "s1", State: running(), Limits: Limits{Budget: protocol.Bounds{Approvals: 2}}}
	in.State.Tally.InSession = 2
	refused := func(try int) string {
		return fmt.Sprintf(`{"id":"send/budget.turn-1/%d","error":{"code":-32600,"message":"no active turn to interrupt"}}`, try)
	}
	s := perform(t, in, Options{})
	s.hear(asking(7, "item-1", "ls"))
	s.heard(budgetInterrupt)
	s.hear(refused(0))
	s.wait(10 * time.Second)
	s.heard(budgetInterrupt, strings.Replace(budgetInterrupt, `turn-1/0`, `turn-1/1`, 1))
	s.attached()
	for try := 1; s.m.result == nil && try < 100; try++ {
		s.hear(refused(try))
		s.wait(9 * time.Second)
	}
	if r := s.result(TimedOut); r.State.Budget == protocol.Acknowledged || s.m.now > 2*defaultRequest {
		t.Errorf("gave up after %v, %+v", s.m.now, r.State)
	}
}

func TestWhoHadATurnInterruptedIsKnownToTheNextPump(t *testing.T) {
	in := PumpInput{Session: "s1", State: timed(), Limits: Limits{Budget: protocol.Bounds{Time: 10 * time.Second}}, Sends: []Send{{ID: "i", Kind: SendInterrupt}}}
	s := perform(t, in, Options{})
	s.hear(at(1000, itemBegins(1, "commandExecution")), `{"id":"send/i/0","result":{}}`)
	s.m.cancel(s.m.now)
	next := in
	next.State, next.Sends = s.result(PumpCancelled).State, nil
	s = perform(t, next, Options{}, at(10500, turnDone("interrupted", "")))
	s.wait(time.Minute)
	if r := s.result(TurnEnded); r.Turn.Problem != nil || r.State.Spent.Stopped {
		t.Errorf("%+v, %+v", r.Turn.Problem, r.State.Spent)
	}
}
