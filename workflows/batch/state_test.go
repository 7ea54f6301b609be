package batch

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestAWindowBelowWhatRunsStartsNothing(t *testing.T) {
	spec := protocol.BatchSpec{Total: 60, Pages: []protocol.BatchPages{{First: 0, Blob: "p"}}}
	st := &BatchState{Window: 5, Next: 20, Running: make([]batchItem, 20),
		Again: []BatchAgain{{N: 3, Try: 2}}, Redo: []batchFailed{{From: 7, To: 9}}}
	if _, items := st.next(spec, time.Now()); len(items) != 0 || st.Next != 20 || len(st.Again) != 1 || len(st.Redo) != 1 {
		t.Errorf("with 20 of a window of 5 running, %d more were to start: %+v", len(items), st)
	}
	st.Running = st.Running[:2]
	if _, items := st.next(spec, time.Now()); len(items) != 3 {
		t.Errorf("with room for 3, %d were to start", len(items))
	}
}
