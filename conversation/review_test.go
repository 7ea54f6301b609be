package conversation

import (
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

// codex begins no turn for a review against a branch if there is no repository. codex
// reports the error, and never reports that the turn ended.
func TestReviewThatCannotBeginHasFailed(t *testing.T) {
	s := perform(t, PumpInput{State: opened(), Sends: []Send{
		{ID: "r-1", Kind: SendTurn, Turn: 5, Do: protocol.ActReview, Review: &protocol.Review{Base: "main"}},
	}}, Options{})
	s.hear(`{"id":"send/r-1/0","result":{"turn":{"id":"turn-1"},"reviewThreadId":"thread-1"}}`,
		`{"method":"thread/status/changed","params":{"threadId":"thread-1","status":{"type":"systemError"}}}`,
		wireEvent("error", `"error":{"message":"\"/w\" is not a git repository","codexErrorInfo":"other"},"willRetry":false`))
	s.wait(2 * idleGrace)
	r := s.result(TurnEnded)
	if p := r.Turn.Problem; r.Turn.N != 5 || r.Turn.Status != "failed" || p == nil || p.Kind != "bad_request" || p.Message != `"/w" is not a git repository` {
		t.Errorf("turn %+v, problem %+v", r.Turn, p)
	}
}
