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

	// DefaultWindow is how many sessions run at a time where nothing is said.
	DefaultWindow = 20
	defaultWait   = 30 * time.Second
	maxWait       = 24 * time.Hour
)

// A File is a batch that can begin.
type File struct {
	ID        string
	Window    int
	StopAfter int
	Retry     Retry
	Items     []Item
}

// Retry says what is tried again.
type Retry struct {
	Attempts     int           // tries of an item, the first among them
	On           []string      // kinds of failures; empty: whoever runs the batch knows
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

// A Flag is one of a session's, with its values as the command line would have
// them, and where it stands.
type Flag struct {
	Name   string
	Values []string
	Line   int
	Column int
}

// FlagKind says what a flag takes.
type FlagKind int

// The kinds of flags.
const (
	NoFlag   FlagKind = iota // there is none of that name
	OneValue                 // a text, a number, a time
	Truth                    // true or false
	Many                     // a list, or one value of it
)

// Options say what a file may hold.
type Options struct {
	// Name is the file's, for messages; its ending tells the format.
	Name string
	// Flags tells of what kind a session's flag is. Names lists them all.
	Flags func(name string) FlagKind
	Names []string
	// Kinds are the kinds of failures that retry.on may name; nil: any word.
	Kinds []string
	// Check looks at an item whose keys are right. The flag that it names (if
	// any) is where the mistake stands.
	Check func(Item) (flag string, err error)
}

// Parse reads a file. The error is an *Error.
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

// isLines says that a file is JSON lines: by its name, or because its first line
// is a JSON object of its own and more follow.
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
