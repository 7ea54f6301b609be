package console

import (
	"fmt"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// A strip is a bar of several parts, which pages draw as SVG. Its label says the same in words.
type strip struct {
	Label string
	Parts []part
}

// A part of a strip. Class is a word of the style sheet.
type part struct {
	Class, Text string
	X, Width    float64
}

const stripWidth = 1000

// stripOf draws counts, in their order, as parts of total. What is left stays empty.
func stripOf(total int, counts ...counted) strip {
	s, at := strip{}, 0.0
	var said []string
	for _, c := range counts {
		if c.N <= 0 {
			continue
		}
		text := fmt.Sprintf("%d %s", c.N, c.Word)
		said = append(said, text)
		width := min(stripWidth-at, stripWidth*float64(c.N)/float64(max(total, 1)))
		s.Parts = append(s.Parts, part{c.Class, text, at, width})
		at += width
	}
	if len(said) == 0 {
		said = []string{"none"}
	}
	s.Label = fmt.Sprintf("%s of %d", strings.Join(said, ", "), total)
	return s
}

type counted struct {
	Class, Word string
	N           int
}

func slotsStrip(used, total int) strip {
	return stripOf(total, counted{"used", "used", used})
}

func batchStrip(b protocol.BatchView) strip {
	return stripOf(b.Total, counted{"done", "done", b.Done}, counted{"failed", "failed", b.Failed}, counted{"cancelled", "cancelled", b.Cancelled},
		counted{"running", "running", b.Running}, counted{"retrying", "to be tried again", b.Retrying})
}

// percentStrip draws how much of a window of an account is used.
func percentStrip(n int) strip {
	class := "used"
	if n >= 80 {
		class = "failed"
	}
	s := stripOf(100, counted{class, "%", min(max(n, 0), 100)})
	s.Label = fmt.Sprintf("%d %% used", n)
	return s
}
