package host

import (
	"fmt"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func unclean(n int) string {
	if n == 1 {
		return "one session may have left a credential that is not wiped yet"
	}
	return fmt.Sprintf("%d sessions may have left a credential that is not wiped yet", n)
}

// showLeftovers lists what sessions left, unwiped data first.
func showLeftovers(p *core.Printer, h protocol.HostView) {
	if len(h.Leftovers) == 0 {
		return
	}
	if h.Unclean > 0 {
		p.Printf("\n%s\n", p.Paint(core.Yellow, unclean(h.Unclean)+"; it is, as soon as the host can be reached"))
	} else {
		p.Printf("\nwhat sessions left is wiped\n")
	}
	var rows [][]core.Cell
	for _, open := range []bool{true, false} {
		for _, l := range h.Leftovers {
			if l.WipedAt.IsZero() == open {
				rows = append(rows, []core.Cell{core.Painted(core.Bold, l.Session), core.Plain(l.Seed), core.Plain(l.Since), core.Plain(l.WipedAt), core.Plain(leftoverText(l))})
			}
		}
	}
	p.Table([]string{"SESSION", "SEED", "SINCE", "WIPED", ""}, rows)
}

func leftoverText(l protocol.Leftover) string {
	if l.WipedAt.IsZero() {
		text := l.Why
		if l.Error != "" {
			text = fmt.Sprintf("%s (try %d at %s)", l.Error, l.Tries, l.TriedAt.Local().Format("15:04:05"))
		}
		if l.Hint != "" {
			text += "; " + l.Hint
		}
		return text
	}
	parts := []string{"looked at, nothing found"}
	switch {
	case l.Kept != "":
		parts = append(parts, "work and conversation stay in "+l.Kept)
	case l.Removed:
		parts = append(parts, "its folder is gone")
	}
	if l.Archive != "" {
		parts = append(parts, "kept as "+l.Archive)
	}
	if l.Ended > 0 {
		parts = append(parts, fmt.Sprintf("%d processes were ended", l.Ended))
	}
	if l.GivenUp {
		parts = append(parts, "a rotated login that nobody waited for went with it")
	}
	return strings.Join(parts, ", ")
}
