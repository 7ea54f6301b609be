package activities

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/records"
)

func TestOutputIsWholeWhoeverStoredIt(t *testing.T) {
	want := make([]byte, 50_000)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	st := newStore(t)
	logs := []*records.ExecLog{
		{Store: st, ID: "x1", Stream: records.Stdout, Now: time.Now, Keep: records.KeepExec},
		{Store: st, ID: "x1", Stream: records.Stdout, Now: time.Now, Keep: records.KeepExec},
	}
	at := []int{0, 0}
	for at[0] < len(want) || at[1] < len(want) {
		i := rng.IntN(2)
		n := min(rng.IntN(3000), len(want)-at[i])
		if err := logs[i].Add(t.Context(), int64(at[i]), want[at[i]:at[i]+n]); err != nil {
			t.Fatal(err)
		}
		at[i] += n
		if rng.IntN(3) == 0 {
			if err := logs[i].Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, l := range logs {
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []int64{0, 1, 4999, 49_999, 50_000} {
		var got bytes.Buffer
		for c, err := range records.ReadExec(t.Context(), st, "x1", records.Stdout, from) {
			if err != nil {
				t.Fatal(err)
			}
			if c.At != from+int64(got.Len()) {
				t.Fatalf("chunk at %d comes after %d bytes from %d", c.At, got.Len(), from)
			}
			got.Write(c.Data)
		}
		if !bytes.Equal(got.Bytes(), want[from:]) {
			t.Errorf("from %d: %d bytes, want %d of the same", from, got.Len(), len(want)-int(from))
		}
	}
	l, err := records.OpenLog(t.Context(), st, "x1", records.Stdout, time.Now)
	if err != nil || l.Stored != int64(len(want)) {
		t.Errorf("the store ends at %d, %v", l.Stored, err)
	}
}

// A command that prints without end does not fill the store: only the newest output
// is kept, with the offset at which it begins.
func TestOnlyTheNewestOutputIsKept(t *testing.T) {
	if testing.Short() {
		t.Skip("writes to a store hundreds of times: slow with the race detector")
	}
	st := newStore(t)
	const keep, piece, all = 10_000, 1000, 123_000
	add := func(from, to int64) {
		t.Helper()
		l, err := records.OpenLog(t.Context(), st, "x2", records.Stdout, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		l.Keep = keep
		for at := from; at < to; at += piece {
			if err := l.Add(t.Context(), at, bytes.Repeat([]byte{byte(at / piece)}, piece)); err != nil {
				t.Fatal(err)
			}
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(0, 50_000)
	add(40_000, all) // another attempt, which begins a little earlier
	next := int64(-1)
	for c, err := range records.ReadExec(t.Context(), st, "x2", records.Stdout, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if next < 0 {
			next = c.At
			if kept := all - c.At; kept < keep || kept > keep+piece {
				t.Errorf("%d bytes are kept", kept)
			}
		}
		if c.At != next || c.Data[0] != byte(c.At/piece) {
			t.Errorf("at %d, want %d, stands %d", c.At, next, c.Data[0])
		}
		next += int64(len(c.Data))
	}
	if next != all {
		t.Errorf("it ends at %d", next)
	}
}
