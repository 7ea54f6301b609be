package protocol

import (
	"encoding/json"
	"path"
)

// Layout has a session's absolute paths on its host.
//
// Commands in a sandbox see nothing of Dir but its box. Places that an earlier release made
// have no box.
//
// As JSON, CodexHome and WorkDir have the names that they had before there were boxes, since
// workers of an earlier release take no others. On the host, these names are symbolic links.
type Layout struct {
	Root      string `json:"root"`
	Dir       string `json:"dir"`        // Root/sessions/<id>
	CodexHome string `json:"codex_home"` // Dir/box/codex-home, or Dir/codex-home
	WorkDir   string `json:"work_dir"`   // Dir/box/work, Dir/work, or --dir
	OwnWork   bool   `json:"own_work"`   // Fairlead made WorkDir and may remove it
	Codex     string `json:"codex"`      // the binary
	// CodexSums is the SHA-256 of the list of files of codex's package, which is verified
	// before each start; empty if Fairlead did not bring codex.
	CodexSums string `json:"codex_sums,omitempty"`
	// Boxed says that the place has a box.
	Boxed bool `json:"boxed,omitempty"`
}

const box = "box"

// Box returns the folder that has all that commands may see of the session's folder; empty if
// the place has none.
func (l Layout) Box() string {
	if !l.Boxed {
		return ""
	}
	return path.Join(l.Dir, box)
}

// Seen returns the folder in which the session's files lie that commands may see.
func (l Layout) Seen() string {
	if l.Boxed {
		return l.Box()
	}
	return l.Dir
}

// Tmp returns the folder for temporary files of codex and its commands.
func (l Layout) Tmp() string { return path.Join(l.Seen(), "tmp") }

// MarshalJSON writes the names that earlier releases take.
func (l Layout) MarshalJSON() ([]byte, error) {
	if l.Boxed {
		l.CodexHome, l.WorkDir = renamed(l.CodexHome, l.Box(), l.Dir), renamed(l.WorkDir, l.Box(), l.Dir)
	}
	type plain Layout
	return json.Marshal(plain(l))
}

// UnmarshalJSON reads what MarshalJSON wrote, and what earlier releases wrote.
func (l *Layout) UnmarshalJSON(text []byte) error {
	type plain Layout
	var p plain
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	*l = Layout(p)
	if l.Boxed {
		l.CodexHome, l.WorkDir = renamed(l.CodexHome, l.Dir, l.Box()), renamed(l.WorkDir, l.Dir, l.Box())
	}
	return nil
}

// renamed moves the session's own CODEX_HOME or work folder from one parent to another.
func renamed(p, from, to string) string {
	if name := path.Base(p); p == path.Join(from, name) && (name == "codex-home" || name == "work") {
		return path.Join(to, name)
	}
	return p
}
