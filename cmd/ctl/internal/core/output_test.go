package core

import (
	"bytes"
	"testing"
)

func TestCleanShowsWhatATerminalWouldObey(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":              "plain\ttext\n",
		"a\x1b[31mred\x1b]0;title\a": `a\x1b[31mred\x1b]0;title\x07`,
		"over\rwrite\b\x7f\u009b2J":  `over\rwrite\x08\x7f\u009b2J`,
		"ab\u202ecod\u2066x":         `ab\u202ecod\u2066x`,
		"bad \xff byte":              `bad \xff byte`,
		"naïve — 日本":                 "naïve — 日本",
	} {
		if got := Clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTableAlignsAndKeepsCellsOnOneLine(t *testing.T) {
	var b bytes.Buffer
	p := NewPrinter(&b, false)
	p.Table([]string{"NAME", "STATE"}, [][]Cell{
		{Plain("a"), Painted(Green, "ready")},
		{Plain("longer-name"), Plain("two\nlines")},
	})
	want := "NAME         STATE\na            ready\nlonger-name  two lines\n"
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}
