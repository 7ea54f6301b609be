//go:build linux

package session

import (
	"io"
	"strings"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/terminaltest"
)

// A diff is cleaned for a terminal even if colours are off.
func TestNoDiffReachesATerminalAsItIs(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	const diff = "+a\x1b]0;owned\x07\n"
	person, program := terminaltest.Open(t)
	showTurnDiff(core.NewPrinter(program, false), diff)
	io.WriteString(program, "the end\n")
	var all strings.Builder
	for buf := make([]byte, 1<<10); !strings.Contains(all.String(), "the end"); {
		n, err := person.Read(buf)
		if all.Write(buf[:n]); err != nil {
			t.Fatal(err)
		}
	}
	if s := all.String(); strings.ContainsAny(s, "\x1b\x07") || !strings.Contains(s, "owned") {
		t.Errorf("the terminal gets %q", s)
	}
	var file strings.Builder
	if showTurnDiff(core.NewPrinter(&file, false), diff); file.String() != diff {
		t.Errorf("a file gets %q", file.String())
	}
}
