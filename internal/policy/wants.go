package policy

import (
	"bytes"
	"encoding/json"
)

type wants struct {
	read, write []string
	network     bool
	other       bool // anything else
}

func (w wants) nothing() bool {
	return len(w.read)+len(w.write) == 0 && !w.network && !w.other
}

// wantsOf reads codex's format. A part that is not fully understood sets other, so that a
// newer codex gets no more than a rule can see.
func wantsOf(raw json.RawMessage) wants {
	var w wants
	if len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return w
	}
	var p struct {
		Network *struct {
			Enabled *bool `json:"enabled"`
		} `json:"network"`
		FileSystem *struct {
			Entries          []wantsEntry `json:"entries"`
			GlobScanMaxDepth *int         `json:"globScanMaxDepth"`
			Read             []string     `json:"read"`
			Write            []string     `json:"write"`
		} `json:"fileSystem"`
	}
	if !strictly(raw, &p) {
		return wants{other: true}
	}
	if p.Network != nil && p.Network.Enabled != nil {
		w.network = *p.Network.Enabled
	}
	if p.FileSystem == nil {
		return w
	}
	w.other = p.FileSystem.GlobScanMaxDepth != nil
	w.read, w.write = p.FileSystem.Read, p.FileSystem.Write
	for _, e := range p.FileSystem.Entries {
		var at struct {
			Type string `json:"type"`
			Path string `json:"path"`
		}
		switch ok := strictly(e.Path, &at) && at.Type == "path"; {
		case ok && e.Access == "read":
			w.read = append(w.read, at.Path)
		case ok && e.Access == "write":
			w.write = append(w.write, at.Path)
		default:
			w.other = true
		}
	}
	return w
}

type wantsEntry struct {
	Access string          `json:"access"`
	Path   json.RawMessage `json:"path"`
}

func strictly(raw json.RawMessage, v any) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v) == nil && !d.More()
}
