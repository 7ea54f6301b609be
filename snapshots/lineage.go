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

// A Rollout is one of a CODEX_HOME's files, as a listing or a manifest has it.
type Rollout struct {
	Path string // from the CODEX_HOME: sessions/… or archived_sessions/…
	Size int64
}

// A LineageError says that a thread's rollouts are not all there, so that codex
// could not resume it.
type LineageError struct {
	Thread string // that was to be resumed
	Of     string // whose rollout it is about: the thread's, or one it was forked from
	Path   string // of that, if there is one
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

// maxFirstLine bounds what is read of a rollout: its first line holds the
// instructions of its model, some 30 KiB.
const maxFirstLine = 4 << 20

// maxForks bounds a chain of forks, which a broken file could close to a ring.
const maxForks = 1000

// Lineage says which of the files a thread needs to be resumed: its own rollout
// first, then that of the thread which it was forked from, and so on. A fork's
// rollout holds only what is its own; without its source's, up to the byte where
// it was forked, codex refuses it (measured on 0.169; those of older versions
// hold everything). open is asked for the files that may be of it.
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

// meta is what the first line of a rollout says of it.
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
	known  map[string]*meta // by path; nil where it has none
}

// find is the rollout of a thread: by its first line, as codex finds it, and
// those first whose name says that they are of it. What is archived comes last.
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

// readMeta is nil where there is no whole first line, or another one than a
// rollout has: such a file is of no thread.
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

// A source remembers how reading failed, so that it can be told from what was
// read being nonsense.
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

// rollout tells codex's rollouts from other files; it packs cold ones.
func rollout(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, "rollout-") && (strings.HasSuffix(base, ".jsonl") || compressed(base))
}

func compressed(name string) bool { return strings.HasSuffix(name, ".jsonl.zst") }

func archived(name string) bool {
	return strings.HasPrefix(name, "archived_sessions/") || strings.Contains(name, "/archived_sessions/")
}
