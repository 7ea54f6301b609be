package records

import (
	"context"
	"fmt"
	"iter"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// A GapError says that entries are missing from a transcript in the store. The entries
// before the gap were yielded.
type GapError struct {
	Session string
	From    int64 // the first one missing
	To      int64 // the last one missing
}

func (e *GapError) Error() string {
	return fmt.Sprintf("transcript of %s: entries %d to %d are missing from the store", e.Session, e.From, e.To)
}

// ReadTranscript yields the stored entries of a session in order, each one once. It
// begins with entry from, or 1 if from is less. An attached pump may hold entries of
// its last seconds that are not stored yet. After an error, nothing more is yielded. If
// entries are missing, the error is a *GapError.
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

// startAt returns the index of the segment that holds entry seq. Owners write without
// overlap, so it is a segment of the last owner that began at or below seq.
func startAt(segs []Segment, seq int64) int {
	start := 0
	for i, s := range segs {
		if s.First <= seq && (i == 0 || s.Owner.Compare(segs[start].Owner) >= 0) {
			start = i
		}
	}
	return start
}
