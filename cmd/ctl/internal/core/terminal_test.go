//go:build linux

package core

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/terminaltest"
)

// The terminal shows nothing of a secret, even if a line was already being read. It shows
// again the text that is typed afterwards.
func TestTheTerminalShowsNothingOfASecret(t *testing.T) {
	person, program := terminaltest.Open(t)
	a := &App{In: program, Out: program, Err: program}
	t.Cleanup(a.Close)
	a.Lines() // starts the reader
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
	show, err := a.HideTyping()
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
	if _, err := (&App{In: strings.NewReader("x")}).HideTyping(); err == nil {
		t.Error("what is no terminal was hidden")
	}
}
