package teamtool

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// An ActivityTarget has the activities of one task queue that workers may have carried out.
type ActivityTarget struct {
	Queue string
	Types []string
	// Keys encrypt what goes to the queue, and decrypt what comes back: the first encrypts.
	// Empty means that both are plain.
	Keys []QueueKey
}

// FindActivity returns the target that allows an activity.
func FindActivity(targets []ActivityTarget, a protocol.ToolActivity) (ActivityTarget, error) {
	for _, t := range targets {
		if t.Queue == a.Queue && slices.Contains(t.Types, a.Type) {
			return t, nil
		}
	}
	return ActivityTarget{}, fmt.Errorf("the workers' config does not allow the activity %s on the queue %s", a.Type, a.Queue)
}

// Argument returns the argument of the activity that carries out a call: JSON, the same for
// every attempt.
func (c *Call) Argument(tool string) (json.RawMessage, error) {
	return json.Marshal(struct {
		eventData
		At time.Time `json:"timestamp"`
	}{eventData{ID: c.ID, Session: c.Session, Turn: c.Turn, Tool: tool, Args: c.Args}, c.At.UTC()})
}

// Answer makes the reply of what an activity returned: JSON, if isJSON, or bytes.
func Answer(isJSON bool, data []byte) Reply {
	var s string
	switch {
	case isJSON && string(data) == "null":
		return answer("", nil)
	case isJSON && json.Unmarshal(data, &s) == nil:
		return answer("text/plain", []byte(s))
	case isJSON:
		return answer("application/json", data)
	}
	return answer("", data)
}

// Ended makes the reply for a call that got no answer of its activity.
func (c Call) Ended(t protocol.TeamTool, r protocol.CallToolResult) Reply {
	why := cut(text([]byte(r.Why)), maxWhy)
	because := ""
	if why != "" {
		because = " (" + why + ")"
	}
	c.Again = true // unless the outcome says better
	switch r.Outcome {
	case protocol.ToolNotBegun:
		return Reply{Text: fmt.Sprintf("The tool %s gave no answer: none of its workers took the call within %s. It was not carried out. Try once more later, or go on without it and say so.", t.Name, t.Wait())}
	case protocol.ToolRefused:
		if why == "" {
			why = "without a reason"
		}
		return Reply{Text: fmt.Sprintf("The tool %s refused the call: %s", t.Name, why)}
	case protocol.ToolFailed:
		return c.Fail("The tool %s failed%s, and is not tried again.", t.Name, because)
	case protocol.ToolTimedOut:
		return c.Fail("The tool %s gave no answer within %s%s.", t.Name, t.Wait(), because)
	case protocol.ToolTooLong:
		return Reply{Text: fmt.Sprintf("The tool %s carried out the call, and answered with %d bytes; at most %d are taken. The answer is lost: ask for less, if the call may be made again.", t.Name, r.Bytes, protocol.MaxToolAnswer)}
	case protocol.ToolStopped:
		return c.Fail("The tool %s gave no answer: somebody stopped the call.", t.Name)
	}
	return c.Fail("The tool %s gave no answer that can be read.", t.Name)
}
