package inventory

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A block holds the settings after one Host line, or before the first.
type block struct {
	patterns []string
	never    bool // of a Match that was skipped
	within   *block
	settings []setting
}

type setting struct {
	key   string // in small letters
	words []string
	at    Place
}

// An sshReader reads a client config and the files that it includes.
type sshReader struct {
	r      *reader
	blocks []*block
	files  int
	names  []key // concrete host names, in the order of the file
}

// Bounds on includes; OpenSSH too allows 16 levels.
const (
	maxIncludes = 16
	maxFiles    = 1000
)

func (r *reader) sshConfig(data []byte) {
	s := &sshReader{r: r}
	s.file(data, "", 0, &block{patterns: []string{"*"}})
	for _, name := range s.names {
		if r.full() {
			return
		}
		if _, twice := r.byName[name.name]; !twice {
			s.host(name)
		}
	}
}

// file reads one file. Its blocks apply within the block around it.
func (s *sshReader) file(data []byte, name string, depth int, around *block) {
	if s.files++; s.files > maxFiles {
		s.r.add(Place{File: name}, "more than %d files are included", maxFiles)
		return
	}
	now := &block{patterns: []string{"*"}, within: around}
	s.blocks = append(s.blocks, now)
	number := 0
	for raw := range strings.Lines(string(data)) {
		number++
		line := strings.TrimSpace(strings.TrimRight(raw, "\r\n"))
		at := Place{File: name, Line: number, Column: utf8.RuneCountInString(raw[:len(raw)-len(strings.TrimLeft(raw, " \t"))]) + 1}
		if line == "" {
			continue
		}
		if line[0] == '#' {
			if ours, ok := strings.CutPrefix(strings.TrimSpace(line[1:]), "fairlead:"); ok {
				s.ours(now, strings.TrimSpace(ours), at)
			}
			continue
		}
		keyword, words, err := keyword(line)
		if err != "" {
			s.r.add(at, "%s", err)
			continue
		}
		switch keyword {
		case "host":
			now = &block{patterns: words, within: around}
			s.blocks = append(s.blocks, now)
			s.concrete(now, at)
		case "match":
			now = &block{never: true, within: around}
			if len(words) == 1 && strings.EqualFold(words[0], "all") {
				now = &block{patterns: []string{"*"}, within: around}
			} else {
				s.r.warn("", at, "Match %s: the settings behind it were left out: what it asks is known only when ssh runs", cut(strings.Join(words, " ")))
			}
			s.blocks = append(s.blocks, now)
		case "include":
			s.include(words, at, depth, now)
			// The lines after Include still belong to the including block.
			rest := *now
			rest.settings = nil
			now = &rest
			s.blocks = append(s.blocks, now)
		default:
			now.settings = append(now.settings, setting{keyword, words, at})
		}
	}
}

// ours reads a "# fairlead:" comment.
func (s *sshReader) ours(now *block, text string, at Place) {
	k, v, _ := strings.Cut(text, " ")
	k, v = strings.ToLower(k), strings.TrimSpace(v)
	if !slices.Contains([]string{"slots", "label", "root", "host_key", "known_hosts"}, k) || v == "" {
		s.r.add(at, "# fairlead: %s: there are slots, label, root, host_key and known_hosts, each with a value", cut(text))
		return
	}
	now.settings = append(now.settings, setting{"fairlead " + k, []string{v}, at})
}

// applies reports whether a block, and the blocks around it, apply to a host.
func (b *block) applies(name string) bool {
	for ; b != nil; b = b.within {
		if b.never || !matchesHost(b.patterns, name) {
			return false
		}
	}
	return true
}

func matchesHost(patterns []string, name string) bool {
	yes := false
	for _, p := range patterns {
		p, not := strings.CutPrefix(p, "!")
		if wild(p, name) {
			if not {
				return false
			}
			yes = true
		}
	}
	return yes
}

// wild matches a pattern with * and ?.
func wild(pattern, s string) bool {
	star, mark := -1, 0
	i, j := 0, 0
	for i < len(s) {
		switch {
		case j < len(pattern) && pattern[j] == '*':
			star, mark = j, i
			j++
		case j < len(pattern) && (pattern[j] == '?' || pattern[j] == s[i]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = mark, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[j:], "*") == ""
}

// concrete records the names after Host that are not patterns.
func (s *sshReader) concrete(b *block, at Place) {
	for _, p := range b.patterns {
		if !strings.ContainsAny(p, "*?!") && b.applies(p) && len(s.names) <= MaxHosts {
			s.names = append(s.names, key{p, at})
		}
	}
}

// keyword parses "Word value value" or "Word=value".
func keyword(line string) (word string, words []string, problem string) {
	end := strings.IndexAny(line, " \t=")
	if end < 0 {
		return "", nil, "\"" + cut(line) + "\" has no value"
	}
	word = strings.ToLower(line[:end])
	rest := strings.TrimLeft(line[end:], " \t")
	rest = strings.TrimLeft(strings.TrimPrefix(rest, "="), " \t")
	if word == "proxycommand" || word == "localcommand" || word == "remotecommand" {
		return word, []string{rest}, ""
	}
	list, err := split(rest)
	switch {
	case err != nil:
		return "", nil, cut(line[:end]) + ": " + err.Error()
	case len(list) == 0:
		return "", nil, cut(line[:end]) + " has no value"
	}
	for _, w := range list {
		words = append(words, w.text)
	}
	return word, words, ""
}

func (s *sshReader) include(patterns []string, at Place, depth int, around *block) {
	if depth == maxIncludes {
		s.r.add(at, "files include each other more than %d deep", maxIncludes)
		return
	}
	if s.r.o.Glob == nil || s.r.o.Read == nil {
		s.r.add(at, "what it includes cannot be read here")
		return
	}
	for _, p := range patterns {
		p = s.r.home(p)
		if !filepath.IsAbs(p) {
			p = filepath.Join(s.r.o.Home, ".ssh", p)
		}
		names, err := s.r.o.Glob(p)
		if err != nil {
			s.r.add(at, "Include %s: %v", cut(p), err)
			continue
		}
		for _, name := range names {
			data, err := s.r.o.Read(name)
			switch {
			case err != nil:
				s.r.add(at, "Include %s: %v", cut(name), err)
			case !utf8.Valid(data):
				s.r.add(at, "Include %s: it is not text in UTF-8", cut(name))
			default:
				s.file(data, name, depth+1, around)
			}
		}
	}
}

// host collects the settings for a name; the first value wins.
func (s *sshReader) host(name key) {
	h := s.r.host(name.name, name.at)
	h.Labels = map[string]string{}
	h.Address = name.name
	h.said("address", name.at)
	won := map[string]setting{}
	var keys []string
	for _, b := range s.blocks {
		if !b.applies(name.name) {
			continue
		}
		for _, set := range b.settings {
			switch set.key {
			case "fairlead label":
				k, v, ok := strings.Cut(set.words[0], "=")
				if _, there := h.Labels[k]; !ok {
					s.r.of(h.written, set.at, "label %q is not key=value", cut(set.words[0]))
				} else if !there {
					s.r.label(h, h.Labels, k, v, set.at)
				}
				h.said("labels", set.at)
				continue
			case "fairlead host_key":
				keys = append(keys, set.words[0])
				h.said("host_keys", set.at)
				continue
			case "identityfile":
				if _, there := won[set.key]; there {
					s.r.warn(h.written, set.at, "host %s: a further IdentityFile was left out: the first is taken", cut(h.written))
				}
			}
			if _, there := won[set.key]; !there {
				won[set.key] = set
			}
		}
	}
	h.HostKeys = keys
	s.settle(h, won)
}

// settle sets the host's fields from the values that won.
func (s *sshReader) settle(h *Host, won map[string]setting) {
	r := s.r
	text := func(what, key string) string {
		set, ok := won[key]
		if !ok {
			return ""
		}
		h.said(what, set.at)
		if len(set.words) > 1 {
			r.of(h.written, set.at, "host %s: %s takes one value", cut(h.written), key)
		}
		return set.words[0]
	}
	number := func(what, key string, most int) int {
		v := text(what, key)
		if v == "" {
			return 0
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > most {
			r.of(h.written, h.At(what), "host %s: %s takes a whole number from 1 to %d", cut(h.written), what, most)
		}
		return n
	}
	if v := text("address", "hostname"); v != "" {
		h.Address = r.tokens(h, v, map[string]string{"h": h.written, "n": h.written})
	}
	h.User = text("user", "user")
	h.Port = number("port", "port", 65535)
	h.Slots = number("slots", "fairlead slots", 10_000)
	h.Root = text("root", "fairlead root")
	h.KnownHosts = text("known_hosts", "fairlead known_hosts")
	known := map[string]string{"d": r.o.Home, "h": h.Address, "n": h.written, "p": strconv.Itoa(orSSH(h.Port))}
	if h.User != "" {
		known["r"] = h.User
	}
	if v := text("identity", "identityfile"); v != "" && !strings.EqualFold(v, "none") {
		h.Identity = r.home(r.tokens(h, v, known))
	}
	h.KeyName = text("key_name", "hostkeyalias")
	jump, jumps := won["proxyjump"]
	command, commands := won["proxycommand"]
	if jumps && (!commands || before(jump.at, command.at, s)) {
		h.via = text("jump", "proxyjump")
	} else if commands {
		r.proxyCommand(h, command.words[0], command.at)
	}
	if set, ok := won["userknownhostsfile"]; ok {
		r.pinFiles(h, set.words, set.at)
	}
}

// before reports whether ssh reads a before b: the first of ProxyJump and
// ProxyCommand wins.
func before(a, b Place, s *sshReader) bool {
	for _, bl := range s.blocks {
		for _, set := range bl.settings {
			switch set.at {
			case a:
				return true
			case b:
				return false
			}
		}
	}
	return true
}

// tokens expands % tokens.
func (r *reader) tokens(h *Host, text string, known map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		if i++; i == len(text) {
			break
		}
		v, ok := known[text[i:i+1]]
		switch {
		case text[i] == '%':
			v = "%"
		case !ok:
			r.of(h.written, h.At("identity"), "host %s: %%%s in %q is not known here", cut(h.written), text[i:i+1], cut(text))
		}
		b.WriteString(v)
	}
	if strings.Contains(b.String(), "${") {
		r.of(h.written, h.At("identity"), "host %s: %q: variables of the environment are not looked at", cut(h.written), cut(text))
	}
	return b.String()
}
