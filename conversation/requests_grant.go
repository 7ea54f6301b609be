package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

type permissions struct {
	Network *struct {
		Enabled *bool `json:"enabled,omitempty"`
	} `json:"network,omitempty"`
	FileSystem *fileAccess `json:"fileSystem,omitempty"`
}

// fileAccess names paths in Read and Write, and in Entries. codex intends to keep only
// Entries.
type fileAccess struct {
	Read    []string      `json:"read,omitempty"`
	Write   []string      `json:"write,omitempty"`
	Entries []accessEntry `json:"entries,omitempty"`
	// ScanDepth bounds the search for patterns.
	ScanDepth *uint64 `json:"globScanMaxDepth,omitempty"`
}

type accessEntry struct {
	Access string     `json:"access"` // read, write, deny; none in place of deny before 0.140
	Path   accessPath `json:"path"`
}

// An accessPath is a path, a pattern, or a special place of codex's.
type accessPath struct {
	Type    string          `json:"type"` // path, glob_pattern, special
	Path    string          `json:"path,omitempty"`
	Pattern string          `json:"pattern,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
}

// readPermissions refuses unknown members: nobody can say what they allow.
func readPermissions(raw json.RawMessage) (permissions, error) {
	var p permissions
	if len(bytes.TrimSpace(raw)) == 0 {
		return p, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("there is more after the permissions")
	}
	return p, nil
}

func (p permissions) network() bool {
	return p.Network != nil && p.Network.Enabled != nil && *p.Network.Enabled
}

func (p permissions) files() fileAccess {
	if p.FileSystem == nil {
		return fileAccess{}
	}
	return *p.FileSystem
}

func (p permissions) none() bool {
	f := p.files()
	return !p.network() && len(f.Read)+len(f.Write) == 0 && !slices.ContainsFunc(f.Entries, func(e accessEntry) bool { return !e.denies() })
}

func (e accessEntry) denies() bool { return e.Access == "deny" || e.Access == "none" }

// A GrantError says why permissions cannot be given.
type GrantError struct{ Why string }

func (e *GrantError) Error() string { return "the grant " + e.Why }

// Within returns a *GrantError if grant is not a part of what codex asked for. Paths below
// a requested one are a part, and reading is a part of writing; patterns and special places
// must be identical. Denials must stay. An empty grant is an error, because it would be a
// decline.
func Within(grant, asked json.RawMessage) error {
	no := func(format string, args ...any) error { return &GrantError{fmt.Sprintf(format, args...)} }
	a, err := readPermissions(asked)
	if err != nil {
		return no("cannot be compared with what codex asks for: %v", err)
	}
	g, err := readPermissions(grant)
	if err != nil {
		return no("is not in codex's shape: %v", err)
	}
	if g.none() {
		return no("gives nothing (decline instead)")
	}
	if g.network() && !a.network() {
		return no("gives the network, which codex does not ask for")
	}
	return g.files().within(a.files())
}

func (f fileAccess) within(a fileAccess) error {
	no := func(format string, args ...any) error { return &GrantError{fmt.Sprintf(format, args...)} }
	for _, p := range f.Read {
		if !a.covers("read", p) {
			return no("lets %s be read, which codex does not ask for", short(p))
		}
	}
	for _, p := range f.Write {
		if !a.covers("write", p) {
			return no("lets %s be written, which codex does not ask for", short(p))
		}
	}
	for _, e := range f.Entries {
		switch {
		case e.Access != "read" && e.Access != "write" && !e.denies():
			return no("has an entry with the access %q", short(e.Access))
		case !a.has(e):
			return no("has an entry that codex does not ask for: %s", e.words())
		}
	}
	if len(f.Read)+len(f.Write)+len(f.Entries) == 0 {
		return nil
	}
	for _, e := range a.Entries {
		if e.denies() && !slices.ContainsFunc(f.Entries, e.same) {
			return no("leaves out what is to stay denied: %s", e.words())
		}
	}
	if a.ScanDepth != nil && (f.ScanDepth == nil || *f.ScanDepth != *a.ScanDepth) || a.ScanDepth == nil && f.ScanDepth != nil {
		return no("has another globScanMaxDepth than codex asks for")
	}
	return nil
}

func (f fileAccess) has(e accessEntry) bool {
	if e.denies() {
		return slices.ContainsFunc(f.Entries, e.same)
	}
	if e.Path.Type == "path" {
		return f.covers(e.Access, e.Path.Path)
	}
	return slices.ContainsFunc(f.Entries, func(a accessEntry) bool {
		return enough(a.Access, e.Access) && a.Path.same(e.Path)
	})
}

func (f fileAccess) covers(access, p string) bool {
	above := func(all []string) bool {
		return slices.ContainsFunc(all, func(a string) bool { return below(p, a) })
	}
	if above(f.Write) || access == "read" && above(f.Read) {
		return true
	}
	return slices.ContainsFunc(f.Entries, func(a accessEntry) bool {
		return a.Path.Type == "path" && enough(a.Access, access) && below(p, a.Path.Path)
	})
}

func enough(asked, given string) bool { return asked == "write" || asked == "read" && given == "read" }

// below reports whether p is dir or lies in it, by name only.
func below(p, dir string) bool {
	if !path.IsAbs(p) || !path.IsAbs(dir) || path.Clean(p) != strings.TrimRight(p, "/") && p != "/" {
		return false
	}
	dir = strings.TrimRight(path.Clean(dir), "/")
	return path.Clean(p) == dir || dir == "" || strings.HasPrefix(p, dir+"/")
}

func (e accessEntry) same(o accessEntry) bool {
	return (e.Access == o.Access || e.denies() && o.denies()) && e.Path.same(o.Path)
}

func (p accessPath) same(o accessPath) bool {
	return p.Type == o.Type && p.Path == o.Path && p.Pattern == o.Pattern && sameJSON(p.Value, o.Value)
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && bytes.Equal(canonical(x), canonical(y))
}

// PermissionWords describes permissions in words, or returns unreadable ones as they are.
func PermissionWords(raw json.RawMessage) []string {
	p, err := readPermissions(raw)
	if err != nil {
		return []string{string(raw)}
	}
	var words []string
	if p.network() {
		words = append(words, "use the network")
	}
	f := p.files()
	for _, name := range f.Read {
		words = append(words, "read "+name)
	}
	for _, name := range f.Write {
		words = append(words, "write "+name)
	}
	for _, e := range f.Entries {
		if !slices.Contains(words, e.words()) {
			words = append(words, e.words())
		}
	}
	return words
}

func (e accessEntry) words() string {
	access := e.Access
	if e.denies() {
		access = "not touch"
	}
	switch e.Path.Type {
	case "path":
		return access + " " + e.Path.Path
	case "glob_pattern":
		return access + " " + e.Path.Pattern
	}
	var v struct{ Kind, Path, Subpath string }
	if json.Unmarshal(e.Path.Value, &v) != nil || v.Kind == "" {
		return access + " " + string(e.Path.Value)
	}
	return strings.Join(strings.Fields(access+" "+v.Kind+" "+v.Path+" "+v.Subpath), " ")
}

// A Part is the part that a person grants.
type Part struct {
	Network     bool
	Read, Write []string
}

// Of returns the part in codex's shape, with the request's denials, or the error of Within.
func (p Part) Of(asked json.RawMessage) (json.RawMessage, error) {
	a, err := readPermissions(asked)
	if err != nil {
		return nil, &GrantError{fmt.Sprintf("cannot be compared with what codex asks for: %v", err)}
	}
	var g permissions
	if p.Network {
		yes := true
		g.Network = &struct {
			Enabled *bool `json:"enabled,omitempty"`
		}{&yes}
	}
	if len(p.Read)+len(p.Write) > 0 {
		g.FileSystem = &fileAccess{ScanDepth: a.files().ScanDepth}
		for _, e := range a.files().Entries {
			if e.denies() {
				g.FileSystem.Entries = append(g.FileSystem.Entries, e)
			}
		}
		for _, name := range p.Read {
			g.FileSystem.Read = append(g.FileSystem.Read, path.Clean(name))
		}
		for _, name := range p.Write {
			g.FileSystem.Write = append(g.FileSystem.Write, path.Clean(name))
		}
	}
	grant := json.RawMessage(canonical(g))
	return grant, Within(grant, asked)
}
