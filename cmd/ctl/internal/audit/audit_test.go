package audit

import (
	"iter"
	"strings"
	"testing"
)

func TestReadingEndsAtItsBounds(t *testing.T) {
	n := 0
	var forever iter.Seq2[string, error] = func(yield func(string, error) bool) {
		for n++; yield("0123456789", nil); n++ {
		}
	}
	for what, bound := range map[string][2]int{"records": {5, 1 << 20}, "bytes": {1 << 20, 50}} {
		n = 0
		if _, err := gather("list", forever, bound[0], bound[1]); err == nil || !strings.Contains(err.Error(), "there are more than") || n != 6 {
			t.Errorf("%s: %v after %d", what, err, n)
		}
	}
	if lines, err := readLines("verify", "-", strings.NewReader("a\nb\n"), 4); err != nil || len(lines) != 2 {
		t.Errorf("%q, %v", lines, err)
	}
	if _, err := readLines("verify", "-", strings.NewReader(strings.Repeat("a", 1<<20)), 4); err == nil || !strings.Contains(err.Error(), "has more than 4 bytes") {
		t.Error(err)
	}
}
