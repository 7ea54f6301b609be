package api

import (
	"bytes"
	"runtime"
	"testing"
)

// A stream of small pieces copies about as many bytes as it has. It does not copy the
// window for each piece.
func TestWindowMovesLittleHoweverLongTheStream(t *testing.T) {
	const total, piece = 16 << 20, 256
	var before, after runtime.MemStats
	var w window
	p := bytes.Repeat([]byte("x"), piece)
	runtime.ReadMemStats(&before)
	for at := int64(0); at < total; at += piece {
		w.write(at, p, keepPartial)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 8*total {
		t.Errorf("%d bytes were allocated for a stream of %d", got, total)
	}
	if text, ok := w.from(total-keepPartial, 2*keepPartial); !ok || len(text) != keepPartial || w.end() != total {
		t.Errorf("kept %d of %d bytes, to %d", len(text), keepPartial, w.end())
	}
}
