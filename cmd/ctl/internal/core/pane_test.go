package core

import (
	"strings"
	"testing"
)

// What is printed stands above the pane, and the pane is drawn anew below it, but never
// behind a line that has not ended.
func TestWhatIsPrintedStandsAboveThePane(t *testing.T) {
	var b strings.Builder
	columns := 10
	s := &screen{w: &b}
	p := &Pane{w: &b, size: func() int { return columns }, hooks: []*screen{s}}
	s.under(p)
	wrote := func() string { defer b.Reset(); return b.String() }
	p.Show([]string{"one", "two"})
	if got := wrote(); got != "one\r\ntwo" {
		t.Errorf("drawn is %q", got)
	}
	s.Write([]byte("above\x1b\n"))
	if got := wrote(); got != "\r\x1b[2K\x1b[A\r\x1b[2Kabove\\x1b\none\r\ntwo" {
		t.Errorf("then it is %q", got)
	}
	s.Write([]byte("begun"))
	if got := wrote(); got != "\r\x1b[2K\x1b[A\r\x1b[2Kbegun" {
		t.Errorf("behind a line that has not ended, it is %q", got)
	}
	p.Show([]string{"a line of 17 cols"})
	if got := wrote(); got != "" {
		t.Errorf("behind a line that has not ended, it is %q", got)
	}
	s.Write([]byte("\n"))
	if got := wrote(); got != "\na line of 17 cols" {
		t.Errorf("after that line, it is %q", got)
	}
	columns = 6 // the window became narrower: the line takes three rows
	p.Close()
	if got := wrote(); got != "\r\x1b[2K\x1b[A\r\x1b[2K\x1b[A\r\x1b[2K" {
		t.Errorf("closed, it is %q", got)
	}
	s.Write([]byte("after\n"))
	if got := wrote(); got != "after\n" {
		t.Errorf("after it was closed: %q", got)
	}
}

func TestOutputThatIsNoTerminalGetsNoPane(t *testing.T) {
	a := &App{In: strings.NewReader(""), Out: &strings.Builder{}, Err: &strings.Builder{}}
	if _, ok := a.OpenPane(); ok {
		t.Error("a pipe has a pane")
	}
}
