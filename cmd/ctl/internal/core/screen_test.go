//go:build linux

package core

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/terminaltest"
)

const evil = "a\x1b[31mred\x1b]0;owned\a\u202e\u009b2J\xff"

const evilShown = `a\x1b[31mred\x1b]0;owned\x07\u202e\u009b2J\xff`

// onTerminal returns what a terminal gets of what write writes.
func onTerminal(t *testing.T, write func(program *os.File)) string {
	t.Helper()
	person, program := terminaltest.Open(t)
	go func() {
		write(program)
		io.WriteString(program, "the end\n")
	}()
	var all strings.Builder
	for buf := make([]byte, 1<<10); !strings.Contains(all.String(), "the end"); {
		n, err := person.Read(buf)
		if all.Write(buf[:n]); err != nil {
			t.Fatal(err)
		}
	}
	text, _, _ := strings.Cut(all.String(), "the end")
	return strings.ReplaceAll(text, "\r\n", "\n")
}

// Hosts, codex, models and other users choose what is printed. It need not have been
// cleaned before.
func TestATerminalGetsNothingButEscapesAndOurStyles(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	os.Unsetenv("NO_COLOR")
	t.Setenv("TERM", "xterm")
	for what, write := range map[string]func(a *App){
		"raw bytes":      func(a *App) { a.Out.Write([]byte(evil)) },
		"a format":       func(a *App) { a.Print().Printf("%s", evil) },
		"exact":          func(a *App) { a.Print().Exact(evil) },
		"a note":         func(a *App) { a.Note("%s", evil) },
		"standard error": func(a *App) { fmt.Fprint(a.Err, evil) },
		"cells":          func(a *App) { a.Print().Table([]string{"A"}, [][]Cell{{Plain(evil)}}) },
		"fields":         func(a *App) { a.Print().Fields(Plain("x"), Plain(evil)) },
		"one byte each": func(a *App) {
			for i := range len(evil) {
				a.Out.Write([]byte{evil[i]})
			}
			a.Close()
		},
	} {
		got := onTerminal(t, func(program *os.File) {
			a := &App{Out: Screen(program), Err: Screen(program)}
			write(a)
		})
		if !strings.Contains(got, evilShown) || strings.ContainsAny(strings.ReplaceAll(strings.ReplaceAll(got, "\x1b[2m", ""), "\x1b[0m", ""), "\x1b\a\u202e") {
			t.Errorf("%s: the terminal gets %q", what, got)
		}
	}
	got := onTerminal(t, func(program *os.File) {
		p := NewPrinter(program, false)
		p.Printf("%s 日本\n", p.Paint(Green, "fine "+evil))
	})
	if want := "\x1b[32mfine " + evilShown + "\x1b[0m 日本\n"; got != want {
		t.Errorf("a style: the terminal gets %q, want %q", got, want)
	}
	got = onTerminal(t, func(program *os.File) { NewPrinter(program, true).Show(map[string]string{"x": "\u202e\u009b"}, nil) })
	if want := "{\"x\":\"\\u202e\\u009b\"}\n"; got != want {
		t.Errorf("JSON: the terminal gets %q, want %q", got, want)
	}
	got = onTerminal(t, func(program *os.File) {
		(&App{Err: program}).EraseLine()
		(&App{Err: Screen(program)}).EraseLine()
	})
	if want := "\r\x1b[K\r\x1b[K"; got != want {
		t.Errorf("EraseLine: the terminal gets %q, want %q", got, want)
	}
}

func TestAFileGetsTheExactBytes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	a := &App{Out: Screen(f), Err: Screen(f)}
	a.Out.Write([]byte(evil))
	a.Err.Write([]byte(evil))
	a.Print().Exact(evil)
	f.Close()
	if got, err := os.ReadFile(name); err != nil || string(got) != evil+evil+evil {
		t.Errorf("it gets %q (%v)", got, err)
	}
}

// Who prints a file later has a terminal, too.
func TestEveryPrinterOfTextEscapes(t *testing.T) {
	var b bytes.Buffer
	a := &App{Out: &b, Err: &b, In: strings.NewReader("y\n")}
	for what, print := range map[string]func(){
		"Printf":  func() { a.Print().Printf("%s", evil) },
		"Table":   func() { a.Print().Table([]string{"A"}, [][]Cell{{Painted(Red, evil)}}) },
		"Fields":  func() { a.Print().Fields(Plain("x"), Plain(evil)) },
		"Note":    func() { a.Note("%s", evil) },
		"Clean":   func() { b.WriteString(Clean(evil)) },
		"OneLine": func() { b.WriteString(OneLine(evil, 200)) },
		"Confirm": func() {
			if _, err := a.Confirm(t.Context(), evil); err != nil {
				t.Error(err)
			}
		},
	} {
		b.Reset()
		if print(); !strings.Contains(b.String(), evilShown) {
			t.Errorf("%s writes %q", what, b.String())
		}
	}
}
