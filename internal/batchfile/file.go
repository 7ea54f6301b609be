package batchfile

import (
	"bytes"
	"path"
	"strings"
	"text/template"
	"time"
)

// Bounds of a file.
const (
	MaxFile   = 64 << 20
	MaxItems  = 100_000
	MaxWindow = 500
	MaxPrompt = 1_048_576 // characters, codex's own limit
	MaxTries  = 20

	// DefaultWindow is the default of File.Window.
	DefaultWindow = 20
	defaultWait   = 30 * time.Second
	maxWait       = 24 * time.Hour
)

// A File is a valid batch.
type File struct {
	ID        string
	Window    int
	StopAfter int
	Retry     Retry
	Items     []Item
}

// Retry says which failures are retried.
type Retry struct {
	Attempts     int           // including the first
	On           []string      // empty means the caller's default
	Wait         time.Duration // before the second try
	AfterEffects bool
}

// An Item is one session.
type Item struct {
	ID     string
	Prompt string
	Flags  []Flag
	Line   int
	Column int
}

// A Flag has values as on the command line.
type Flag struct {
	Name   string
	Values []string
	Line   int
	Column int
}

// FlagKind says what values a flag takes.
type FlagKind int

// The kinds of flags.
const (
	NoFlag   FlagKind = iota
	OneValue          // a text, a number or a duration
	Truth
	Many // a list, or a single value
)

// Options define what a file may contain.
type Options struct {
	// Name is for messages. Its extension determines the format.
	Name string
	// Flags returns the kind of a session's flag. Names lists all flags.
	Flags func(name string) FlagKind
	Names []string
	// Kinds are the kinds of failures that retry.on may name; nil allows any word.
	Kinds []string
	// Check checks an item whose keys are valid. A mistake is reported at the place of the
	// returned flag, if any.
	Check func(Item) (flag string, err error)
}

// Parse parses a file. The error is an *Error.
func Parse(data []byte, o Options) (*File, error) {
	if err := readable(data); err != nil {
		return nil, &Error{o.Name, []Problem{{Text: err.Error()}}}
	}
	r := reader{o: o, f: &File{Window: DefaultWindow, Retry: Retry{Attempts: 1}}, templates: map[place]*template.Template{}, ids: map[string]place{}, numbers: map[string]int{}}
	if isLines(o.Name, data) {
		r.lines(data)
	} else if root, err := fromYAML(data); err != nil {
		r.take(err)
	} else {
		r.whole(root)
	}
	if len(r.f.Items) == 0 && len(r.problems) == 0 {
		r.add(place{}, "there is no item in it: a batch has items, or a matrix")
	}
	if len(r.problems) > 0 {
		return nil, &Error{o.Name, sorted(r.problems)}
	}
	return r.f, nil
}

// isLines decides by the extension or else by whether the first line is a complete JSON
// object without items.
func isLines(name string, data []byte) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".jsonl", ".ndjson":
		return true
	case ".yaml", ".yml", ".json":
		return false
	}
	first, _, _ := bytes.Cut(bytes.TrimLeft(data, " \t\r\n"), []byte("\n"))
	if !bytes.HasPrefix(first, []byte("{")) {
		return false
	}
	n, err := fromJSONLine(first, 1)
	_, whole := n.get("items")
	return err == nil && !whole
}
