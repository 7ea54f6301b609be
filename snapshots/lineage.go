package snapshots

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// A Rollout is a file in a CODEX_HOME.
type Rollout struct {
	Path string // sessions/… or archived_sessions/… in CODEX_HOME
	Size int64
}

// A LineageError means that codex could not resume a thread.
type LineageError struct {
	Thread string // to resume
	Of     string // whose rollout is missing: Thread, or one from which it was forked
	Path   string // empty if no file was found
	Why    string
}

func (e *LineageError) Error() string {
	what := "rollout of thread " + e.Of
	if e.Of != e.Thread {
		what += ", from which " + e.Thread + " was forked,"
	}
	if e.Path != "" {
		what += " (" + e.Path + ")"
	}
	return what + " " + e.Why + ": take a snapshot that has all rollouts, or go on in a new session"
}

// maxFirstLine bounds what is read of a rollout, whose first line holds the model's
// instructions, about 30 KiB.
const maxFirstLine = 4 << 20

// maxForks bounds a chain of forks, because broken files could make a cycle.
const maxForks = 1000

// Lineage returns the files that codex needs to resume a thread: its rollout, then that of
// the thread from which it was forked, and so on. A fork's rollout contains only the part
// after the fork, and codex refuses to resume it without the source's rollout up to that
// byte (measured on 0.169; older rollouts contain everything). open is called for files
// that may belong to the thread.
func Lineage(thread string, files []Rollout, open func(path string) (io.ReadCloser, error)) ([]string, error) {
	look := lineage{thread: thread, files: files, open: open, known: map[string]*meta{}}
	var all []string
	for of, end := thread, int64(0); of != ""; {
		if len(all) == maxForks {
			return nil, &LineageError{Thread: thread, Of: of, Why: fmt.Sprintf("is behind more than %d forks", maxForks)}
		}
		file, m, err := look.find(of)
		if err != nil {
			return nil, err
		}
		switch {
		case file == nil:
			return nil, &LineageError{Thread: thread, Of: of, Why: "is missing"}
		case file.Size < end && !compressed(file.Path):
			return nil, &LineageError{Thread: thread, Of: of, Path: file.Path, Why: fmt.Sprintf("has %d bytes, and it was forked at %d", file.Size, end)}
		case of == thread && archived(file.Path):
			return nil, &LineageError{Thread: thread, Of: of, Path: file.Path, Why: "is archived, and codex resumes no archived thread"}
		}
		all = append(all, file.Path)
		of, end = "", 0
		if m.Base != nil {
			of, end = m.Base.Thread, m.Base.Bytes
		}
	}
	return all, nil
}

type meta struct {
	ID   string `json:"id"`
	Base *struct {
		Thread string `json:"thread_id"`
		Bytes  int64  `json:"end_byte_offset"`
	} `json:"history_base"`
}

type lineage struct {
	thread string
	files  []Rollout
	open   func(string) (io.ReadCloser, error)
	known  map[string]*meta // by path; nil if the file is not a rollout
}

// find identifies a rollout by its first line, as codex does. Files with the thread in
// their names come first and, of these and of the others, archived files last.
func (l *lineage) find(thread string) (*Rollout, *meta, error) {
	for pass := range 4 {
		named, old := pass < 2, pass%2 == 1
		for i, f := range l.files {
			if !rollout(f.Path) || strings.Contains(path.Base(f.Path), thread) != named || archived(f.Path) != old {
				continue
			}
			m, err := l.meta(f.Path)
			if err != nil {
				return nil, nil, err
			}
			if m != nil && m.ID == thread {
				return &l.files[i], m, nil
			}
		}
	}
	return nil, nil, nil
}

func (l *lineage) meta(name string) (*meta, error) {
	m, ok := l.known[name]
	if ok {
		return m, nil
	}
	r, err := l.open(name)
	if err != nil {
		return nil, fmt.Errorf("look for the rollouts of thread %s: %w", l.thread, err)
	}
	defer r.Close()
	m, err = readMeta(r, compressed(name))
	if err != nil {
		return nil, fmt.Errorf("look for the rollouts of thread %s: read %s: %w", l.thread, name, err)
	}
	l.known[name] = m
	return m, nil
}

// readMeta returns nil if the file has no complete first line or is not a rollout.
func readMeta(r io.Reader, packed bool) (*meta, error) {
	src := &source{r: r}
	r = src
	if packed {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	}
	line, err := bufio.NewReader(io.LimitReader(r, maxFirstLine)).ReadBytes('\n')
	switch {
	case src.err != nil:
		return nil, src.err
	case err != nil:
		return nil, nil
	}
	var first struct {
		Type    string `json:"type"`
		Payload meta   `json:"payload"`
	}
	if json.Unmarshal(line, &first) != nil || first.Type != "session_meta" || first.Payload.ID == "" {
		return nil, nil
	}
	return &first.Payload, nil
}

// A source remembers its read error, to tell it from invalid content.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// rollout reports whether a file is a rollout. codex compresses old ones.
func rollout(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, "rollout-") && (strings.HasSuffix(base, ".jsonl") || compressed(base))
}

func compressed(name string) bool { return strings.HasSuffix(name, ".jsonl.zst") }

func archived(name string) bool {
	return strings.HasPrefix(name, "archived_sessions/") || strings.Contains(name, "/archived_sessions/")
}
