package console

import (
	"strconv"
	"strings"

	"fairlead.dev/fairlead/internal/escape"
)

// A span is a part of a text with the same look. Class is one of ours, never of the text.
type span struct{ Class, Text string }

// maxSpans bounds the parts of one text. The rest has no colours.
const maxSpans = 2000

// colours splits the output of a command where it changes colour (ECMA-48 SGR). Colours become
// classes. Every other control character becomes a visible escape, as everywhere.
func colours(s string) []span {
	var out []span
	var look sgr
	add := func(text string) {
		if text != "" {
			out = append(out, span{look.class(), escape.Text(text)})
		}
	}
	for s != "" && len(out) < maxSpans {
		i := strings.Index(s, "\x1b[")
		if i < 0 {
			break
		}
		n := i + 2
		for n < len(s) && n-i < 40 && (s[n] >= '0' && s[n] <= '9' || s[n] == ';') {
			n++
		}
		if n >= len(s) || s[n] != 'm' { // no colour: it is shown as it is
			add(s[:i+2])
			s = s[i+2:]
			continue
		}
		add(s[:i])
		look.set(s[i+2 : n])
		s = s[n+1:]
	}
	add(s)
	return out
}

// sgr is how text looks.
type sgr struct {
	bold, dim, underline bool
	colour               string
}

var colourNames = [...]string{"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}

func (l *sgr) set(codes string) {
	list := strings.Split(codes, ";")
	for i := 0; i < len(list); i++ {
		n, err := strconv.Atoi(list[i])
		if err != nil {
			n = 0
		}
		switch {
		case n == 0:
			*l = sgr{}
		case n == 1:
			l.bold = true
		case n == 2:
			l.dim = true
		case n == 4:
			l.underline = true
		case n == 22:
			l.bold, l.dim = false, false
		case n == 24:
			l.underline = false
		case n >= 30 && n <= 37:
			l.colour = colourNames[n-30]
		case n >= 90 && n <= 97:
			l.colour = colourNames[n-90]
		case n == 39:
			l.colour = ""
		case n == 38 || n == 48: // a colour of a palette, which is left out
			if i+1 < len(list) && list[i+1] == "5" {
				i += 2
			} else {
				i += 4
			}
		}
	}
}

func (l *sgr) class() string {
	var all []string
	if l.bold {
		all = append(all, "sgr-bold")
	}
	if l.dim {
		all = append(all, "sgr-dim")
	}
	if l.underline {
		all = append(all, "sgr-under")
	}
	if l.colour != "" {
		all = append(all, "sgr-"+l.colour)
	}
	return strings.Join(all, " ")
}
