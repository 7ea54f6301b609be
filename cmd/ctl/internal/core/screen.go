package core

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"

	"fairlead.dev/fairlead/internal/escape"
)

// A screen is a terminal that only ctl controls. Whatever is written to it is escaped,
// except the styles of Paint: output of hosts, errors and names reach no terminal as they
// are, even if a command forgets to clean them.
type screen struct {
	mu   sync.Mutex
	w    io.Writer
	held []byte // an unfinished character or style
	pane *Pane  // through which all is written while it is open
}

// under makes the screen write above a pane, or itself again.
func (s *screen) under(p *Pane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pane = p
}

// to returns where the screen writes.
func (s *screen) to() io.Writer {
	if s.pane != nil {
		return s.pane
	}
	return s.w
}

// Screen returns w, escaping what is written to it if it is a terminal. Files and pipes get
// the exact bytes.
func Screen(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &screen{w: w}
	}
	return w
}

// IsTerminal reports whether w is a terminal, or the screen of one.
func IsTerminal(w any) bool {
	switch w := w.(type) {
	case *screen:
		return true
	case *os.File:
		return term.IsTerminal(int(w.Fd()))
	}
	return false
}

// ink begins a style on its way to a screen. Only this process knows it, so that no other
// text can be taken for a style.
var ink = "\x1b" + nonce() + ":"

func nonce() string {
	b := make([]byte, 16)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// inked returns text in a style, for a screen.
func inked(s Style, text string) string { return ink + string(s) + "m" + text + ink + "0m" }

// Write escapes p. It keeps back the beginning of a character or of a style until its rest
// comes.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := p
	if len(s.held) > 0 {
		data = append(s.held, p...)
		s.held = nil
	}
	var out []byte
	for len(data) > 0 {
		at := bytes.Index(data, []byte(ink))
		if at < 0 {
			n := len(data) - unfinished(data)
			out = escape.Append(out, string(data[:n]))
			s.held = bytes.Clone(data[n:])
			break
		}
		out = escape.Append(out, string(data[:at]))
		style := data[at+len(ink):]
		end := bytes.IndexByte(style, 'm')
		if end < 0 {
			s.held = bytes.Clone(data[at:])
			break
		}
		out = fmt.Appendf(out, "\x1b[%sm", style[:end])
		data = style[end+1:]
	}
	if _, err := s.to().Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// unfinished returns the length of data's end that may be the beginning of a character or
// of ink.
func unfinished(data []byte) int {
	if i := bytes.LastIndexByte(data, ink[0]); i >= 0 && len(data)-i < len(ink) && ink[:len(data)-i] == string(data[i:]) && len(data)-i > 1 {
		return len(data) - i
	}
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		if last := data[len(data)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// flush writes what is kept back.
func (s *screen) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) > 0 {
		_, _ = s.to().Write(escape.Append(nil, string(s.held))) // a failure cannot be reported
		s.held = nil
	}
}

// eraseLine begins the terminal's line anew.
func (s *screen) eraseLine() {
	s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.w, "\r\x1b[K") // the next write reports a failure
}

// EraseLine begins the line of standard error anew, if that is a terminal.
func (a *App) EraseLine() {
	if s, ok := Screen(a.Err).(*screen); ok {
		s.eraseLine()
	}
}

// Styled returns the lines that text prints, as a terminal must get them: escaped, with
// styles if colour is true. No style goes on beyond the end of its line.
func Styled(colour bool, text func(p *Printer)) []string {
	var b strings.Builder
	s := &screen{w: &b}
	text(&Printer{W: s, color: colour})
	s.flush()
	all := strings.TrimSuffix(b.String(), "\n")
	if all == "" {
		return nil
	}
	lines, style := strings.Split(all, "\n"), ""
	for i, line := range lines {
		begun := style
		for rest := line; ; { // only a screen's own styles are left in there
			at := strings.Index(rest, "\x1b[")
			if at < 0 {
				break
			}
			end := strings.IndexByte(rest[at:], 'm')
			if end < 0 {
				break
			}
			if style = rest[at : at+end+1]; style == "\x1b[0m" {
				style = ""
			}
			rest = rest[at+end+1:]
		}
		lines[i] = begun + line
		if style != "" {
			lines[i] += "\x1b[0m"
		}
	}
	return lines
}

// A Span is a part of a line in one style.
type Span struct {
	Style Style
	Text  string
}

// Spans reads a line that a library has styled. Sequences that set styles become styles, and
// those of links are left out. All else is text, also other sequences, which a Printer escapes.
func Spans(line string) (all []Span) {
	style := ""
	add := func(text string) {
		if text != "" {
			all = append(all, Span{Style(style), text})
		}
	}
	for {
		before, rest, found := strings.Cut(line, "\x1b")
		add(before)
		if !found {
			return all
		}
		if sgr, after, ok := cutSGR(rest); ok {
			if style = strings.TrimPrefix(style+";"+sgr, ";"); sgr == "" || sgr == "0" {
				style = ""
			}
			line = after
			continue
		}
		if after, ok := cutLink(rest); ok {
			line = after
			continue
		}
		add("\x1b")
		line = rest
	}
}

// cutSGR reads the rest of a sequence that sets a style.
func cutSGR(s string) (params, after string, ok bool) {
	if s, ok = strings.CutPrefix(s, "["); !ok {
		return "", "", false
	}
	end := strings.IndexFunc(s, func(r rune) bool { return r != ';' && r != ':' && (r < '0' || r > '9') })
	if end < 0 || s[end] != 'm' {
		return "", "", false
	}
	return s[:end], s[end+1:], true
}

// cutLink reads the rest of a sequence that begins or ends a link.
func cutLink(s string) (after string, ok bool) {
	if !strings.HasPrefix(s, "]8;") {
		return "", false
	}
	if _, after, ok = strings.Cut(s, "\a"); !ok {
		_, after, ok = strings.Cut(s, "\x1b\\")
	}
	return after, ok
}
