package records

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/internal/store"
)

// A Segment is a run of stored entries, named by its first entry and owner. A pump's
// attempts use the same names and never overwrite segments.
type Segment struct {
	Key   string
	First int64
	Owner Owner
}

// An Owner is a writer of a transcript. A later owner's segment voids earlier owners'
// entries from its first entry on. Only entries that no pump reported become void: those of
// a dead attempt at a pump that was given up.
type Owner struct {
	Generation, Pump int64
	// Part is 1 for entries that another activity adds after the pump.
	Part int64
}

// Compare orders owners by generation, pump and part.
func (o Owner) Compare(p Owner) int {
	return cmp.Or(cmp.Compare(o.Generation, p.Generation), cmp.Compare(o.Pump, p.Pump), cmp.Compare(o.Part, p.Part))
}

func transcriptPrefix(session string) string { return "transcripts/" + session + "/" }

func segmentKey(session string, first int64, o Owner) string {
	return fmt.Sprintf("%s%012d-%d.%d.%d", transcriptPrefix(session), first, o.Generation, o.Pump, o.Part)
}

func parseSegment(key string) (Segment, bool) {
	name := key[strings.LastIndexByte(key, '/')+1:]
	first, rest, ok := strings.Cut(name, "-")
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 3 {
		return Segment{}, false
	}
	var n [4]int64
	for i, s := range append([]string{first}, parts...) {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil || v < 0 {
			return Segment{}, false
		}
		n[i] = v
	}
	return Segment{Key: key, First: n[0], Owner: Owner{n[1], n[2], n[3]}}, true
}

// ListSegments returns a session's segments in order.
func ListSegments(ctx context.Context, st *store.Store, session string) ([]Segment, error) {
	infos, err := st.List(ctx, transcriptPrefix(session))
	if err != nil {
		return nil, fmt.Errorf("list transcript of %s: %w", session, err)
	}
	var segs []Segment
	for _, info := range infos {
		if s, ok := parseSegment(info.Key); ok {
			segs = append(segs, s)
		}
	}
	slices.SortFunc(segs, func(a, b Segment) int {
		return cmp.Or(cmp.Compare(a.First, b.First), a.Owner.Compare(b.Owner))
	})
	return segs, nil
}

// voidFrom returns a function that reports whether an entry is void: a later owner began
// there or earlier.
func voidFrom(segs []Segment) func(Owner, int64) bool {
	first := map[Owner]int64{}
	for _, s := range segs {
		if f, ok := first[s.Owner]; !ok || s.First < f {
			first[s.Owner] = s.First
		}
	}
	return func(o Owner, seq int64) bool {
		for p, f := range first {
			if p.Compare(o) > 0 && seq >= f {
				return true
			}
		}
		return false
	}
}
