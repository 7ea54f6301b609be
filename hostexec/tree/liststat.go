package tree

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

// If find cannot print file properties, the script passes sorted names to stat.

// readFlags reads the pruned and unreadable paths that precede the listing.
func (l *treeLister) readFlags() error {
	l.flags = map[string]byte{}
	for {
		rec, err := l.next(0)
		if err != nil {
			return l.end(err)
		}
		if status, ok := bytes.CutPrefix(rec, []byte("//f")); ok {
			l.status = string(status)
			return nil
		}
		i := bytes.Index(rec, []byte("//"))
		if i < 0 || len(rec) != i+3 {
			return fmt.Errorf("%w: record %.200q", script.ErrGarbled, rec)
		}
		if err := l.keep(i); err != nil {
			return err
		}
		l.flags[string(rec[:i])] = rec[i+2]
	}
}

// readLines parses the output of stat. Lines without the mark continue the record before
// them. rec is the first record.
func (l *treeLister) readLines(rec []byte) error {
	rec = append([]byte(nil), rec...)
	for {
		line, err := l.next('\n')
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // the status must come last
		}
		if err != nil {
			return err
		}
		line, begins := bytes.CutPrefix(line, l.mark)
		if !begins && rec == nil {
			return fmt.Errorf("%w: line %.200q", script.ErrGarbled, line)
		}
		if !begins {
			if len(rec)+len(line) > maxTreeRecord {
				return &hostexec.FloodError{What: "a record of a listing", Limit: maxTreeRecord}
			}
			rec = append(append(rec, '\n'), line...)
			continue
		}
		if rec != nil {
			if err := l.tellStat(rec); err != nil {
				return err
			}
		}
		if ended, ok := bytes.CutPrefix(line, []byte("/")); ok {
			l.ended = string(ended)
			break
		}
		rec = append(rec[:0], line...)
	}
	for len(l.held) > 0 {
		if err := l.tellHeld(); err != nil {
			return err
		}
	}
	return nil
}

// tellStat corrects the order. The host sorted plain names, so that a name precedes all
// names that begin with it. In the order of ComparePaths, some of these come first.
func (l *treeLister) tellStat(rec []byte) error {
	if i := bytes.LastIndex(rec, l.mark); i >= 0 {
		rec = rec[i+len(l.mark):] // the record of a vanished file precedes it on the line
	}
	e, err := parseStat(rec)
	if err != nil || e.Kind == 0 {
		return err
	}
	switch l.flags[e.Path] {
	case 'x':
		e.Pruned = true
	case 'r':
		e.Unreadable = true
	}
	if e.Path != "." {
		e.Path = strings.TrimPrefix(e.Path, "./")
	}
	for len(l.held) > 0 && ComparePaths(l.held[len(l.held)-1].Path, e.Path) <= 0 {
		if err := l.tellHeld(); err != nil {
			return err
		}
	}
	l.held = append(l.held, e)
	return l.keep(len(e.Path) + len(e.Link))
}

func (l *treeLister) tellHeld() error {
	e := l.held[len(l.held)-1]
	l.held = l.held[:len(l.held)-1]
	l.heldBytes -= len(e.Path) + len(e.Link) + keptOverhead
	return l.tell(e)
}

// parseStat parses "mode size mtime ctime inode links blocks dev/mtime/ctime/name". Times
// come twice: in seconds and in readable form. A link that vanished has no kind.
func parseStat(rec []byte) (Entry, error) {
	bad := func() (Entry, error) { return Entry{}, fmt.Errorf("%w: record %.200q", script.ErrGarbled, rec) }
	parts := bytes.SplitN(rec, []byte("/"), 4)
	if len(parts) < 3 {
		return bad()
	}
	f := fields{rest: append(bytes.Clone(parts[0]), ' ')}
	mode := f.number(16)
	e := Entry{Mode: uint32(mode & 0o7777), Size: int64(f.number(10))}
	e.MTime, e.CTime = f.time(), f.time()
	e.Inode, e.Links, e.Blocks, e.Dev = f.number(10), f.number(10), int64(f.number(10)), f.number(16)
	e.MTime, e.CTime = withFraction(e.MTime, parts[1]), withFraction(e.CTime, parts[2])
	if f.bad {
		return bad()
	}
	if len(parts) < 4 || len(parts[3]) == 0 {
		return Entry{}, nil
	}
	kind := kindOf(mode)
	if kind != Symlink {
		e.Kind, e.Path = kind, string(parts[3])
		return e, nil
	}
	name, target, ok := cutLink(parts[3], e.Size)
	if !ok {
		return Entry{}, nil
	}
	e.Kind, e.Path, e.Link = kind, name, target
	return e, nil
}

// cutLink splits 'name' -> 'target'. Both may contain anything, so the link's size gives
// the target's length.
func cutLink(text []byte, size int64) (name, target string, ok bool) {
	s := string(text)
	if len(s) < 2 || s[0] != '\'' || s[len(s)-1] != '\'' {
		return "", "", false
	}
	s = s[1 : len(s)-1]
	const arrow = "' -> '"
	i := len(s) - int(min(size, int64(len(s)))) - len(arrow)
	if i < 0 || s[i:i+len(arrow)] != arrow {
		// Some file systems report another size, or the link has changed.
		if i = strings.LastIndex(s, arrow); i < 0 {
			return "", "", false
		}
	}
	return s[:i], s[i+len(arrow):], true
}

func kindOf(mode uint64) Kind {
	switch mode & 0o170000 {
	case 0o100000:
		return RegularFile
	case 0o040000:
		return Folder
	case 0o120000:
		return Symlink
	case 0o010000:
		return FIFO
	case 0o140000:
		return Socket
	case 0o020000:
		return CharDevice
	case 0o060000:
		return BlockDevice
	}
	return UnknownKind
}

// withFraction adds the fraction, if any, of "2026-11-22 00:52:30.225414874 +0000" to t.
func withFraction(t time.Time, text []byte) time.Time {
	_, fraction, _ := bytes.Cut(text, []byte("."))
	digits, _, _ := bytes.Cut(fraction, []byte(" "))
	ns, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || len(digits) != 9 {
		return t
	}
	return time.Unix(t.Unix(), ns)
}
