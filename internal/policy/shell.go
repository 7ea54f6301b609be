package policy

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// What is longer is not split: Linux takes no longer argument.
const maxCommand = 128 << 10

// shells are what codex puts around a command. A shell of another path, such as
// one in the work folder, is a program of the model's choice like any other.
var shells = func() (all []string) {
	for _, name := range []string{"sh", "bash", "dash", "ash", "ksh", "zsh"} {
		all = append(all, name, "/bin/"+name, "/usr/bin/"+name, "/usr/local/bin/"+name)
	}
	return all
}()

// Split splits the text of a command into the words that would run, of
// `/bin/bash -lc '…'` the words within. Plain says that it could: that every
// shell would make exactly these words of it and do nothing else. It is false
// for whatever has more to it than words and quotes: more than one command,
// redirections, substitutions, variables, patterns, braces, assignments,
// comments, continued lines, control characters, and text that is no UTF-8.
// Where it errs it errs to that side: a quoted HEAD^ is a word, a bare one is not.
func Split(command string) (words []string, plain bool) {
	words, ok := split(command)
	if !ok {
		return nil, false
	}
	if script, zsh, ok := wrapped(words); ok {
		if words, ok = split(script); !ok || zsh && oddInZsh(script) {
			return nil, false
		}
	}
	return words, true
}

// wrapped finds the script of codex's own shell around a command. One that is
// given arguments behind its script is not codex's.
func wrapped(words []string) (script string, zsh, ok bool) {
	if len(words) < 3 || !slices.Contains(shells, words[0]) {
		return "", false, false
	}
	zsh = strings.HasSuffix(words[0], "zsh")
	switch {
	case len(words) == 3 && (words[1] == "-c" || words[1] == "-lc"):
		return words[2], zsh, true
	case len(words) == 4 && words[1] == "-l" && words[2] == "-c":
		return words[3], zsh, true
	}
	return "", false, false
}

// oddInZsh is what common options of zsh give another meaning: EXTENDED_GLOB to
// a tilde, RC_QUOTES to two quotes in a row.
func oddInZsh(script string) bool {
	return strings.Contains(script, "~") || strings.Contains(script, "''")
}

// split is one pass over text that must be a single command of plain words.
func split(text string) ([]string, bool) {
	if len(text) > maxCommand || !utf8.ValidString(text) {
		return nil, false
	}
	s := splitter{text: text}
	for s.at < len(s.text) {
		if c := s.text[s.at]; c == ' ' || c == '\t' {
			s.at++
		} else if !s.word() {
			return nil, false
		}
	}
	return s.words, len(s.words) > 0
}

type splitter struct {
	text  string
	at    int
	words []string
}

// word reads to the end of one word; false means that this is more than words.
func (s *splitter) word() bool {
	var b strings.Builder
	begin := s.at
	for ; s.at < len(s.text); s.at++ {
		c, ok := s.text[s.at], true
		switch {
		case c == ' ' || c == '\t':
			s.words = append(s.words, b.String())
			return true
		case c == '\'':
			ok = s.single(&b)
		case c == '"':
			ok = s.double(&b)
		case c == '\\':
			// A backslash makes any visible character of ASCII a plain one.
			if s.at++; s.at == len(s.text) || s.text[s.at] < ' ' || s.text[s.at] >= 0x7f {
				return false
			}
			b.WriteByte(s.text[s.at])
		default:
			ok = s.bare(c, begin) && b.WriteByte(c) == nil
		}
		if !ok {
			return false
		}
	}
	s.words = append(s.words, b.String())
	return true
}

// bare says whether a character without quotes is just itself, here.
func (s *splitter) bare(c byte, begin int) bool {
	switch {
	case letter(c), strings.IndexByte("_-./:,@+", c) >= 0:
		return true
	case c == '%':
		return len(s.words) > 0 || s.at > begin // %1 is a job
	case c == '=':
		// a=b is an assignment before a command; zsh looks =b up in PATH.
		return len(s.words) > 0 && s.at > begin
	case c == '~':
		// HEAD~1: at the beginning, and behind = and :, it is a home.
		return s.at > begin && letter(s.text[s.at-1])
	}
	return false
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// single reads '…'.
func (s *splitter) single(b *strings.Builder) bool {
	n := strings.IndexByte(s.text[s.at+1:], '\'')
	if n < 0 {
		return false
	}
	quoted := s.text[s.at+1 : s.at+1+n]
	b.WriteString(quoted)
	s.at += n + 1
	return visible(quoted)
}

// double reads "…": a backslash quotes only what would otherwise mean something,
// and before anything else it is itself.
func (s *splitter) double(b *strings.Builder) bool {
	from := b.Len()
	for s.at++; s.at < len(s.text); s.at++ {
		c := s.text[s.at]
		switch c {
		case '"':
			return visible(b.String()[from:])
		case '$', '`', '!':
			return false
		case '\\':
			if s.at+1 == len(s.text) || s.text[s.at+1] == '\n' || s.text[s.at+1] == '!' {
				return false
			}
			if strings.IndexByte("$`\"\\", s.text[s.at+1]) >= 0 {
				s.at++
				c = s.text[s.at]
			}
		}
		b.WriteByte(c)
	}
	return false
}

// visible keeps out what shells use within themselves, and what differs between
// them; a quoted line end or tab is as certain as any letter.
func visible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f })
}
