package records

import (
	"context"
	"fmt"
	"iter"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// A GapError names missing entries, after those that were yielded.
type GapError struct {
	Session string
	From    int64 // the first missing
	To      int64 // the last missing
}

func (e *GapError) Error() string {
	return fmt.Sprintf("transcript of %s: entries %d to %d are missing from the store", e.Session, e.From, e.To)
}

// ReadTranscript yields a session's stored entries from number from on, in order, each
// once. Those of an attached pump's last seconds may be missing. An error comes last, a
// *GapError if entries are missing.
func ReadTranscript(ctx context.Context, st *store.Store, session string, from int64) iter.Seq2[protocol.Entry, error] {
	return func(yield func(protocol.Entry, error) bool) {
		if err := kit.CheckID("session", session); err != nil {
			yield(protocol.Entry{}, err)
			return
		}
		segs, err := ListSegments(ctx, st, session)
		if err != nil {
			yield(protocol.Entry{}, err)
			return
		}
		void := voidFrom(segs)
		next := max(from, 1)
		for i := startAt(segs, next); i < len(segs); i++ {
			if void(segs[i].Owner, segs[i].First) {
				continue
			}
			entries, err := readSegment(ctx, st, segs[i].Key)
			if err != nil {
				yield(protocol.Entry{}, err)
				return
			}
			for _, e := range entries {
				if e.Seq < next || void(segs[i].Owner, e.Seq) {
					continue
				}
				if e.Seq > next {
					yield(protocol.Entry{}, &GapError{session, next, e.Seq - 1})
					return
				}
				if !yield(e, nil) {
					return
				}
				next++
			}
		}
	}
}

// startAt returns the index of seq's segment. Owners do not overlap, so it is of the last
// owner that began by seq.
func startAt(segs []Segment, seq int64) int {
	start := 0
	for i, s := range segs {
		if s.First <= seq && (i == 0 || s.Owner.Compare(segs[start].Owner) >= 0) {
			start = i
		}
	}
	return start
}
