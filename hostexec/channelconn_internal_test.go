package hostexec

import (
	"bytes"
	"io"
	"slices"
	"testing"
)

// A pieces is what a peer sends, piece by piece. It remembers for how much each read had room.
type pieces struct {
	left  [][]byte
	rooms []int
}

func (p *pieces) Read(b []byte) (int, error) {
	p.rooms = append(p.rooms, len(b))
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left[0])
	if p.left[0] = p.left[0][n:]; len(p.left[0]) == 0 {
		p.left = p.left[1:]
	}
	return n, nil
}

// A connection of a forward waits with a small buffer, before and after a long request, which it
// reads in large pieces.
func TestAConnectionWaitsWithASmallBuffer(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 2*connChunk/16)
	p := &pieces{left: [][]byte{[]byte("short"), append(long, "end"...), []byte("short")}}
	d := newDetachedReader(p, nil, nil, connWait)
	d.waitSmall()
	go d.run()
	got, err := io.ReadAll(d)
	if want := "short" + string(long) + "endshort"; string(got) != want || err != nil {
		t.Fatalf("%d bytes came (%v), want %d", len(got), err, len(want))
	}
	want := []int{connWait, connWait, connChunk, connChunk, connWait, connWait}
	if !slices.Equal(p.rooms, want) {
		t.Errorf("reads had room for %v bytes, want %v", p.rooms, want)
	}
}
