package conversation

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// quietly returns a pump that has heard of a tool of the running turn.
func quietly(t *testing.T, lim Limits, lines ...string) *stage {
	t.Helper()
	lim.Silence = 24 * time.Hour
	s := perform(t, PumpInput{State: running(), Limits: lim}, Options{})
	s.hear(lines...)
	return s
}

var (
	toolBegins = started("c", "commandExecution", "")
	toolEnds   = completed("c", "commandExecution", `,"status":"completed"`)
	counted    = wireEvent("thread/tokenUsage/updated", `"tokenUsage":{"total":{"inputTokens":9},"last":{"inputTokens":9}}`)
	retries    = wireEvent("error", `"willRetry":true,"error":{"message":"Reconnecting... 1/2","codexErrorInfo":"other"}`)
)

func TestAModelThatNeverGoesOnAfterAToolIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		quiet time.Duration
		want  bool // whether the turn is given up
	}{
		"a tool ended":                    {[]string{toolBegins, toolEnds}, 0, true},
		"a bound of its own":              {[]string{toolBegins, toolEnds}, 5 * time.Minute, true},
		"a tool that no item tells of":    {[]string{counted}, 0, true},
		"any time":                        {[]string{toolBegins, toolEnds}, -1, false},
		"the tool runs":                   {[]string{toolBegins}, 0, false},
		"another tool runs":               {[]string{toolBegins, started("d", "mcpToolCall", ""), toolEnds}, 0, false},
		"the model said something":        {[]string{toolBegins, toolEnds, started("m", "agentMessage", "")}, 0, false},
		"the model thinks":                {[]string{toolBegins, toolEnds, started("r", "reasoning", ""), completed("r", "reasoning", "")}, 0, false},
		"only a message came":             {[]string{started("u", "userMessage", ""), completed("u", "userMessage", "")}, 0, false},
		"what runs beside is not waited":  {[]string{started("b", "commandExecution", ""), counted, toolBegins, toolEnds}, 0, true},
		"what runs beside says something": {[]string{started("b", "commandExecution", ""), counted, wireEvent("item/commandExecution/outputDelta", `"itemId":"b","delta":"x"`)}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := quietly(t, Limits{Quiet: c.quiet}, c.lines...)
			bound := c.quiet
			if bound <= 0 {
				bound = defaultQuiet
			}
			s.wait(bound - time.Second)
			s.attached()
			s.wait(2 * time.Second)
			if !c.want {
				s.attached()
				return
			}
			if r := s.result(TimedOut); r.Problem == nil || r.Problem.Kind != protocol.EndQuietAfterTool || r.Problem.Hint == "" {
				t.Errorf("problem %+v", r.Problem)
			}
		})
	}
}

func TestQuietIsCountedFromTheNewestSign(t *testing.T) {
	s := quietly(t, Limits{}, toolBegins, toolEnds)
	s.wait(20 * time.Minute)
	s.hear(retries) // codex reports that it retries
	s.wait(20 * time.Minute)
	s.hear(started("m", "reasoning", ""), completed("m", "reasoning", ""), toolBegins, toolEnds)
	s.attached()
	// A request stops the clock, and its answer restarts it.
	s.hear(asking(3, "", "ls"))
	s.wait(time.Second)
	st := s.result(RequestsOpen).State
	if !st.ToolEnded {
		t.Error("the next pump does not know that a tool has ended")
	}
	s = perform(t, PumpInput{State: st, Limits: Limits{Silence: 24 * time.Hour}, Sends: []Send{decision("d", 3, protocol.Accept)}}, Options{})
	s.wait(50 * time.Second)
	s.hear(resolvedLine(3))
	s.wait(29 * time.Minute)
	s.attached()
	s.wait(time.Minute + time.Second)
	if r := s.result(TimedOut); r.Problem.Kind != protocol.EndQuietAfterTool {
		t.Errorf("problem %+v", r.Problem)
	}
	// The next turn starts with a clock of 0.
	s = quietly(t, Limits{}, toolBegins, toolEnds, turnDone("completed", ""))
	if r := s.result(TurnEnded); r.State.ToolEnded {
		t.Error("the tool of an ended turn counts")
	}
}

func TestATurnThatOnlyTriesToReachItsProviderIsGivenUp(t *testing.T) {
	again := func(s *stage, every, until time.Duration) {
		for at := time.Duration(0); at < until; at += every {
			s.wait(every)
			if s.m.result == nil {
				s.hear(retries)
			}
		}
	}
	for name, c := range map[string]struct {
		limit  time.Duration
		during string // a line half-way
		want   bool   // whether the turn is given up
	}{
		"nothing else comes":      {0, "", true},
		"a bound of its own":      {10 * time.Minute, "", true},
		"any time":                {-1, "", false},
		"tokens are counted":      {0, counted, true},
		"the thread says it acts": {0, wireEvent("thread/status/changed", `"status":{"type":"active"}`), true},
		"the model said a word":   {0, started("m", "agentMessage", ""), false},
		"a tool ended":            {0, completed("x", "commandExecution", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			bound := c.limit
			if bound <= 0 {
				bound = defaultRetry
			}
			s := quietly(t, Limits{Retry: c.limit}, retries)
			again(s, time.Minute, bound/2)
			if c.during != "" {
				s.hear(c.during)
			}
			again(s, time.Minute, bound/2-2*time.Minute)
			s.attached()
			again(s, time.Minute, 3*time.Minute)
			if !c.want {
				s.attached()
				return
			}
			r := s.result(TimedOut)
			if r.Problem == nil || r.Problem.Kind != protocol.EndNetwork || r.Problem.Hint == "" || !strings.Contains(r.Problem.Message, "Reconnecting... 1/2") {
				t.Errorf("problem %+v", r.Problem)
			}
		})
	}
}

// The clock of the retries goes on in the next attempt and the next pump.
func TestRetriesAreCountedAcrossAttempts(t *testing.T) {
	began := time.UnixMilli(2000)
	s := quietly(t, Limits{}, retries)
	s.m.cancel(s.m.now)
	st := s.result(PumpCancelled).State
	if st.RetryingMS != 2000 {
		t.Fatalf("state %+v", st)
	}
	s = perform(t, PumpInput{State: st, Limits: Limits{Silence: 24 * time.Hour}}, Options{Since: time.Hour, Now: func() time.Time { return began.Add(20 * time.Minute) }})
	s.wait(9 * time.Minute)
	s.attached()
	s.hear(strings.Replace(retries, `"emittedAtMs":2000`, `"emittedAtMs":1742000`, 1))
	s.wait(time.Minute + time.Second)
	if r := s.result(TimedOut); r.Problem.Kind != protocol.EndNetwork {
		t.Errorf("problem %+v", r.Problem)
	}
}

// An outage of all workers is not the provider's, and nobody could serve the model.
func TestAnOutageOfWhoServesTheModelDoesNotCount(t *testing.T) {
	began := time.UnixMilli(2000)
	for name, line := range map[string]string{"a tool ended": toolEnds, "codex tries again": retries} {
		s := quietly(t, Limits{}, toolBegins, line)
		s.m.cancel(s.m.now)
		st := s.result(PumpCancelled).State
		s = perform(t, PumpInput{State: st, Limits: Limits{Silence: 24 * time.Hour}},
			Options{Serves: true, Since: 10 * time.Hour, Now: func() time.Time { return began.Add(5 * time.Hour) }})
		s.wait(29 * time.Minute)
		s.attached()
		s.wait(time.Minute + time.Second)
		if r := s.result(TimedOut); r.Problem == nil {
			t.Errorf("%s: no problem", name)
		}
	}
}
