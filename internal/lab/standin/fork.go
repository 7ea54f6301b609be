package standin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A base is where a fork's history begins: in the source's rollout, which the
// fork's own file refers to.
type base struct {
	Thread string `json:"thread_id"`
	Bytes  int64  `json:"end_byte_offset"`
}

// threadFork starts a new thread with a thread's history; its rollout exists at
// once.
func (s *Server) threadFork(m message, p params) {
	t := s.newThread(newID(), p)
	source := s.rollout(p.ThreadID)
	if source == "" {
		s.refuse(m.ID, "no rollout found for thread id "+p.ThreadID)
		return
	}
	fi, err := os.Stat(source)
	if err != nil {
		s.refuse(m.ID, "failed to read rollout: "+err.Error())
		return
	}
	t.mu.Lock()
	t.base = &base{p.ThreadID, fi.Size()}
	if err = t.loadBase(*t.base); err == nil {
		err = t.begin()
	}
	t.mu.Unlock()
	if err != nil {
		s.refuse(m.ID, err.Error())
		return
	}
	s.mu.Lock()
	s.threads[t.id] = t
	s.mu.Unlock()
	s.answer(m.ID, t.opened())
	s.notify("thread/started", object{"thread": t.wire(nil)})
}

// loadBase reads the part of a fork's history that is in its source's rollout.
func (t *thread) loadBase(b base) error {
	path := t.s.rollout(b.Thread)
	if path == "" {
		return fmt.Errorf("invalid paginated history lineage for %s: missing source rollout", b.Thread)
	}
	return t.read(path, b.Bytes)
}

// loadMeta reads the first line of a rollout and, for a fork, its source.
func (t *thread) loadMeta(payload json.RawMessage) error {
	var meta struct {
		Base *base `json:"history_base"`
	}
	if err := json.Unmarshal(payload, &meta); err != nil || meta.Base == nil {
		return err
	}
	return t.loadBase(*meta.Base)
}

// injectItems adds messages to the history without a turn. For an idle thread
// they are recorded before the request is answered.
func (s *Server) injectItems(m message, p params) {
	t := s.find(m, p, "thread not found: ")
	if t == nil {
		return
	}
	t.mu.Lock()
	var err error
	for _, item := range p.Items {
		if err == nil {
			err = t.record("response_item", item)
		}
	}
	t.mu.Unlock()
	if err != nil {
		s.fail(m.ID, -32603, err.Error())
		return
	}
	s.answer(m.ID, object{})
}

// begin opens the rollout and writes its first line if it is new. The caller
// must hold mu.
func (t *thread) begin() error {
	if t.file != nil {
		return nil
	}
	t.name()
	if t.held == nil {
		if err := t.lock(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(t.path), 0o700); err != nil {
		return err
	}
	_, err := os.Stat(t.path)
	fresh := os.IsNotExist(err)
	if t.file, err = os.OpenFile(t.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil || !fresh {
		return err
	}
	meta := object{"id": t.id, "timestamp": time.Now().UTC().Format(time.RFC3339Nano), "cwd": t.set.CWD, "cli_version": Version, "model": t.set.Model}
	if t.base != nil {
		meta["history_base"] = t.base
	}
	return t.record("session_meta", meta)
}
