package activities

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
)

func TestOutputIsWholeWhoeverStoredIt(t *testing.T) {
	want := make([]byte, 50_000)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	st := newStore(t)
	logs := []*execLog{
		{store: st, id: "x1", stream: Stdout, now: time.Now},
		{store: st, id: "x1", stream: Stdout, now: time.Now},
	}
	at := []int{0, 0}
	for at[0] < len(want) || at[1] < len(want) {
		i := rng.IntN(2)
		n := min(rng.IntN(3000), len(want)-at[i])
		if err := logs[i].add(t.Context(), int64(at[i]), want[at[i]:at[i]+n]); err != nil {
			t.Fatal(err)
		}
		at[i] += n
		if rng.IntN(3) == 0 {
			if err := logs[i].flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, l := range logs {
		if err := l.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []int64{0, 1, 4999, 49_999, 50_000} {
		var got bytes.Buffer
		for c, err := range ReadExec(t.Context(), st, "x1", Stdout, from) {
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
	end, err := storedEnd(t.Context(), st, "x1", Stdout)
	if err != nil || end != int64(len(want)) {
		t.Errorf("the store ends at %d, %v", end, err)
	}
}
