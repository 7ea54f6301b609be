package protocol

import (
	"encoding/json"
	"path"
)

// Layout has a session's absolute paths on its host.
//
// What commands of the session may see lies in its room (see [Layout.Seen]). Dir has what
// Fairlead needs to look after the session, and is hidden from the commands of all sessions.
// Folders that an earlier release made have no room: all lies in Dir.
//
// As JSON, CodexHome and WorkDir have the names that they had before there were rooms, since
// workers of an earlier release take no others. On the host, these names are symbolic links.
type Layout struct {
	Root      string `json:"root"`
	Dir       string `json:"dir"`        // Root/sessions/<id>
	CodexHome string `json:"codex_home"` // Seen()/codex-home
	WorkDir   string `json:"work_dir"`   // Seen()/work, or --dir
	OwnWork   bool   `json:"own_work"`   // Fairlead made WorkDir and may remove it
	Codex     string `json:"codex"`      // the binary
	// CodexSums is the SHA-256 of the list of files of codex's package, which is verified
	// before each start; empty if Fairlead did not bring codex.
	CodexSums string `json:"codex_sums,omitempty"`
	// Room is the place of the session's room among the rooms of Root, as in 3/0/7/1; empty
	// if there is none.
	Room string `json:"room,omitempty"`
	// ModelPort is the port on the host's loopback address at which codex finds the model
	// gateway; 0 without one.
	ModelPort int `json:"model_port,omitempty"`
}

// Rooms returns the folder of all rooms.
func (l Layout) Rooms() string { return path.Join(l.Root, "rooms") }

// Seen returns the folder of the session's files that its commands may see: its room, or Dir
// if it has none.
func (l Layout) Seen() string {
	if l.Room == "" {
		return l.Dir
	}
	return path.Join(l.Rooms(), l.Room, "room")
}

// Tmp returns the folder for temporary files of codex and its commands.
func (l Layout) Tmp() string { return path.Join(l.Seen(), "tmp") }

// In returns l with another room, or none.
func (l Layout) In(room string) Layout {
	l.Room = room
	l.CodexHome = path.Join(l.Seen(), "codex-home")
	if l.OwnWork {
		l.WorkDir = path.Join(l.Seen(), "work")
	}
	return l
}

// MarshalJSON writes the names that earlier releases take.
func (l Layout) MarshalJSON() ([]byte, error) {
	if l.Room != "" {
		l.CodexHome, l.WorkDir = renamed(l.CodexHome, l.Seen(), l.Dir), renamed(l.WorkDir, l.Seen(), l.Dir)
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
	if l.Room != "" {
		l.CodexHome, l.WorkDir = renamed(l.CodexHome, l.Dir, l.Seen()), renamed(l.WorkDir, l.Dir, l.Seen())
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
