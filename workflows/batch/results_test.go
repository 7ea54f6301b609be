package batch

import (
	"encoding/json"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

func TestARetryOfABatchForgetsNoneThatWaits(t *testing.T) {
	st := &BatchState{Redo: []batchFailed{{From: 3}}, Failed: []batchFailed{{From: 1}}}
	st.again(protocol.RetryBatch{})
	if countFailed(st.Redo) != 2 || st.Failed != nil {
		t.Errorf("again are tried %+v", st.Redo)
	}
}

func TestResultsStayWithinWhatTemporalTakes(t *testing.T) {
	b := &batch{st: &BatchState{}}
	r := protocol.BatchResult{FinalText: strings.Repeat("é", 8<<10), Output: json.RawMessage(`"` + strings.Repeat("x", 32<<10) + `"`), Session: "s",
		Error: &protocol.Failure{Kind: "k", Message: strings.Repeat("m", kit.MaxFailure)}}
	for range maxWindow {
		b.addResult(r)
	}
	if n := kit.Encoded(b.st.Results); n > 3<<19 {
		t.Errorf("%d bytes of results are carried", n)
	}
	parts := 0
	for left := b.st.Results; len(left) > 0; parts++ {
		n := partOf(left)
		if n == 0 || kit.Encoded(left[:n]) > partBytes+partResults+1 {
			t.Fatalf("a part has %d results in %d bytes", n, kit.Encoded(left[:n]))
		}
		left = left[n:]
	}
	if parts < 3 {
		t.Errorf("%d parts", parts)
	}
	var last protocol.BatchResult
	if err := json.Unmarshal(b.st.Results[maxWindow-1], &last); err != nil || !last.FinalTruncated || last.OutputError == "" || last.Error.Kind != "k" || last.N != maxWindow {
		t.Errorf("the last is %+v (%v)", last, err)
	}
}
