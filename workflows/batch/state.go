package batch

import (
	"encoding/json"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
)

// BatchState is what a batch carries across continue-as-new: a few hundred bytes per
// running session, less per failure, nothing for items that ended well.
type BatchState struct {
	CreatedAt time.Time `json:"created_at"`
	// Next is the first item that was never begun.
	Next    int           `json:"next"`
	Window  int           `json:"window"`
	Running []batchItem   `json:"running,omitempty"`
	Again   []BatchAgain  `json:"again,omitempty"`
	Redo    []batchFailed `json:"redo,omitempty"` // failed; a person wants another try
	Failed  []batchFailed `json:"failed,omitempty"`
	// Dropped are the cancelled items.
	Dropped []batchFailed `json:"dropped,omitempty"`

	Done     int                     `json:"done"`
	Tries    int                     `json:"tries"`
	Failures []protocol.BatchFailure `json:"failures,omitempty"`
	Kinds    map[string]int          `json:"kinds,omitempty"`
	Usage    protocol.UsageView      `json:"usage,omitzero"`
	Ends     []time.Time             `json:"ends,omitempty"` // of the newest results, for the rate

	// Results are in no part yet; ResultN counts all.
	Results []json.RawMessage     `json:"results,omitempty"`
	Bytes   int                   `json:"bytes,omitempty"`
	ResultN int                   `json:"result_n,omitempty"`
	Parts   []protocol.BatchPages `json:"parts,omitempty"` // by first result number

	// Early holds ends of sessions whose start is not recorded yet.
	Early []protocol.SessionEnded `json:"early,omitempty"`
	// Held says that no further item begins, only another try.
	Held      bool                  `json:"held,omitempty"`
	FailedNow int                   `json:"failed_now,omitempty"` // since the start or the last retry
	Cancel    *protocol.CancelBatch `json:"cancel,omitempty"`
	Why       string                `json:"why,omitempty"`
	LookAt    time.Time             `json:"look_at,omitzero"`
	EndedAt   time.Time             `json:"ended_at,omitzero"`
	Error     *protocol.Failure     `json:"error,omitempty"`
	PauseTill time.Time             `json:"pause_till,omitzero"` // no sessions start before it
	Commands  command.Nonces        `json:"commands,omitzero"`   // that were signed
	Audit     audit.Chain           `json:"audit,omitzero"`      // records that may not be in the store
}

// batchItem is an item whose session exists or, if Session is empty, is being started.
type batchItem struct {
	N       int       `json:"n"`
	ID      string    `json:"id,omitempty"`
	Session string    `json:"session,omitempty"`
	Run     string    `json:"run,omitempty"`
	Try     int       `json:"try"`
	Since   time.Time `json:"since"`
	Closing bool      `json:"closing,omitempty"`
	Discard bool      `json:"discard,omitempty"`
	Last    *batchTry `json:"last,omitempty"` // the failed one before; nil once this try has started
}

// batchTry is a failed try that has no result of its own, unless there is no next try.
type batchTry struct {
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	Message string    `json:"message,omitempty"`
	Effects string    `json:"effects,omitempty"`
	EndedAt time.Time `json:"ended_at"`
}

// BatchAgain is an item that is tried again.
type BatchAgain struct {
	N   int       `json:"n"`
	Try int       `json:"try"` // the next one
	At  time.Time `json:"at,omitzero"`
	// Doubt says that this try's session may exist.
	Doubt bool      `json:"doubt,omitempty"`
	Last  *batchTry `json:"last,omitempty"`
}

// batchFailed is a run of items that failed with the same number of tries.
type batchFailed struct {
	From int `json:"f"`
	To   int `json:"t,omitempty"` // 0 means From alone
	Try  int `json:"n,omitempty"` // 0 means one
}

func (f batchFailed) last() int { return max(f.From, f.To) }
func (f batchFailed) try() int  { return max(f.Try, 1) }

const (
	keepFailures  = 50
	keepEnds      = 50
	maxWindow     = 500
	maxBatch      = 100_000
	startsAtOnce  = 25 // sessions in one activity
	partResults   = 64 // results of one part
	partBytes     = 512 << 10
	MostBytes     = 768 << 10 // of unstored results; beyond it no sessions start, and results lack their texts
	mostAgain     = 1000      // at this length of Again no new items begin
	maxBatchWords = 2 << 10   // of a failure, in lists
)

func addFailed(all []batchFailed, n, try int) []batchFailed {
	if try == 1 {
		try = 0
	}
	if i := len(all) - 1; i >= 0 && all[i].last() == n-1 && all[i].Try == try {
		all[i].To = n
		return all
	}
	return append(all, batchFailed{From: n, Try: try})
}

func merged(all []batchFailed) (out []batchFailed) {
	slices.SortFunc(all, func(a, b batchFailed) int { return a.From - b.From })
	for _, f := range all {
		if i := len(out) - 1; i >= 0 && out[i].last() == f.From-1 && out[i].Try == f.Try {
			out[i].To = f.last()
			continue
		}
		out = append(out, f)
	}
	return out
}

func countFailed(all []batchFailed) (n int) {
	for _, f := range all {
		n += f.last() - f.From + 1
	}
	return n
}

// room is negative after the window shrank.
func (st *BatchState) room() int { return st.Window - len(st.Running) }

// next returns items to start now, all from one page, further tries first.
func (st *BatchState) next(spec protocol.BatchSpec, now time.Time) (page protocol.BatchPages, items []batchItem) {
	most := max(0, min(st.room(), startsAtOnce))
	add := func(n, try int) bool {
		p := pageOf(spec.Pages, n)
		if len(items) >= most || len(items) > 0 && p != page {
			return false
		}
		page, items = p, append(items, batchItem{N: n, Try: try, Since: now})
		return true
	}
	st.Again = slices.DeleteFunc(st.Again, func(a BatchAgain) bool {
		if a.At.After(now) || !add(a.N, a.Try) {
			return false
		}
		items[len(items)-1].Last = a.Last
		return true
	})
	for len(st.Redo) > 0 && add(st.Redo[0].From, st.Redo[0].try()+1) {
		if r := &st.Redo[0]; r.From < r.last() {
			r.From++
		} else {
			st.Redo = st.Redo[1:]
		}
	}
	for !st.Held && len(st.Redo) == 0 && len(st.Again) < mostAgain && st.Next < spec.Total && add(st.Next, 1) {
		st.Next++
	}
	return page, items
}

func (st *BatchState) inDoubt() bool {
	return slices.ContainsFunc(st.Again, func(a BatchAgain) bool { return a.Doubt })
}

// doubted returns items of one page whose sessions may exist.
func (st *BatchState) doubted(spec protocol.BatchSpec, now time.Time) (page protocol.BatchPages, items []batchItem) {
	st.Again = slices.DeleteFunc(st.Again, func(a BatchAgain) bool {
		p := pageOf(spec.Pages, a.N)
		if !a.Doubt || len(items) == startsAtOnce || len(items) > 0 && p != page {
			return false
		}
		page, items = p, append(items, batchItem{N: a.N, Try: a.Try, Since: now, Last: a.Last})
		return true
	})
	return page, items
}

func pageOf(pages []protocol.BatchPages, n int) protocol.BatchPages {
	i, found := slices.BinarySearchFunc(pages, n, func(p protocol.BatchPages, n int) int { return p.First - n })
	if !found {
		i--
	}
	if i < 0 {
		return protocol.BatchPages{}
	}
	return pages[i]
}

// dueAt returns when the first waiting item is due, or zero.
func (st *BatchState) dueAt() (at time.Time) {
	for i, a := range st.Again {
		if i == 0 || a.At.Before(at) {
			at = a.At
		}
	}
	return at
}

func (st *BatchState) waiting(total int) (queued, again int) {
	return total - st.Next, len(st.Again) + countFailed(st.Redo)
}

func (st *BatchState) again(r protocol.RetryBatch) {
	st.Cancel, st.Why, st.EndedAt, st.FailedNow, st.Error = nil, "", time.Time{}, 0, nil
	st.Held = !r.Rest
	st.Redo, st.Failed = append(st.Redo, st.Failed...), nil
	if r.Rest {
		st.Redo, st.Dropped = append(st.Redo, st.Dropped...), nil
	}
	st.Redo = merged(st.Redo)
	st.Failures, st.Kinds, st.Ends = nil, nil, nil
}

func (st *BatchState) rate(now time.Time) float64 {
	n := len(st.Ends)
	if n < 2 {
		return 0
	}
	span := now.Sub(st.Ends[0])
	if !st.EndedAt.IsZero() {
		span = st.Ends[n-1].Sub(st.Ends[0])
	}
	if span < time.Millisecond {
		return 0
	}
	return float64(n-1) / span.Minutes()
}

func (b *batch) view() protocol.BatchView {
	st, spec, now := b.st, b.in.Spec, workflow.Now(b.ctx)
	v := protocol.BatchView{ID: b.in.ID, State: b.state(), Total: spec.Total, Done: st.Done, Failed: countFailed(st.Failed), Cancelled: countFailed(st.Dropped),
		Running: len(st.Running), Window: st.Window, Rate: st.rate(now), CreatedAt: st.CreatedAt, Failures: append([]protocol.BatchFailure{}, st.Failures...),
		Kinds: map[string]int{}, Usage: st.Usage, Sessions: []protocol.BatchSession{}, Results: st.ResultN, Tries: st.Tries,
		StopAfter: spec.StopAfter, Why: st.Why, By: b.in.By, Origin: b.in.Origin, File: spec.File, Error: st.Error}
	v.Queued, v.Retrying = st.waiting(spec.Total)
	for _, k := range workflow.DeterministicKeys(st.Kinds) {
		v.Kinds[k] = st.Kinds[k]
	}
	for _, r := range st.Running {
		if r.Session != "" {
			v.Sessions = append(v.Sessions, protocol.BatchSession{Item: r.ID, Session: r.Session, Try: r.Try, Since: r.Since})
		}
	}
	if spec.Retry.Attempts > 1 {
		v.Retry = &spec.Retry
	}
	if !st.EndedAt.IsZero() {
		ended := st.EndedAt
		v.EndedAt = &ended
	}
	left := v.Running + v.Retrying
	if !st.Held {
		left += v.Queued
	}
	if v.Rate > 0 && left > 0 && v.EndedAt == nil {
		eta := now.Add(time.Duration(float64(left) / v.Rate * float64(time.Minute)))
		v.ETA = &eta
	}
	return v
}

func (b *batch) state() string {
	st := b.st
	switch over := !st.EndedAt.IsZero(); {
	case st.Cancel != nil && over:
		return protocol.BatchCancelled
	case st.Cancel != nil:
		return protocol.BatchCancelling
	case st.Why != "" && over:
		return protocol.BatchStopped
	case st.Why != "":
		return protocol.BatchStopping
	case over:
		return protocol.BatchDone
	}
	return protocol.BatchRunning
}
