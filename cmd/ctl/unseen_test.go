//go:build linux

package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/terminaltest"
)

// The terminal shows nothing of a secret, even if a line was already being read. It shows
// again what is typed afterwards.
func TestTheTerminalShowsNothingOfASecret(t *testing.T) {
	person, program := terminaltest.Open(t)
	a := &app{in: program, out: program, err: program}
	a.lines() // starts the reader
	seen := make(chan string)
	go func() {
		var all strings.Builder
		buf := make([]byte, 1<<10)
		for !strings.Contains(all.String(), "the end") {
			n, err := person.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				break
			}
		}
		seen <- all.String()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	show, err := a.hideTyping()
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(person, " open sesame \n")
	if s, err := a.answerAsIs(ctx); err != nil || s != " open sesame " {
		t.Errorf("typed was %q (%v)", s, err)
	}
	show()
	io.WriteString(person, "the end\n")
	if s, err := a.answer(ctx); err != nil || s != "the end" {
		t.Errorf("typed was %q (%v)", s, err)
	}
	if shown := <-seen; strings.Contains(shown, "sesame") {
		t.Errorf("the terminal shows %q", shown)
	}
	if _, err := (&app{in: strings.NewReader("x")}).hideTyping(); err == nil {
		t.Error("what is no terminal was hidden")
	}
}

// A diff is cleaned for a terminal even if colours are off.
func TestNoDiffReachesATerminalAsItIs(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	const diff = "+a\x1b]0;owned\x07\n"
	person, program := terminaltest.Open(t)
	showTurnDiff(newPrinter(program, false), diff)
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
	if showTurnDiff(newPrinter(&file, false), diff); file.String() != diff {
		t.Errorf("a file gets %q", file.String())
	}
}
