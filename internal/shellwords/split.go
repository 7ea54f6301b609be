package shellwords

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A command longer than MaxCommand is not split. Linux accepts no longer argument.
const MaxCommand = 128 << 10

// shells are those that codex may put around a command. A shell at another path, such as in
// the work folder, may be any program that the model chose.
var shells = func() (all []string) {
	for _, name := range []string{"sh", "bash", "dash", "ash", "ksh", "zsh"} {
		all = append(all, name, "/bin/"+name, "/usr/bin/"+name, "/usr/local/bin/"+name)
	}
	return all
}()

// Split splits a command into the words that would run; for `/bin/bash -lc '…'` those
// inside the quotes. plain means that every shell would split the text into exactly these
// words and do nothing else. It is false for anything but words and quotes: more than one
// command, redirections, substitutions, variables, patterns, braces, assignments, comments,
// continued lines, control characters, or bytes that are not UTF-8. In doubt it is false:
// HEAD^ is a word only if quoted.
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

// Script returns the text that the shell which codex put around a command runs: for
// `/bin/bash -lc 'ls | wc'` that is ls | wc. It returns false if there is no such shell, or
// if the quotes around the text can be read in two ways.
func Script(command string) (string, bool) {
	words, ok := split(command)
	if !ok {
		return "", false
	}
	return ScriptOf(words)
}

// ScriptOf is Script for a command that is given as words.
func ScriptOf(words []string) (string, bool) {
	script, _, ok := wrapped(words)
	return script, ok
}

// wrapped returns the script of codex's shell, which has no arguments after it.
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

// oddInZsh reports whether common options of zsh change a script: a tilde (EXTENDED_GLOB)
// or two quotes in a row (RC_QUOTES).
func oddInZsh(script string) bool {
	return strings.Contains(script, "~") || strings.Contains(script, "''")
}

func split(text string) ([]string, bool) {
	if len(text) > MaxCommand || !utf8.ValidString(text) {
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
			// A backslash makes printable ASCII literal.
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

// bare reports whether c is literal without quotes.
func (s *splitter) bare(c byte, begin int) bool {
	switch {
	case letter(c), strings.IndexByte("_-./:,@+", c) >= 0:
		return true
	case c == '%':
		return len(s.words) > 0 || s.at > begin // %1 at the start of a command is a job
	case c == '=':
		// a=b before a command is an assignment; zsh looks up =b in PATH.
		return len(s.words) > 0 && s.at > begin
	case c == '~':
		// HEAD~1 is literal. At the start, and after = and :, ~ is a home folder.
		return s.at > begin && letter(s.text[s.at-1])
	}
	return false
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

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

// double reads "…", where a backslash quotes only special characters.
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

// visible excludes control characters, which shells treat differently, but allows line ends
// and tabs.
func visible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f })
}
