package tree

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

// If the connection is lost while stat prints, the error says that the stream ended early,
// so that the caller looks for the cause. It is not ErrGarbled.
func TestAListingOfStatThatIsCutEndedEarly(t *testing.T) {
	const whole = "//m81a4 3 1700000000 1700000000 5 1 8 fe01/2023-11-14 22:13:20.5 +0000/2023-11-14 22:13:20.5 +0000/a\n//m/0\n"
	for cut := range len(whole) + 1 {
		told := 0
		l := &treeLister{in: bufio.NewReader(strings.NewReader(whole[:cut])), mark: []byte("//m"), unordered: true, most: maxEntries,
			fn: func(Entry) error { told++; return nil }}
		err := l.readLines(nil)
		if cut == len(whole) && (err != nil || told != 1) {
			t.Errorf("all of it: %v, %d entries", err, told)
		}
		if cut < len(whole) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
	}
}
