//go:build linux

package core

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/terminaltest"
)

// A key decides what codex may do. So nothing but one press of one key counts as one: no
// text that was pasted, and no arrow, whose sequence contains letters.
func TestOnlyOnePressIsAKey(t *testing.T) {
	for _, c := range []struct {
		sent []string // as the terminal delivers it
		want []string
	}{
		{[]string{"y"}, []string{"y"}},
		{[]string{"y\n"}, []string{"y"}},
		{[]string{"\r"}, []string{"enter"}},
		{[]string{"é"}, []string{"é"}},
		{[]string{"yes"}, nil},
		{[]string{"y\nn\n"}, nil},
		{[]string{"\x1b[A"}, nil},
		{[]string{"\x1bOa"}, nil},
		{[]string{"\x1b", "[", "a", "y"}, []string{"y"}},
		{[]string{"\x1b", "y", "n"}, []string{"n"}},
		{[]string{"\x1b[200~y\x1b[201~"}, nil},
		{[]string{"\x1b[1;5", "a"}, nil},
	} {
		var k keyReader
		var got []string
		for _, data := range c.sent {
			if key := k.one([]byte(data)); key != "" {
				got = append(got, key)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q gives the keys %q, want %q", c.sent, got, c.want)
		}
	}
}

func TestTheTerminalDeliversKeysAndThenLinesAgain(t *testing.T) {
	person, program := terminaltest.Open(t)
	a := &App{In: program, Out: program, Err: program}
	t.Cleanup(a.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 2 { // the second time, the reader begins anew
		lines := a.Lines()
		restore, err := a.Keys()
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(person, "y")
		if got := <-lines; got.Text != "y" || !got.Key {
			t.Errorf("the key is %+v", got)
		}
		restore()
		io.WriteString(person, "a line\n")
		if s, err := a.answer(ctx); err != nil || s != "a line" {
			t.Errorf("the line is %q (%v)", s, err)
		}
		a.Lend()
		io.WriteString(person, "for another\n")
		buf := make([]byte, 100)
		if n, err := program.Read(buf); err != nil || string(buf[:n]) != "for another\n" {
			t.Errorf("the other program reads %q (%v)", buf[:n], err)
		}
	}
}

func TestStyledLinesAreEscapedAndEndTheirStyles(t *testing.T) {
	got := Styled(true, func(p *Printer) {
		p.Printf("%s\n", p.Paint(Red, "one\x1b[2J\ntwo"))
		p.Printf("\u202ethree")
	})
	want := []string{"\x1b[31mone\\x1b[2J\x1b[0m", "\x1b[31mtwo\x1b[0m", `\u202ethree`}
	if !slices.Equal(got, want) {
		t.Errorf("lines are %q, want %q", got, want)
	}
	plain := Styled(false, func(p *Printer) { p.Printf("%s", p.Paint(Red, "x")) })
	if strings.Join(plain, "") != "x" {
		t.Errorf("without colours it is %q", plain)
	}
}

func TestOfAStyledLineOnlyTheStylesAreObeyed(t *testing.T) {
	got := Spans("a\x1b[1;36mb\x1b[mc\x1b[2Jd\x1b]8;id=1;https://a.example\x07e\x1b]8;;\x1b\\f\x1b")
	want := []Span{{"", "a"}, {"1;36", "b"}, {"", "c"}, {"", "\x1b"}, {"", "[2Jd"}, {"", "e"}, {"", "f"}, {"", "\x1b"}}
	if !slices.Equal(got, want) {
		t.Errorf("spans are %q, want %q", got, want)
	}
}
