package seeds

import (
	"bytes"
	"slices"
)

// A searcher finds the leftmost, then the longest, of a set of needles (Wu and Manber) in
// about a clock cycle for each byte. All needles have at least MinSecret bytes.
type searcher struct {
	needles [][]byte // longest first
	minLen  int
	maxLen  int
	first   [256]bool
	shift   []uint8          // indexed by two bytes; 0 means that a needle may begin minLen-2 before them
	ends    map[uint16][]int // needles, indexed by the last two of their first minLen bytes
}

func newSearcher(needles [][]byte) *searcher {
	s := &searcher{}
	slices.SortFunc(needles, func(a, b []byte) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return bytes.Compare(a, b)
	})
	s.needles = slices.CompactFunc(needles, bytes.Equal)
	if len(s.needles) == 0 {
		return s
	}
	s.maxLen = len(s.needles[0])
	s.minLen = min(len(s.needles[len(s.needles)-1]), 255)
	s.shift = bytes.Repeat([]byte{uint8(s.minLen - 1)}, 1<<16)
	s.ends = map[uint16][]int{}
	for i, n := range s.needles {
		s.first[n[0]] = true
		for j := 1; j < s.minLen; j++ {
			b := pair(n, j)
			s.shift[b] = min(s.shift[b], uint8(s.minLen-1-j))
			if j == s.minLen-1 {
				s.ends[b] = append(s.ends[b], i)
			}
		}
	}
	return s
}

func pair(p []byte, end int) uint16 { return uint16(p[end-1])<<8 | uint16(p[end]) }

// next returns the first needle at or after from; at is -1 if there is none.
func (s *searcher) next(p []byte, from int) (at, length int) {
	if len(s.needles) == 0 {
		return -1, 0
	}
	for i := from + s.minLen - 1; i < len(p); {
		b := pair(p, i)
		if skip := int(s.shift[b]); skip > 0 {
			i += skip
			continue
		}
		begin := i - s.minLen + 1
		for _, n := range s.ends[b] { // longest first
			if bytes.HasPrefix(p[begin:], s.needles[n]) {
				return begin, len(s.needles[n])
			}
		}
		i++
	}
	return -1, 0
}

// open returns how many bytes at the end of p may begin a needle.
func (s *searcher) open(p []byte) int {
	for k := min(len(p), s.maxLen-1); k > 0; k-- {
		tail := p[len(p)-k:]
		if !s.first[tail[0]] {
			continue
		}
		for _, n := range s.needles {
			if len(n) > k && bytes.HasPrefix(n, tail) {
				return k
			}
		}
	}
	return 0
}
