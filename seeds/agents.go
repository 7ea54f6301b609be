package seeds

import (
	"bytes"
	"slices"
)

const (
	agentsFile   = "AGENTS.md"
	overrideFile = "AGENTS.override.md"
)

// Agents returns the file with the instructions for codex, and its content. codex reads
// AGENTS.override.md in place of AGENTS.md unless it is blank. Without instructions, the
// file is AGENTS.md. The bundle may be nil.
func (b *Bundle) Agents() (name string, text []byte) {
	if b == nil {
		return agentsFile, nil
	}
	for _, name := range []string{overrideFile, agentsFile} {
		if text := b.File(name); len(bytes.TrimSpace(text)) > 0 {
			return name, text
		}
	}
	return agentsFile, nil
}

// withAgents returns the files with text in place of the bundle's instructions.
func withAgents(b *Bundle, files []file, text []byte) []file {
	name, _ := b.Agents()
	files = slices.DeleteFunc(slices.Clone(files), func(f file) bool { return f.path == name })
	return append(files, file{path: name, data: text})
}
