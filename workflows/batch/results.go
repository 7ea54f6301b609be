package batch

import (
	"cmp"
	"encoding/json"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// The state carries results until an activity stores them as a part. Until then a query
// returns them.

func resultOf(it batchItem, e protocol.SessionEnded) protocol.BatchResult {
	r := protocol.BatchResult{Item: it.ID, Session: it.Session, Tries: it.Try, State: protocol.ItemFailed, Usage: e.Usage, Host: e.Host,
		Effects: e.Effects, StartedAt: e.CreatedAt, EndedAt: e.EndedAt, Error: e.Failure, Archive: e.Archive, Left: e.Left}
	if t := e.Turn; t != nil {
		r.Status, r.FinalText, r.FinalTruncated, r.Items, r.DiffStat = t.Status, t.FinalText, t.FinalTruncated, t.Items, t.DiffStat
		r.Output, r.OutputError = t.Output, t.OutputError
		if t.Error != nil {
			r.Error = t.Error
		}
	}
	switch {
	case r.Status == "completed" && e.State != protocol.Failed:
		r.State = protocol.ItemCompleted
		r.Error = e.Failure // what closing failed to do
	case r.Error == nil && r.Status == "":
		r.Error = &protocol.Failure{Kind: "unused", Message: "the session ended before its turn began", Hint: "see `ctl transcript " + it.Session + "`"}
	case r.Error == nil:
		r.Error = &protocol.Failure{Kind: cmp.Or(r.Status, "other"), Message: "its turn ended as " + r.Status, Hint: "see `ctl transcript " + it.Session + "`"}
	}
	return r
}

func sumOfUsage(u protocol.UsageView, v protocol.UsageView) protocol.UsageView {
	return protocol.UsageView{Input: u.Input + v.Input, Output: u.Output + v.Output, Cached: u.Cached + v.Cached, Turns: u.Turns + v.Turns}
}

// keep starts to store results if there are at least least of them or partBytes.
func (b *batch) keep(least int) {
	st := b.st
	if b.keeping != nil || len(st.Results) < least && st.Bytes < partBytes || len(st.Results) == 0 {
		return
	}
	b.kept = partOf(st.Results)
	b.keeping = begin[batches.RecordResultsInput, batches.RecordResultsResult](
		kit.SetUp(b.ctx, "keep results"), batchJobs.RecordResults, batches.RecordResultsInput{Batch: b.in.ID, Lines: st.Results[:b.kept:b.kept]})
}

func partOf(lines []json.RawMessage) (n int) {
	for size := 0; n < min(len(lines), partResults); n++ {
		if size += len(lines[n]); n > 0 && size > partBytes {
			break
		}
	}
	return n
}

// briefResult cuts texts that the transcript also has.
func briefResult(r protocol.BatchResult) protocol.BatchResult {
	r.FinalTruncated = r.FinalTruncated || r.FinalText != ""
	r.FinalText, r.DiffStat = "", kit.Cut(r.DiffStat, kit.MaxWord)
	r.OutputError = kit.Cut(r.OutputError, kit.MaxWord)
	if r.Output != nil {
		r.Output, r.OutputError = nil, "the store was away: see `ctl transcript`"
	}
	if r.Error != nil {
		f := *r.Error
		f.Message, f.Hint = kit.Cut(f.Message, kit.MaxWord), kit.Cut(f.Hint, kit.MaxWord)
		r.Error = &f
	}
	return r
}

// takeKept drops the results that were stored, or returns false after a failure.
func (b *batch) takeKept() (ok bool) {
	if !b.keeping.done() {
		return true
	}
	out, err := b.keeping.get(b.ctx)
	b.keeping = nil
	st := b.st
	if err != nil {
		st.Error = kit.FailureOf("keep results", err)
		b.log.Warn("results not kept", "error", err)
		return false
	}
	if st.Error != nil && st.Error.Kind == protocol.ErrTypeStore {
		st.Error = nil
	}
	st.Parts = append(st.Parts, protocol.BatchPages{First: st.ResultN - len(st.Results) + 1, Blob: out.Blob})
	for _, line := range st.Results[:b.kept] {
		st.Bytes -= len(line)
	}
	st.Results = append(st.Results[:0:0], st.Results[b.kept:]...)
	return true
}

// results returns the results from number from on: lines, or the blob of their part.
func (b *batch) results(from int) (protocol.BatchResults, error) {
	st := b.st
	out := protocol.BatchResults{State: b.state(), Total: st.ResultN}
	first := st.ResultN - len(st.Results) + 1 // first that is in no part
	from = max(from, 1)
	if from < first {
		out.Blob = pageOf(st.Parts, from).Blob
		return out, nil
	}
	if i := from - first; i < len(st.Results) {
		out.Lines = st.Results[i:]
	}
	return out, nil
}
