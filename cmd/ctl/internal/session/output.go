package session

import (
	"context"
	"fmt"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// wholeOutput reads a turn's output from the transcript if the session has only a part of
// the final text.
func wholeOutput(ctx context.Context, a *core.App, t *conn.Conn, id string, turn *protocol.TurnView) {
	if !turn.Structured || turn.OutputError == "" || !turn.FinalTruncated {
		return
	}
	c, err := conn.WorkerFor(ctx, a, t, id)
	if err != nil {
		return // the turn's own error says where the text is
	}
	last := ""
	for e, err := range c.Transcript(ctx, id, 1) {
		if err != nil {
			return
		}
		if e.Turn == turn.N && e.Type == protocol.EntryAssistant && e.SubAgent() == "" {
			last = e.Text
		}
	}
	if last != "" {
		session.ParseTurnOutput(turn, last)
	}
}

// outputOf returns a turn's final text, or its JSON if it has an output schema.
func outputOf(turn protocol.TurnView) string {
	if len(turn.Output) > 0 {
		return string(turn.Output) // JSON has control characters only in escapes
	}
	return core.Clean(turn.FinalText)
}

// badOutput returns an error if a turn had to end with JSON and did not.
func badOutput(turn protocol.TurnView) error {
	if !turn.Structured || turn.OutputError == "" || turn.Status != "completed" {
		return nil
	}
	return core.NewError(core.ExitFailed, "output", "turn %d: %s", turn.N, turn.OutputError).
		Hinted("%s", fmt.Sprintf("`ctl transcript %s` has what it said; not every model keeps to an output schema", turn.Session))
}
