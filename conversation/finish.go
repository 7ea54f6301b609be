package conversation

import (
	"encoding/json"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// finish takes the agent's word on how its task ended. The newest word of a turn counts
// when the turn completes. A sub-agent has no say in that.
func (t *calls) finish(p toolParams) ToolReply {
	var a struct {
		Outcome string `json:"outcome"`
		Summary string `json:"summary"`
	}
	if err := json.Unmarshal(p.Args, &a); err != nil {
		return ToolReply{Text: "The arguments are not as described: " + err.Error()}
	}
	summary := wire.Excerpt(strings.TrimSpace(t.redact(a.Summary)), protocol.MaxFinish) // redact before cutting
	switch {
	case !t.st.ours(p.Notice):
		return ToolReply{Text: "Only the main agent can say how the task ended. Tell it what you found."}
	case t.st.TurnID == "":
		return ToolReply{Text: "The turn is over."}
	case a.Outcome != protocol.FinishDone && a.Outcome != protocol.FinishFailed:
		return ToolReply{Text: fmt.Sprintf("outcome is neither %s nor %s.", protocol.FinishDone, protocol.FinishFailed)}
	case summary == "":
		return ToolReply{Text: "summary is empty: say in a few sentences what was done, or why it failed."}
	}
	t.st.Finish = &protocol.Finish{Turn: t.st.Turn, Outcome: a.Outcome, Summary: summary}
	if len(a.Summary) > len(summary) && wire.Len(a.Summary) > protocol.MaxFinish {
		return ToolReply{Text: fmt.Sprintf("Taken; only the first %d bytes are kept. End your turn now.", protocol.MaxFinish), OK: true}
	}
	return ToolReply{Text: "Taken. End your turn now.", OK: true}
}

// declared makes a failed turn of a completed one that the agent declared failed.
func (t *turns) declared(end *TurnEnd) {
	f := t.st.Finish
	if f == nil || f.Turn != t.st.Turn {
		return
	}
	end.Finish = f
	if f.Outcome == protocol.FinishFailed && end.Status == "completed" {
		end.Status = "failed"
		end.Problem = problem(protocol.EndAgentFailed, "the agent declared its task failed: "+f.Summary)
	}
}
