package inventory

import (
	"context"
	"errors"
	"os/user"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
)

// sshUnset, from sshDefaults, replaces the local user that ssh prints if a config gives no
// user.
const sshUnset = "fairlead.unset"

// sshDefaults are appended below a Match line. The first value of a setting wins, so they
// apply only if the config gives none.
const sshDefaults = "\nUser " + sshUnset + "\nIdentityFile none\nUserKnownHostsFile none\n"

func (r *reader) sshConfig(ctx context.Context, data []byte) error {
	s := &sshReader{r: r}
	s.file(data, "", 0, &block{patterns: []string{"*"}})
	switch {
	case len(s.names) == 0:
		return nil
	case len(s.names) > MaxHosts:
		r.add(s.names[MaxHosts].at, "more than %d hosts", MaxHosts)
		return nil
	}
	all := "\nMatch all"
	if s.final {
		all = "\nMatch final all" // ssh reads such a config twice, and the first value wins
	}
	config, remove, err := temporary(append(slices.Clone(data), all+sshDefaults...))
	if err != nil {
		return err
	}
	defer remove()

	found := make([]map[string][]string, len(s.names))
	failed := make([]*failedError, len(s.names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range s.names {
		if !namePattern.MatchString(strings.ToLower(name.name)) {
			continue // rename reports the name; ssh could take it for an option or a login name
		}
		group.Go(func() error {
			out, _, err := run(ctx, maxSettings, nil, "ssh", "-G", "-T", "-F", config, "--", name.name)
			if errors.As(err, &failed[i]) {
				return nil
			}
			found[i] = settings(out)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	told := map[string]bool{}
	for i, name := range s.names {
		if f := failed[i]; f == nil {
			s.host(name, found[i])
		} else if !told[f.said] && !r.sshMistakes(f.said, config) {
			r.host(name.name, name.at)
			r.of(name.name, name.at, "host %s: ssh cannot read its settings: %s", cut(name.name), strings.NewReplacer(config, r.o.Name, "\n", "; ").Replace(f.said))
		} else {
			told[f.said] = true // a mistake of the file is the same for each host
		}
	}
	return nil
}

func settings(out []byte) map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		k, v, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		all[strings.ToLower(k)] = append(all[strings.ToLower(k)], v)
	}
	return all
}

var sshMistake = regexp.MustCompile(`^(.*?):? line (\d+): (.*)$`)

func (r *reader) sshMistakes(said, config string) (found bool) {
	for line := range strings.Lines(said) {
		m := sshMistake.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		found = true
		at := Place{File: m[1]}
		if at.Line, _ = strconv.Atoi(m[2]); m[1] == config {
			at.File = ""
		}
		r.add(at, "%s", m[3])
	}
	return found
}

// A block is a Host line, or what precedes the first one, with the comments that follow.
type block struct {
	patterns []string // for path.Match; a Match line has none
	within   *block
	comments []comment
}

// A comment is a setting after "# fairlead:".
type comment struct {
	key, value string
	at         Place
}

// An sshReader finds Host lines and our comments in a config and its includes.
type sshReader struct {
	r      *reader
	blocks []*block
	files  int
	names  []key // concrete, in the order of the file
	final  bool  // a Match line has "final"
}

// OpenSSH also allows 16 levels.
const (
	maxIncludes = 16
	maxFiles    = 1000
)

// file reads one file. Its blocks apply only where the block around its Include line
// applies.
func (s *sshReader) file(data []byte, name string, depth int, around *block) {
	if s.files++; s.files > maxFiles {
		s.r.add(Place{File: name}, "more than %d files are included", maxFiles)
		return
	}
	now := s.begin([]string{"*"}, around)
	number := 0
	for raw := range strings.Lines(string(data)) {
		number++
		line := strings.TrimSpace(raw)
		at := Place{File: name, Line: number, Column: utf8.RuneCountInString(raw[:len(raw)-len(strings.TrimLeft(raw, " \t"))]) + 1}
		if ours, ok := strings.CutPrefix(line, "#"); ok {
			if ours, ok = strings.CutPrefix(strings.TrimSpace(ours), "fairlead:"); ok {
				s.comment(now, strings.TrimSpace(ours), at)
			}
			continue
		}
		m := sshWord.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		rest := line[len(m[0]):]
		if strings.EqualFold(m[1], "match") {
			now = s.begin(nil, around)
			criteria := strings.Fields(strings.ToLower(rest))
			switch {
			case strings.EqualFold(rest, "all"):
				now.patterns = []string{"*"}
			case slices.Contains(criteria, "final"):
				s.final = true
			case slices.Contains(criteria, "canonical"):
				s.r.warn("", at, "a User, an IdentityFile and a UserKnownHostsFile behind Match canonical are not seen")
			}
			continue
		}
		words, err := split(rest)
		switch {
		case err != nil:
			s.r.add(at, "%s: %v", m[1], err)
		case strings.EqualFold(m[1], "include"):
			s.include(words, at, depth, now)
			// The lines after Include still belong to the including block.
			now = s.begin(now.patterns, now.within)
		default:
			now = s.begin(nil, around)
			for _, w := range words {
				now.patterns = append(now.patterns, strings.NewReplacer(`[`, `\[`, `\`, `\\`).Replace(w.text))
			}
			s.concrete(now, words, at)
		}
	}
}

func (s *sshReader) begin(patterns []string, within *block) *block {
	b := &block{patterns: patterns, within: within}
	s.blocks = append(s.blocks, b)
	return b
}

func (s *sshReader) comment(now *block, text string, at Place) {
	k, v, _ := strings.Cut(text, " ")
	k, v = strings.ToLower(k), strings.TrimSpace(v)
	switch {
	case !slices.Contains([]string{"slots", "label", "root", "host_key", "known_hosts"}, k) || v == "":
		s.r.add(at, "# fairlead: %s: there are slots, label, root, host_key and known_hosts, each with a value", cut(text))
	case now.patterns == nil:
		s.r.warn("", at, "# fairlead: %s: it was left out: only ssh knows which hosts a Match line is for", cut(text))
	default:
		now.comments = append(now.comments, comment{k, v, at})
	}
}

// applies reports whether a block, and those around it, apply to a host.
func (b *block) applies(name string) bool {
	for ; b != nil; b = b.within {
		yes := false
		for _, p := range b.patterns {
			p, not := strings.CutPrefix(p, "!")
			if ok, _ := path.Match(p, name); ok || p == "*" { // a name with a slash is reported later
				if not {
					return false
				}
				yes = true
			}
		}
		if !yes {
			return false
		}
	}
	return true
}

func (s *sshReader) concrete(b *block, words []word, at Place) {
	for _, w := range words {
		known := func(k key) bool { return k.name == w.text }
		if !strings.ContainsAny(w.text, "*?!") && b.applies(w.text) && len(s.names) <= MaxHosts && !slices.ContainsFunc(s.names, known) {
			s.names = append(s.names, key{w.text, at})
		}
	}
}

func (s *sshReader) include(patterns []word, at Place, depth int, around *block) {
	if depth == maxIncludes {
		s.r.add(at, "files include each other more than %d deep", maxIncludes)
		return
	}
	if around.patterns == nil {
		s.r.warn("", at, "no hosts were looked for in what it includes: only ssh knows when a Match line applies")
		return
	}
	if s.r.o.Glob == nil || s.r.o.Read == nil {
		s.r.add(at, "files that it includes cannot be read here")
		return
	}
	for _, w := range patterns {
		p := sshPath(w.text)
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

// sshPath takes the home folder from the password file, not from HOME, as ssh does.
func sshPath(p string) string {
	me, err := user.Current()
	if err != nil {
		return p
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return filepath.Join(me.HomeDir, rest)
	}
	if !filepath.IsAbs(p) {
		return filepath.Join(me.HomeDir, ".ssh", p)
	}
	return p
}

// host uses the first of our comments of a kind.
func (s *sshReader) host(name key, found map[string][]string) {
	r := s.r
	h := r.host(name.name, name.at)
	h.Labels = map[string]string{}
	ours := map[string]string{}
	for _, b := range s.blocks {
		if len(b.comments) == 0 || !b.applies(name.name) {
			continue
		}
		for _, c := range b.comments {
			switch c.key {
			case "label":
				k, v, ok := strings.Cut(c.value, "=")
				if _, there := h.Labels[k]; !ok {
					r.of(h.written, c.at, "label %q is not key=value", cut(c.value))
				} else if !there {
					r.label(h, h.Labels, k, v, c.at)
				}
				h.said("labels", c.at)
			case "host_key":
				h.HostKeys = append(h.HostKeys, c.value)
				h.said("host_keys", c.at)
			default:
				if _, there := ours[c.key]; !there {
					ours[c.key] = c.value
					h.said(c.key, c.at)
				}
			}
		}
	}
	h.Root, h.KnownHosts = ours["root"], ours["known_hosts"]
	if v, ok := ours["slots"]; ok {
		h.Slots = r.number(h, "slots", node{kind: scalar, text: v, at: h.At("slots")}, 10_000)
	}
	s.settle(h, found)
}

func (s *sshReader) settle(h *Host, found map[string][]string) {
	r := s.r
	text := func(key string) string { return append(found[key], "")[0] }
	h.Address = text("hostname")
	if h.User = text("user"); h.User == sshUnset {
		h.User = ""
	}
	// ssh prints 22 if the config gives no port.
	if port := text("port"); port != "" && port != "22" {
		h.Port = r.number(h, "port", node{kind: scalar, text: port, at: h.Place}, 65535)
	}
	identities := slices.DeleteFunc(found["identityfile"], func(v string) bool { return strings.EqualFold(v, "none") })
	if len(identities) > 0 {
		known := map[string]string{"d": r.o.Home, "h": h.Address, "n": h.written, "p": strconv.Itoa(orSSH(h.Port))}
		if h.User != "" {
			known["r"] = h.User
		}
		h.Identity = r.home(r.tokens(h, identities[0], known))
	}
	if len(identities) > 1 {
		r.warn(h.written, h.Place, "host %s: a further IdentityFile was left out: the first is taken", cut(h.written))
	}
	h.KeyName = text("hostkeyalias")
	h.via = text("proxyjump")
	r.proxyCommand(h, text("proxycommand"))
	r.pinFiles(h, strings.Fields(text("userknownhostsfile")))
}

var unknownToken = regexp.MustCompile(`^(?:[^%]|%%)*(%[^%])`)

func (r *reader) tokens(h *Host, text string, known map[string]string) string {
	pairs := []string{"%%", "%%"}
	for k, v := range known {
		pairs = append(pairs, "%"+k, strings.ReplaceAll(v, "%", "%%"))
	}
	out := strings.NewReplacer(pairs...).Replace(text)
	if m := unknownToken.FindStringSubmatch(out); m != nil {
		r.of(h.written, h.Place, "host %s: %s in %q is not supported here", cut(h.written), m[1], cut(text))
	}
	if strings.Contains(out, "${") {
		r.of(h.written, h.Place, "host %s: %q: environment variables are not expanded", cut(h.written), cut(text))
	}
	return strings.ReplaceAll(out, "%%", "%")
}
