package standin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

type thread struct {
	s       *Server
	id      string
	set     params
	created int64

	mu      sync.Mutex
	path    string   // guarded by mu, like all below; the rollout's path
	file    *os.File // the rollout, from the first turn on
	held    *os.File // the writer's lock
	turns   []*past
	running *turn
	base    *base // of a fork
}

type past struct {
	ID       string   `json:"id"`
	Status   string   `json:"status"`
	Messages []said   `json:"messages"`
	Items    []object `json:"items,omitempty"`
	Started  int64    `json:"started"`
	Ended    int64    `json:"ended,omitempty"`
}

type said struct {
	Item     string `json:"item"`
	ClientID string `json:"client_id"`
	Text     string `json:"text"`
}

// A record is one line of a rollout. A turn's lines are its start, its
// messages, its items and its end.
type record struct {
	Timestamp string `json:"timestamp"`
	Type      string `json:"type"` // session_meta, turn_started, user_message, item, response_item, turn_ended
	Payload   any    `json:"payload"`
}

func (s *Server) newThread(id string, p params) *thread {
	if p.Model == "" {
		p.Model = "stand-in"
	}
	return &thread{s: s, id: id, set: p, created: time.Now().Unix()}
}

func (t *thread) wire(turns []any) object {
	if turns == nil {
		turns = []any{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	status := any(idle)
	if t.running != nil {
		status = active(t.running.flags()...)
	}
	t.name()
	return object{
		"id": t.id, "sessionId": t.id, "environments": []any{}, "preview": "", "ephemeral": false, "historyMode": "paginated",
		"modelProvider": "stand-in", "model": t.set.Model, "createdAt": t.created, "updatedAt": t.created, "recencyAt": t.created,
		"status": status, "path": t.path, "cwd": t.set.CWD, "cliVersion": Version, "originator": t.s.client.Name, "source": "vscode",
		"canAcceptDirectInput": true, "projectId": nil, "turns": turns,
	}
}

// opened returns the answer to thread/start and thread/resume.
func (t *thread) opened() object {
	kind := map[string]string{"read-only": "readOnly", "danger-full-access": "dangerFullAccess"}[t.set.Sandbox]
	if kind == "" {
		kind = "workspaceWrite"
	}
	sandbox := object{"type": kind}
	switch kind {
	case "readOnly":
		sandbox["networkAccess"] = false
	case "workspaceWrite":
		sandbox["networkAccess"], sandbox["writableRoots"] = false, []any{}
		sandbox["excludeTmpdirEnvVar"], sandbox["excludeSlashTmp"] = false, false
	}
	return object{
		"thread": t.wire(nil), "model": t.set.Model, "modelProvider": "stand-in", "cwd": t.set.CWD, "disabledPluginIds": []any{},
		"runtimeWorkspaceRoots": []string{t.set.CWD}, "instructionSources": []any{}, "approvalPolicy": t.set.ApprovalPolicy,
		"approvalsReviewer": "user", "sandbox": sandbox, "multiAgentMode": "explicitRequestOnly",
	}
}

// name sets the rollout's path. The caller must hold mu.
func (t *thread) name() {
	if t.path == "" {
		now := time.Now()
		t.path = filepath.Join(t.s.home, "sessions", now.Format("2006/01/02"), "rollout-"+now.Format("2006-01-02T15-04-05")+"-"+t.id+".jsonl")
	}
}

// lock makes this process the only writer of the thread.
func (t *thread) lock() error {
	dir := filepath.Join(t.s.home, "thread-writer-locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, t.id+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return fmt.Errorf("thread %s already has an active writer", t.id)
	}
	t.held = f
	return nil
}

// record appends to the rollout, which is created by the first turn. The caller
// must hold mu.
func (t *thread) record(kind string, payload any) error {
	if err := t.begin(); err != nil {
		return err
	}
	line, err := json.Marshal(record{time.Now().UTC().Format(time.RFC3339Nano), kind, payload})
	if err != nil {
		return err
	}
	_, err = t.file.Write(append(line, '\n'))
	return err
}

// load reads the rollout. A turn without an end there was interrupted.
func (t *thread) load() error { return t.read(t.path, math.MaxInt64) }

func (t *thread) read(path string, end int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.LimitReader(f, end), 4<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil // a torn line is ignored
		}
		if err != nil {
			return err
		}
		if err := t.loadLine(bytes.TrimSpace(line)); err != nil {
			return err
		}
	}
}

func (t *thread) loadLine(line []byte) error {
	var r struct {
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	var last *past
	if n := len(t.turns); n > 0 {
		last = t.turns[n-1]
	}
	switch {
	case r.Type == "session_meta":
		return t.loadMeta(r.Payload)
	case r.Type == "turn_started":
		p := &past{}
		if err := json.Unmarshal(r.Payload, p); err != nil {
			return err
		}
		p.Status = "interrupted"
		t.turns = append(t.turns, p)
	case last == nil:
	case r.Type == "user_message":
		var m said
		if err := json.Unmarshal(r.Payload, &m); err != nil {
			return err
		}
		last.Messages = append(last.Messages, m)
	case r.Type == "item":
		var it object
		if err := json.Unmarshal(r.Payload, &it); err != nil {
			return err
		}
		last.Items = append(last.Items, it)
	case r.Type == "turn_ended":
		return json.Unmarshal(r.Payload, last)
	}
	return nil
}

// history returns the newest turns first, at most limit of them (0: all).
func (t *thread) history(limit int) []any {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := []any{}
	for i := len(t.turns) - 1; i >= 0 && (limit == 0 || len(list) < limit); i-- {
		p := t.turns[i]
		items := []any{}
		for _, m := range p.Messages {
			items = append(items, m.wire(p.Started*1000))
		}
		for _, it := range p.Items {
			items = append(items, it)
		}
		turn := wireTurn(p.ID, p.Status, items, "full", p.Started)
		if p.Ended > 0 {
			turn["completedAt"], turn["durationMs"] = p.Ended, (p.Ended-p.Started)*1000
		}
		list = append(list, turn)
	}
	return list
}

func (m said) wire(at int64) object {
	return object{"type": "userMessage", "id": m.Item, "clientId": m.ClientID, "startedAtMs": at, "completedAtMs": at,
		"content": []userInput{{Type: "text", Text: m.Text, Elements: []any{}}}}
}

func wireTurn(id, status string, items []any, view string, started int64) object {
	return object{"id": id, "rootTurnId": id, "items": items, "itemsView": view, "status": status, "error": nil,
		"startedAt": started, "completedAt": nil, "durationMs": nil}
}

// abort ends a turn without sending anything, because the process is ending.
func (t *thread) abort() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == nil {
		return
	}
	if err := t.record("turn_ended", object{"status": "interrupted", "ended": time.Now().Unix()}); err != nil {
		fmt.Fprintln(t.s.errs, "codex: rollout:", err)
	}
}
