package console

import (
	"strings"

	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
)

// A fileDiff is the change of one file as a page shows it.
type fileDiff struct {
	Path, Kind   string
	Added, Taken int
	Lines        []diffLine
	More         int // lines that are not shown
	Open         bool
}

// A diffLine is one line. Class is add, del, hunk or same; Sign says the same in the text.
type diffLine struct{ Class, Sign, Text string }

// A diffView is a list of files.
type diffView struct {
	Files        []fileDiff
	Added, Taken int
	More         int // lines that are not shown, of all files
}

const (
	maxDiffLines = 20_000 // of all files on a page
	maxOpenFiles = 20     // with more, the others open on a click
	maxLineChars = 2000
)

// diffOf reads changes. Of a new file codex shows the content, and of others a unified diff. If
// it has more lines than a page shows, the view says how many: nobody should accept those
// unread.
func diffOf(changes []protocol.Change) diffView {
	v := diffView{}
	room := maxDiffLines
	for i, c := range changes {
		f := fileDiff{Path: c.Path, Kind: c.Kind, Open: i < maxOpenFiles}
		plain := c.Kind == "add" || c.Kind == "delete" // then it is the content, whatever that looks like
		for text := range strings.Lines(c.Diff) {
			l := lineOf(strings.TrimSuffix(text, "\n"), c.Kind, plain)
			switch l.Class {
			case "add":
				f.Added++
			case "del":
				f.Taken++
			}
			if room == 0 {
				f.More++
				continue
			}
			room--
			if len(text) > maxLineChars+2 {
				f.More++ // its end is not shown
			}
			f.Lines = append(f.Lines, l)
		}
		v.Added, v.Taken, v.More = v.Added+f.Added, v.Taken+f.Taken, v.More+f.More
		v.Files = append(v.Files, f)
	}
	return v
}

func lineOf(text, kind string, plain bool) diffLine {
	l := diffLine{Class: "same", Sign: " "}
	switch {
	case plain && kind == "add":
		l.Class, l.Sign = "add", "+"
	case plain && kind == "delete":
		l.Class, l.Sign = "del", "-"
	case strings.HasPrefix(text, "@@"):
		l.Class, l.Sign = "hunk", ""
	case strings.HasPrefix(text, "+"):
		l.Class, l.Sign, text = "add", "+", text[1:]
	case strings.HasPrefix(text, "-"):
		l.Class, l.Sign, text = "del", "-", text[1:]
	case strings.HasPrefix(text, " "):
		text = text[1:]
	}
	if len(text) > maxLineChars {
		text = clip(maxLineChars, text)
	}
	l.Text = escape.Text(text)
	return l
}
