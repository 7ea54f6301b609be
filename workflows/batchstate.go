package workflows

import (
	"encoding/json"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"
)

// BatchState is all that a batch carries across continue-as-new: some hundred
// bytes of each session that runs, some of each failure, and nothing of the
// items that ended well.
type BatchState struct {
	CreatedAt time.Time `json:"created_at"`
	// Next is the first item that was never begun.
	Next    int           `json:"next"`
	Window  int           `json:"window"`
	Running []batchItem   `json:"running,omitempty"`
	Again   []batchAgain  `json:"again,omitempty"` // wait for another try
	Redo    []batchFailed `json:"redo,omitempty"`  // failed, and somebody wants them again
	Failed  []batchFailed `json:"failed,omitempty"`
	// Dropped are items that were cancelled while they ran.
	Dropped []batchFailed `json:"dropped,omitempty"`

	Done     int            `json:"done"`
	Tries    int            `json:"tries"`
	Failures []BatchFailure `json:"failures,omitempty"`
	Kinds    map[string]int `json:"kinds,omitempty"`
	Usage    UsageView      `json:"usage,omitzero"`
	Ends     []time.Time    `json:"ends,omitempty"` // the newest

	// Results are those that are in no part yet; ResultN is how many there were.
	Results []json.RawMessage `json:"results,omitempty"`
	Bytes   int               `json:"bytes,omitempty"`
	ResultN int               `json:"result_n,omitempty"`
	Parts   []BatchPages      `json:"parts,omitempty"` // by their first number

	// Early are ends of sessions whose start is not yet on record.
	Early []SessionEnded `json:"early,omitempty"`
	// Held says that what was never begun is not to begin.
	Held      bool         `json:"held,omitempty"`
	FailedNow int          `json:"failed_now,omitempty"` // since it was started, or tried again
	Cancel    *CancelBatch `json:"cancel,omitempty"`
	Why       string       `json:"why,omitempty"`
	LookAt    time.Time    `json:"look_at,omitzero"`
	EndedAt   time.Time    `json:"ended_at,omitzero"`
	Error     *Failure     `json:"error,omitempty"`
	PauseTill time.Time    `json:"pause_till,omitzero"` // nothing could be started
}

// batchItem is an item whose session there is, or is being started: then it has
// no Session.
type batchItem struct {
	N       int       `json:"n"`
	ID      string    `json:"id,omitempty"`
	Session string    `json:"session,omitempty"`
	Run     string    `json:"run,omitempty"`
	Try     int       `json:"try"`
	Since   time.Time `json:"since"`
	Closing bool      `json:"closing,omitempty"`
	Discard bool      `json:"discard,omitempty"`
	Last    *batchTry `json:"last,omitempty"` // until its session is there
}

// batchTry is a try that failed, and of which there is no result: the next try's
// is to be the item's. Where none comes it is this one's.
type batchTry struct {
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	Message string    `json:"message,omitempty"`
	Effects string    `json:"effects,omitempty"`
	EndedAt time.Time `json:"ended_at"`
}

type batchAgain struct {
	N   int       `json:"n"`
	Try int       `json:"try"` // the next
	At  time.Time `json:"at,omitzero"`
	// Doubt says that there may be its session already.
	Doubt bool      `json:"doubt,omitempty"`
	Last  *batchTry `json:"last,omitempty"`
}

// batchFailed are items in a row that failed with the same number of tries.
type batchFailed struct {
	From int `json:"f"`
	To   int `json:"t,omitempty"` // 0: From alone
	Try  int `json:"n,omitempty"` // 0: one
}

func (f batchFailed) last() int { return max(f.From, f.To) }
func (f batchFailed) try() int  { return max(f.Try, 1) }

// Bounds of a batch.
const (
	keepFailures  = 50
	keepEnds      = 50
	maxWindow     = 500
	maxBatch      = 100_000
	startsAtOnce  = 25 // sessions that one activity starts
	partResults   = 64 // results of one part
	partBytes     = 512 << 10
	mostBytes     = 768 << 10 // of results that the store would not take: nothing more is started, and texts are left out
	mostAgain     = 1000      // that wait for another try: nothing is begun that never was
	maxBatchWords = 2 << 10   // of a failure, in lists
)

// addFailed keeps that an item did, in as little as can be.
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

// merged puts them in order, and together what goes together.
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

// room is how many more sessions there may be.
func (st *BatchState) room() int { return st.Window - len(st.Running) }

// next gives what is to be started now, from one page: what waits for another
// try first, then the others in their order.
func (st *BatchState) next(spec BatchSpec, now time.Time) (page BatchPages, items []batchItem) {
	most := max(0, min(st.room(), startsAtOnce)) // more may run than the window has room for
	add := func(n, try int) bool {
		p := pageOf(spec.Pages, n)
		if len(items) >= most || len(items) > 0 && p != page {
			return false
		}
		page, items = p, append(items, batchItem{N: n, Try: try, Since: now})
		return true
	}
	st.Again = slices.DeleteFunc(st.Again, func(a batchAgain) bool {
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

// inDoubt says that there may be sessions of which nothing is on record.
func (st *BatchState) inDoubt() bool {
	return slices.ContainsFunc(st.Again, func(a batchAgain) bool { return a.Doubt })
}

// doubted gives those of one page that are to be looked for.
func (st *BatchState) doubted(spec BatchSpec, now time.Time) (page BatchPages, items []batchItem) {
	st.Again = slices.DeleteFunc(st.Again, func(a batchAgain) bool {
		p := pageOf(spec.Pages, a.N)
		if !a.Doubt || len(items) == startsAtOnce || len(items) > 0 && p != page {
			return false
		}
		page, items = p, append(items, batchItem{N: a.N, Try: a.Try, Since: now, Last: a.Last})
		return true
	})
	return page, items
}

// pageOf finds the page that has an item.
func pageOf(pages []BatchPages, n int) BatchPages {
	i, found := slices.BinarySearchFunc(pages, n, func(p BatchPages, n int) int { return p.First - n })
	if !found {
		i--
	}
	if i < 0 {
		return BatchPages{}
	}
	return pages[i]
}

// dueAt is when the first of those that wait may be tried; zero where none does.
func (st *BatchState) dueAt() (at time.Time) {
	for i, a := range st.Again {
		if i == 0 || a.At.Before(at) {
			at = a.At
		}
	}
	return at
}

// waiting is how many items have yet to begin, or to begin again.
func (st *BatchState) waiting(total int) (queued, again int) {
	return total - st.Next, len(st.Again) + countFailed(st.Redo)
}

// again prepares a batch that has ended for another go.
func (st *BatchState) again(r RetryBatch) {
	st.Cancel, st.Why, st.EndedAt, st.FailedNow, st.Error = nil, "", time.Time{}, 0, nil
	st.Held = !r.Rest
	st.Redo, st.Failed = append(st.Redo, st.Failed...), nil
	if r.Rest {
		st.Redo, st.Dropped = append(st.Redo, st.Dropped...), nil
	}
	st.Redo = merged(st.Redo)
	st.Failures, st.Kinds, st.Ends = nil, nil, nil
}

// rate is how many items ended a minute, of late.
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

func (b *batch) view() BatchView {
	st, spec, now := b.st, b.in.Spec, workflow.Now(b.ctx)
	v := BatchView{ID: b.in.ID, State: b.state(), Total: spec.Total, Done: st.Done, Failed: countFailed(st.Failed), Cancelled: countFailed(st.Dropped),
		Running: len(st.Running), Window: st.Window, Rate: st.rate(now), CreatedAt: st.CreatedAt, Failures: append([]BatchFailure{}, st.Failures...),
		Kinds: map[string]int{}, Usage: st.Usage, Sessions: []BatchSession{}, Results: st.ResultN, Tries: st.Tries,
		StopAfter: spec.StopAfter, Why: st.Why, By: b.in.By, Origin: b.in.Origin, File: spec.File, Error: st.Error}
	v.Queued, v.Retrying = st.waiting(spec.Total)
	for _, k := range workflow.DeterministicKeys(st.Kinds) {
		v.Kinds[k] = st.Kinds[k]
	}
	for _, r := range st.Running {
		if r.Session != "" {
			v.Sessions = append(v.Sessions, BatchSession{Item: r.ID, Session: r.Session, Try: r.Try, Since: r.Since})
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
		return BatchCancelled
	case st.Cancel != nil:
		return BatchCancelling
	case st.Why != "" && over:
		return BatchStopped
	case st.Why != "":
		return BatchStopping
	case over:
		return BatchDone
	}
	return BatchRunning
}
