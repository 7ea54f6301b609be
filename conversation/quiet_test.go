package conversation

import (
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
