package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"fairlead.dev/fairlead/internal/shellwords"
)

// Kinds of requests.
const (
	Command     = "command"
	FileChange  = "file_change"
	Permissions = "permissions"
	UserInput   = "user_input"
	Elicitation = "elicitation"
)

var kinds = []string{Command, FileChange, Permissions, UserInput, Elicitation}

// A Request holds the facts of one approval, as in the JSON of `ctl policy test`. The
// caller must set all fields about effects of an accept: rules cannot see what is left out.
type Request struct {
	Kind string `json:"kind"`
	// Action says what codex wants to do with a command other than run it: writeStdin,
	// humanCommand.
	Action  string `json:"action,omitempty"`
	Command string `json:"command,omitempty"` // as codex shows it, with its shell
	CWD     string `json:"cwd,omitempty"`     // the model may have chosen it
	// Work is the work folder, which the model cannot choose.
	Work        string   `json:"work,omitempty"`
	Paths       []string `json:"paths,omitempty"` // not in Changes
	Changes     []Change `json:"changes,omitempty"`
	GrantRoot   string   `json:"grant_root,omitempty"` // a file change asks for everything below it, for the session
	NetworkHost string   `json:"network_host,omitempty"`
	// Permissions are in codex's format.
	Permissions json.RawMessage `json:"permissions,omitempty"`
	Digest      string          `json:"digest,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Session     string          `json:"session,omitempty"`
	Turn        int             `json:"turn,omitempty"`
	Host        Host            `json:"host,omitzero"`
	Model       string          `json:"model,omitempty"`
	Requester   string          `json:"requester,omitempty"` // sender of the turn's message
	Counts      Counts          `json:"counts,omitzero"`
	Server      string          `json:"server,omitempty"`
	Tool        string          `json:"tool,omitempty"` // of Server, or one of ours
	// Arguments is JSON with sorted keys and no spaces.
	Arguments string `json:"arguments,omitempty"`

	// where, if set, says where a path leads on the host.
	where func(path string, changed bool) string
}

// A Change is one file of a file change.
type Change struct {
	Path    string `json:"path" cel:"path"`
	Kind    string `json:"kind" cel:"kind"` // add, update, delete
	MovedTo string `json:"moved_to,omitempty" cel:"moved_to"`
}

// Host is where the session runs.
type Host struct {
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Counts are of the session's requests before this one.
type Counts struct {
	InTurn    int `json:"in_turn,omitempty"`
	InMinute  int `json:"in_minute,omitempty"` // in the 60 seconds before
	InSession int `json:"in_session,omitempty"`
	Accepted  int `json:"accepted,omitempty"`
	Declined  int `json:"declined,omitempty"`
}

const (
	maxText   = 1 << 20   // bytes of all texts
	maxOne    = 256 << 10 // of one text; Linux cannot run a longer command
	maxItems  = 5000      // paths and changes
	maxLabels = 100
)

// ReadRequest reads JSON. It refuses unknown fields: a misspelled one would test rules on
// another request.
func ReadRequest(data []byte) (Request, error) {
	var r Request
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Request{}, fmt.Errorf("read the request: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Request{}, errors.New("read the request: something follows it")
	}
	if err := r.check(); err != nil {
		return Request{}, fmt.Errorf("read the request: %w", err)
	}
	return r, nil
}

// check refuses what rules cannot judge.
func (r Request) check() error {
	if !slices.Contains(kinds, r.Kind) {
		return fmt.Errorf("%.40q is not a kind of request (%s)", r.Kind, strings.Join(kinds, ", "))
	}
	texts := append([]string{r.Action, r.Command, r.CWD, r.Work, r.GrantRoot, r.NetworkHost, string(r.Permissions),
		r.Digest, r.Reason, r.Session, r.Host.Name, r.Model, r.Requester, r.Server, r.Tool, r.Arguments}, r.Paths...)
	for _, c := range r.Changes {
		texts = append(texts, c.Path, c.Kind, c.MovedTo)
	}
	for k, v := range r.Host.Labels {
		texts = append(texts, k, v)
	}
	size, longest, valid := 0, 0, true
	for _, t := range texts {
		size += len(t)
		longest = max(longest, len(t))
		valid = valid && utf8.ValidString(t)
	}
	switch {
	case size > maxText || longest > maxOne || len(r.Paths)+len(r.Changes) > maxItems || len(r.Host.Labels) > maxLabels:
		return fmt.Errorf("it is too big to judge: %d bytes, %d paths, %d labels", size, len(r.Paths)+len(r.Changes), len(r.Host.Labels))
	case r.Work != "" && !path.IsAbs(r.Work):
		return errors.New("its work folder is not an absolute path")
	case !valid:
		return errors.New("it is not text in UTF-8")
	case min(r.Turn, r.Counts.InTurn, r.Counts.InMinute, r.Counts.InSession, r.Counts.Accepted, r.Counts.Declined) < 0:
		return errors.New("a count is below zero")
	}
	return nil
}

// facts are what rules see.
type facts struct {
	Request
	words  []string
	plain  bool
	wants  wants
	beside []string // not in the changes
	up     bool     // a path contains ..
	named  []string // all paths, cwd and work, absolute, with their ..
	looked bool     // a rule looked at a path, at cwd or at work
}

func factsOf(r Request) facts {
	f := facts{Request: r, wants: wantsOf(r.Permissions)}
	if f.NetworkHost = domain(r.NetworkHost); f.NetworkHost == "" {
		f.NetworkHost = r.NetworkHost // "." is not an empty host
	}
	// A request has words only if it asks for nothing but a command. A rule must look at
	// anything else.
	if r.Kind == Command && r.Action == "" && r.NetworkHost == "" && f.wants.nothing() {
		f.words, f.plain = shellwords.Split(r.Command)
	}
	if cwd, work := f.place(r.CWD, false), f.place(r.Work, false); r.where != nil {
		f.CWD, f.Work = cwd, work
	}
	abs := func(p string, changed bool) string {
		f.up = f.up || goesUp(p) || !path.IsAbs(p) && goesUp(r.CWD)
		return f.place(absolute(p, r.CWD, r.Work), changed)
	}
	each := func(ps []string, changed bool) (all []string) {
		for _, p := range ps {
			all = append(all, abs(p, changed))
		}
		return all
	}
	f.wants.read, f.wants.write = each(f.wants.read, false), each(f.wants.write, false)
	f.Changes = slices.Clone(r.Changes)
	changed := map[string]bool{}
	all := slices.Concat(f.wants.read, f.wants.write)
	if r.GrantRoot != "" {
		f.GrantRoot = abs(r.GrantRoot, false)
		all = append(all, f.GrantRoot)
	}
	for i, c := range f.Changes {
		f.Changes[i].Path = abs(c.Path, true)
		ends := []string{f.Changes[i].Path}
		if c.MovedTo != "" {
			f.Changes[i].MovedTo = abs(c.MovedTo, true)
			ends = append(ends, f.Changes[i].MovedTo)
		}
		for _, p := range ends {
			changed[p] = true
		}
		all = append(all, ends...)
	}
	for _, p := range each(r.Paths, true) {
		if !changed[p] {
			f.beside = append(f.beside, p)
		}
		all = append(all, p)
	}
	slices.Sort(all)
	f.Paths = slices.Compact(all)
	return f
}

// place notes p, which is absolute or cannot be made so, and returns where it leads, or its
// clean name. changed says that the request may remove or rename p itself.
func (f *facts) place(p string, changed bool) string {
	if path.IsAbs(p) {
		f.named = append(f.named, p)
		if f.where != nil {
			return f.where(p, changed)
		}
		return path.Clean(p)
	}
	return p
}

// absolute returns p as an absolute path, or p itself, which is under no folder.
func absolute(p, cwd, work string) string {
	if p == "" || path.IsAbs(p) {
		return p
	}
	for _, base := range []string{cwd, work} {
		if path.IsAbs(base) {
			return base + "/" + p
		}
	}
	return p
}

func cleaned(p string) string {
	if p == "" {
		return ""
	}
	return path.Clean(p)
}

// under reports whether p is folder or lies below it, by name alone.
func under(p, folder string) bool {
	if !path.IsAbs(p) || !path.IsAbs(folder) {
		return false
	}
	p, folder = path.Clean(p), strings.TrimSuffix(path.Clean(folder), "/")
	return p == folder || strings.HasPrefix(p, folder+"/")
}

func domain(host string) string {
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

func within(host, of string) bool {
	host, of = domain(host), domain(of)
	return of != "" && (host == of || strings.HasSuffix(host, "."+of))
}
