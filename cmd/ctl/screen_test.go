//go:build linux

package main

import (
	"io"
	"strings"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/terminaltest"
)

// Errors quote what hosts and other people wrote, and cobra's own errors quote arguments.
func TestBothStreamsOfCtlAreScreens(t *testing.T) {
	person, program := terminaltest.Open(t)
	done := make(chan int, 1)
	go func() {
		done <- run([]string{"-o", "json", "session", "x\x1b]0;owned\x07\u202e"}, strings.NewReader(""), program, program)
		io.WriteString(program, "the end\n")
	}()
	var all strings.Builder
	for buf := make([]byte, 1<<10); !strings.Contains(all.String(), "the end"); {
		n, err := person.Read(buf)
		if all.Write(buf[:n]); err != nil {
			t.Fatal(err)
		}
	}
	if code := <-done; code != 2 {
		t.Errorf("exit %d", code)
	}
	if got := all.String(); strings.ContainsAny(got, "\x1b\x07\u202e") || strings.Count(got, "owned") < 2 || !strings.Contains(got, `{"error":`) {
		t.Errorf("the terminal gets %q", got)
	}
}
