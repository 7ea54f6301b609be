package hostexec

import "testing"

// An acknowledgement by the peer's kernel says nothing about the peer itself. It counts
// only while bytes are queued here, because the question may be among them.
func TestWhatIsASignOfLife(t *testing.T) {
	was := signs{heard: 5, arrived: 7, acked: 100}
	for _, c := range []struct {
		name string
		now  signs
		live bool
	}{
		{"nothing", was, false},
		{"nothing, and bytes wait to be sent", signs{5, 7, 100, true}, false},
		{"bytes came", signs{6, 7, 100, false}, true},
		{"packets came behind one that was lost", signs{5, 8, 100, false}, true},
		{"bytes were acknowledged, and others wait", signs{5, 7, 200, true}, true},
		{"all bytes were acknowledged", signs{5, 7, 200, false}, false},
	} {
		if got := c.now.liveSince(was); got != c.live {
			t.Errorf("%s: a sign of life is %v, want %v", c.name, got, c.live)
		}
	}
}
