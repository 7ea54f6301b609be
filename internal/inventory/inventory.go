package inventory

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Format is what a file is written in.
type Format string

// The formats.
const (
	YAML        Format = "yaml"
	AnsibleINI  Format = "ansible-ini"
	AnsibleYAML Format = "ansible-yaml"
	SSHConfig   Format = "ssh-config"
)

// Formats are all that there are.
var Formats = []Format{YAML, AnsibleINI, AnsibleYAML, SSHConfig}

// Bounds of a file.
const (
	MaxFile  = 16 << 20
	MaxHosts = 10_000
)

// A Host is what a file says of one. What it does not say is empty.
type Host struct {
	Name    string // as the inventory of a zone has it
	Address string
	User    string
	Port    int
	// Identity and KnownHosts are paths on the workers, Root is one on the host.
	Identity, KnownHosts, Root string
	HostKeys                   []string
	Labels                     map[string]string
	Slots                      int
	// Jump is the name of the host to go through; it comes before this one, or
	// the file does not have it.
	Jump string

	// KeyName is what known_hosts files call it, where that is not its address;
	// PinFiles are such files on this machine that the file names.
	KeyName  string
	PinFiles []string

	// Place is where it stands, Places where what is said of it does, by the
	// names of our YAML.
	Place  Place
	Places map[string]Place

	written string // its name in the file
	via     string // the jump, as it was written
}

// At is where a thing that is said of a host stands.
func (h *Host) At(what string) Place {
	if p, ok := h.Places[what]; ok {
		return p
	}
	return h.Place
}

func (h *Host) said(what string, at Place) {
	if h.Places == nil {
		h.Places = map[string]Place{}
	}
	h.Places[what] = at
}

// A File is what was read.
type File struct {
	Format Format
	// Hosts are in the order in which they can be added: who is jumped over
	// comes first.
	Hosts []Host
	// Warnings tell what was left out.
	Warnings []Problem
}

// Options say how a file is read.
type Options struct {
	// Name is the file's, for messages; it helps to tell the format.
	Name string
	// Format is what it is written in; empty means that it is found out.
	Format Format
	// Only, if any, are patterns (path.Match) of the names that are wanted. Who
	// is jumped over by one of them is wanted too.
	Only []string
	// Home is the folder that ~ stands for.
	Home string
	// Glob and Read are asked for what an OpenSSH config includes; nil means
	// that nothing may be included.
	Glob func(pattern string) ([]string, error)
	Read func(name string) ([]byte, error)
}

// Parse reads a file. The error is an *Error.
func Parse(data []byte, o Options) (*File, error) {
	r := &reader{o: o, byName: map[string]int{}}
	f := &File{Format: o.Format}
	switch {
	case len(data) > MaxFile:
		r.add(Place{}, "%d bytes are too many: at most %d", len(data), MaxFile)
	case !utf8.Valid(data):
		r.add(Place{}, "it is not text in UTF-8")
	default:
		if f.Format == "" {
			f.Format = Detect(o.Name, data)
		}
		switch f.Format {
		case YAML:
			r.own(data)
		case AnsibleINI:
			r.ini(data)
		case AnsibleYAML:
			r.ansibleYAML(data)
		case SSHConfig:
			r.sshConfig(data)
		default:
			r.add(Place{}, "%q is no format: there are %s", f.Format, list(Formats))
		}
	}
	r.rename()
	r.resolve()
	r.choose()
	if len(r.hosts) == 0 && len(r.problems) == 0 {
		text := "there is no host in it"
		if len(o.Only) > 0 {
			text = "none of its hosts is called " + strings.Join(o.Only, " or ")
		}
		r.add(Place{}, "%s (it was read as %s)", text, f.Format)
	}
	if len(r.problems) > 0 {
		return nil, &Error{Name: o.Name, Format: f.Format, Problems: sorted(r.problems)}
	}
	f.Hosts, f.Warnings = r.hosts, sorted(r.warnings)
	return f, nil
}

// A reader collects what a file says, and what is wrong with it.
type reader struct {
	o        Options
	hosts    []Host
	byName   map[string]int // by the name in the file
	problems []Problem
	warnings []Problem
}

func (r *reader) add(at Place, format string, args ...any) {
	r.problems = append(r.problems, Problem{Place: at, Text: fmt.Sprintf(format, args...)})
}

// of is add for what is wrong with one host only: where it is not wanted, the
// mistake is none.
func (r *reader) of(host string, at Place, format string, args ...any) {
	r.problems = append(r.problems, Problem{Place: at, Text: fmt.Sprintf(format, args...), host: host})
}

func (r *reader) warn(host string, at Place, format string, args ...any) {
	r.warnings = append(r.warnings, Problem{Place: at, Text: fmt.Sprintf(format, args...), host: host})
}

// host finds the host of that name in the file, or makes one.
func (r *reader) host(name string, at Place) *Host {
	i, ok := r.byName[name]
	if !ok {
		i = len(r.hosts)
		r.byName[name] = i
		r.hosts = append(r.hosts, Host{written: name, Place: at})
		if len(r.hosts) == MaxHosts+1 {
			r.add(at, "more than %d hosts", MaxHosts)
		}
	}
	return &r.hosts[i]
}

// full says that there are more hosts than anybody reads.
func (r *reader) full() bool { return len(r.hosts) > MaxHosts }

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// local is this machine as a host.
const local = "local"

// rename gives every host the name that it has in a zone: a host's names are in
// small letters.
func (r *reader) rename() {
	taken := map[string]*Host{}
	for i := range r.hosts {
		h := &r.hosts[i]
		h.Name = strings.ToLower(h.written)
		switch other := taken[h.Name]; {
		case other != nil:
			r.of(h.written, h.Place, "host %s would be called %s, and so would %s of %s: rename one of them", cut(h.written), cut(h.Name), cut(other.written), other.Place.in(r.o.Name))
		case h.Name == local:
			r.of(h.written, h.Place, "host %s: that is the name of the worker's own machine, which needs no import (`ctl host set local` gives labels and slots)", local)
		case !namePattern.MatchString(h.Name):
			r.of(h.written, h.Place, "%q is no name of a host: 1 to 63 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit", cut(h.written))
		}
		taken[h.Name] = h
	}
}

// choose keeps the hosts that are wanted, and the mistakes that concern them.
func (r *reader) choose() {
	for _, p := range r.o.Only {
		if _, err := path.Match(p, ""); err != nil {
			r.add(Place{}, "%q is no pattern of names", p)
			return
		}
	}
	wanted := map[string]bool{}
	var want func(h *Host)
	want = func(h *Host) {
		if wanted[h.written] {
			return
		}
		wanted[h.written] = true
		for i := range r.hosts {
			if h.Jump != "" && r.hosts[i].Name == h.Jump {
				want(&r.hosts[i])
			}
		}
	}
	for i := range r.hosts {
		if h := &r.hosts[i]; r.matches(h.Name) {
			want(h)
		}
	}
	r.hosts = slices.DeleteFunc(r.hosts, func(h Host) bool { return !wanted[h.written] })
	unwanted := func(p Problem) bool { return p.host != "" && !wanted[p.host] && !r.matches(strings.ToLower(p.host)) }
	r.problems = slices.DeleteFunc(r.problems, unwanted)
	r.warnings = slices.DeleteFunc(r.warnings, unwanted)
}

func (r *reader) matches(name string) bool {
	return len(r.o.Only) == 0 || slices.ContainsFunc(r.o.Only, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}

func cut(s string) string {
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

func list[T ~string](words []T) string {
	var out []string
	for _, w := range words {
		out = append(out, string(w))
	}
	return strings.Join(out, ", ")
}
