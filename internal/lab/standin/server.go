package standin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Version is the version of codex that the package imitates.
const Version = "0.169.0"

// A Server is one app-server.
type Server struct {
	home string
	errs io.Writer

	wmu sync.Mutex
	out io.Writer // guarded by wmu

	mu      sync.Mutex
	client  clientInfo                     // guarded by mu, like all below
	greeted bool                           // initialize was answered
	threads map[string]*thread             // loaded
	asked   map[int]chan<- json.RawMessage // the server's open requests
	nextAsk int                            // the id of the next request
	allowed map[string]bool                // commands accepted for the session
	left    map[string]map[int]*os.Process // background commands, by thread
	ending  bool
}

type clientInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// New returns a server whose threads are stored below home, which must exist.
func New(home string, out, errs io.Writer) (*Server, error) {
	fi, err := os.Stat(home)
	if err != nil {
		return nil, fmt.Errorf("CODEX_HOME: %w", err)
	}
	if !fi.IsDir() {
		return nil, errors.New("CODEX_HOME is no folder")
	}
	return &Server{
		home: home, out: quick(out), errs: errs, threads: map[string]*thread{}, asked: map[int]chan<- json.RawMessage{},
		allowed: map[string]bool{}, left: map[string]map[int]*os.Process{},
	}, nil
}

// Serve reads requests until in ends.
func (s *Server) Serve(in io.Reader) {
	r := bufio.NewReaderSize(in, 4<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		if len(line) > 1 {
			s.line(line)
		}
	}
}

// Abort ends the running turns as codex does when its input ends: they are
// recorded, and nothing is sent.
func (s *Server) Abort() {
	s.mu.Lock()
	s.ending = true
	var open []*thread
	for _, t := range s.threads {
		open = append(open, t)
	}
	s.mu.Unlock()
	for _, t := range open {
		t.abort()
	}
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (s *Server) line(line []byte) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		fmt.Fprintf(s.errs, "Failed to deserialize JSONRPCMessage: %v\n", err)
		return
	}
	switch {
	case m.Method == "":
		s.answered(m)
	case len(m.ID) == 0: // initialized: nothing to do
	case len(m.Params) == 0:
		s.refuse(m.ID, "Invalid request: missing field `params`")
	default:
		s.request(m)
	}
}

// answered delivers an answer to one of the server's requests; late ones are
// dropped.
func (s *Server) answered(m message) {
	var id int
	if json.Unmarshal(m.ID, &id) != nil {
		return
	}
	s.mu.Lock()
	c, ok := s.asked[id]
	delete(s.asked, id)
	s.mu.Unlock()
	if ok {
		c <- m.Result // the channel has a buffer
	}
}

type params struct {
	ThreadID       string         `json:"threadId"`
	TurnID         string         `json:"turnId"`
	ExpectedTurnID string         `json:"expectedTurnId"`
	CWD            string         `json:"cwd"`
	ApprovalPolicy string         `json:"approvalPolicy"`
	Sandbox        string         `json:"sandbox"`
	Permissions    string         `json:"permissions"`
	Model          string         `json:"model"`
	IncludeTurns   bool           `json:"includeTurns"`
	MessageID      string         `json:"clientUserMessageId"`
	Input          []userInput    `json:"input"`
	Items          []object       `json:"items"`
	Config         map[string]any `json:"config"`
	Limit          int            `json:"limit"`
	ClientInfo     clientInfo     `json:"clientInfo"`
	Command        []string       `json:"command"`
	TimeoutMS      int            `json:"timeoutMs"`
}

type userInput struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Elements []any  `json:"text_elements"`
}

// methods are the supported methods; the real codex has a hundred more.
var methods = map[string]func(*Server, message, params){
	"account/read":                     (*Server).accountRead,
	"command/exec":                     (*Server).commandExec,
	"model/list":                       (*Server).modelList,
	"thread/start":                     (*Server).threadStart,
	"thread/resume":                    (*Server).threadResume,
	"thread/fork":                      (*Server).threadFork,
	"thread/inject_items":              (*Server).injectItems,
	"thread/read":                      (*Server).threadRead,
	"thread/turns/list":                (*Server).turnsList,
	"thread/loaded/list":               (*Server).loadedList,
	"thread/backgroundTerminals/clean": (*Server).clean,
	"turn/start":                       (*Server).turnStart,
	"turn/steer":                       (*Server).turnSteer,
	"turn/interrupt":                   (*Server).turnInterrupt,
}

func (s *Server) request(m message) {
	do := methods[m.Method]
	if do == nil && m.Method != "initialize" {
		s.refuse(m.ID, "Invalid request: unknown variant `"+m.Method+"`, expected one of `initialize`, `"+strings.Join(names(), "`, `")+"`")
		return
	}
	var p params
	if err := json.Unmarshal(m.Params, &p); err != nil {
		s.refuse(m.ID, "Invalid request: "+err.Error())
		return
	}
	s.mu.Lock()
	greeted := s.greeted
	s.mu.Unlock()
	switch {
	case m.Method == "initialize" && greeted:
		s.refuse(m.ID, "Already initialized")
	case m.Method == "initialize":
		s.initialize(m, p)
	case !greeted:
		s.refuse(m.ID, "Not initialized")
	default:
		do(s, m, p)
	}
}

func names() []string {
	var all []string
	for name := range methods {
		all = append(all, name)
	}
	return all
}

func (s *Server) initialize(m message, p params) {
	s.mu.Lock()
	s.client, s.greeted = p.ClientInfo, true
	s.mu.Unlock()
	s.answer(m.ID, object{
		"userAgent": fmt.Sprintf("%s/%s (stand-in; x86_64) unknown (%s; %s)", p.ClientInfo.Name, Version, p.ClientInfo.Name, p.ClientInfo.Version),
		"codexHome": s.home, "platformFamily": "unix", "platformOs": "linux",
	})
	s.notify("remoteControl/status/changed", object{"status": "disabled", "serverName": "stand-in", "installationId": newID(), "environmentId": nil})
}

func (s *Server) accountRead(m message, _ params) {
	s.answer(m.ID, object{"account": nil, "userId": nil, "requiresOpenaiAuth": false, "workspaceRouting": nil})
}

func (s *Server) modelList(m message, _ params) {
	s.answer(m.ID, object{"data": []any{}, "nextCursor": nil})
}

// commandExec runs a command without a sandbox.
func (s *Server) commandExec(m message, p params) {
	if len(p.Command) == 0 {
		s.refuse(m.ID, "Invalid request: command must not be empty")
		return
	}
	go func() {
		code, out, errs, err := execute(p.Command, p.CWD, nil, nil)
		if err != nil {
			s.fail(m.ID, -32603, "exec failed: "+err.Error())
			return
		}
		s.answer(m.ID, object{"exitCode": code, "stdout": string(out), "stderr": string(errs)})
	}()
}

func (s *Server) threadStart(m message, p params) {
	t := s.newThread(newID(), p)
	s.mu.Lock()
	s.threads[t.id] = t
	s.mu.Unlock()
	s.answer(m.ID, t.opened())
	s.notify("thread/started", object{"thread": t.wire(nil)})
}

func (s *Server) threadResume(m message, p params) {
	s.mu.Lock()
	_, loaded := s.threads[p.ThreadID]
	s.mu.Unlock()
	if loaded {
		s.refuse(m.ID, "thread "+p.ThreadID+" is loaded already")
		return
	}
	path := s.rollout(p.ThreadID)
	if path == "" {
		s.refuse(m.ID, "no rollout found for thread id "+p.ThreadID)
		return
	}
	t := s.newThread(p.ThreadID, p)
	t.path = path
	if err := t.lock(); err != nil {
		s.refuse(m.ID, err.Error())
		return
	}
	if err := t.load(); err != nil {
		s.refuse(m.ID, err.Error())
		return
	}
	s.mu.Lock()
	s.threads[t.id] = t
	s.mu.Unlock()
	s.answer(m.ID, t.opened())
	s.notify("thread/status/changed", object{"threadId": t.id, "status": idle})
}

// find returns a loaded thread, or refuses the request with words.
func (s *Server) find(m message, p params, words string) *thread {
	s.mu.Lock()
	t := s.threads[p.ThreadID]
	s.mu.Unlock()
	if t == nil {
		s.refuse(m.ID, words+p.ThreadID)
	}
	return t
}

func (s *Server) threadRead(m message, p params) {
	if t := s.find(m, p, "thread not loaded: "); t != nil {
		var turns []any
		if p.IncludeTurns {
			turns = t.history(0)
		}
		s.answer(m.ID, object{"thread": t.wire(turns)})
	}
}

func (s *Server) turnsList(m message, p params) {
	if t := s.find(m, p, "thread not loaded: "); t != nil {
		s.answer(m.ID, object{"data": t.history(p.Limit), "nextCursor": nil, "backwardsCursor": nil})
	}
}

func (s *Server) loadedList(m message, _ params) {
	ids := []string{}
	s.mu.Lock()
	for id := range s.threads {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	s.answer(m.ID, object{"data": ids, "nextCursor": nil})
}

func (s *Server) clean(m message, p params) {
	if s.find(m, p, "thread not found: ") == nil {
		return
	}
	s.mu.Lock()
	for _, left := range s.left[p.ThreadID] {
		killGroup(left)
	}
	s.mu.Unlock()
	s.answer(m.ID, object{})
}

// rollout returns the path of a thread's rollout; empty if there is none.
func (s *Server) rollout(id string) string {
	found, err := filepath.Glob(filepath.Join(s.home, "sessions", "*", "*", "*", "rollout-*-"+id+".jsonl"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0]
}

func nowMS() int64 { return time.Now().UnixMilli() }
