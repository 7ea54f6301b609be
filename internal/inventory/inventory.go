package inventory

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Format is a file format.
type Format string

// The formats.
const (
	YAML        Format = "yaml"
	AnsibleINI  Format = "ansible-ini"
	AnsibleYAML Format = "ansible-yaml"
	AnsibleJSON Format = "ansible-json" // as ansible-inventory --list prints it
	SSHConfig   Format = "ssh-config"
)

// Formats are all formats.
var Formats = []Format{YAML, AnsibleINI, AnsibleYAML, AnsibleJSON, SSHConfig}

// Bounds of a file.
const (
	MaxFile  = 16 << 20
	MaxList  = 64 << 20 // output of ansible-inventory --list
	MaxHosts = 10_000
)

// A Host is a host of a file. A field is empty if the file does not give it.
type Host struct {
	Name    string // in the inventory of a zone
	Address string
	User    string
	Port    int
	// Identity and KnownHosts are paths on the workers, Root on the host.
	Identity, KnownHosts, Root string
	HostKeys                   []string
	Labels                     map[string]string
	Slots                      int
	// Jump is the name of the jump host. If the file has that host, it comes before this
	// one.
	Jump string

	// KeyName is the host's name in known_hosts files, if not the address. PinFiles are
	// known_hosts files on this machine that the file names.
	KeyName  string
	PinFiles []string

	// Places are those of the host's settings, by their names in our YAML.
	Place  Place
	Places map[string]Place

	written string // name in the file
	via     string // jump as written
}

// At returns the place of a host's setting, or else of the host.
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

// A File is the result of reading a file.
type File struct {
	Format Format
	// Hosts can be added in this order: jump hosts come first.
	Hosts []Host
	// Warnings say what was skipped.
	Warnings []Problem
}

// Options control how a file is read.
type Options struct {
	// Name is for messages and to detect the format.
	Name string
	// Path lets ansible-inventory read files beside the file, such as group_vars. Without
	// Path it reads a copy.
	Path string
	// Format is detected if empty.
	Format Format
	// Only are patterns (path.Match) of the names of wanted hosts, whose jump hosts are
	// wanted too. Empty means all.
	Only []string
	// Home replaces ~.
	Home string
	// Glob and Read access files that an OpenSSH config includes. If one of them is nil,
	// nothing can be included.
	Glob func(pattern string) ([]string, error)
	Read func(name string) ([]byte, error)
}

// Parse reads a file. It runs ansible-inventory for Ansible's formats, and ssh for
// OpenSSH's. The error is an *Error, a *MissingError, or one that says why a program could
// not be run.
func Parse(ctx context.Context, data []byte, o Options) (*File, error) {
	r := &reader{o: o, byName: map[string]int{}}
	f := &File{Format: o.Format}
	if f.Format == "" {
		f.Format = Detect(o.Name, data)
	}
	most := MaxFile
	if f.Format == AnsibleJSON {
		most = MaxList
	}
	var err error
	switch {
	case len(data) > most:
		r.add(Place{}, "%d bytes are too many: at most %d", len(data), most)
	case !utf8.Valid(data):
		r.add(Place{}, "it is not text in UTF-8")
	default:
		switch f.Format {
		case YAML:
			r.own(data)
		case AnsibleINI, AnsibleYAML:
			err = r.ansible(ctx, data)
		case AnsibleJSON:
			r.list(data)
		case SSHConfig:
			err = r.sshConfig(ctx, data)
		default:
			r.add(Place{}, "%q is not a format: there are %s", f.Format, list(Formats))
		}
	}
	if err != nil {
		return nil, err
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

// of adds a mistake of one host, which is dropped if that host is not wanted.
func (r *reader) of(host string, at Place, format string, args ...any) {
	r.problems = append(r.problems, Problem{Place: at, Text: fmt.Sprintf(format, args...), host: host})
}

func (r *reader) warn(host string, at Place, format string, args ...any) {
	r.warnings = append(r.warnings, Problem{Place: at, Text: fmt.Sprintf(format, args...), host: host})
}

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

func (r *reader) full() bool { return len(r.hosts) > MaxHosts }

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

const local = "local"

// rename gives every host its name in the zone, in lower case.
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
			r.of(h.written, h.Place, "%q is not a name of a host: 1 to 63 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit", cut(h.written))
		}
		taken[h.Name] = h
	}
}

func (r *reader) choose() {
	for _, p := range r.o.Only {
		if _, err := path.Match(p, ""); err != nil {
			r.add(Place{}, "%q is not a pattern of names", p)
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
