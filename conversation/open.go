package conversation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// expectAnswers registers the requests that an earlier attempt may have sent.
func (m *machine) expectAnswers() {
	add := func(name askName, method string, params any, limit time.Duration, optional bool) {
		m.asks.all[name] = &ask{method: method, params: params, limit: limit, optional: optional}
	}
	if m.fresh {
		add(askInit, methodInitialize, initialize(m.opt.Client), m.lim.StartUp, false)
		if m.opt.Broker != nil {
			add(askLogin, methodLogin, nil, m.lim.Request, false)
		}
		add(askAccount, methodAccountRead, struct{}{}, m.lim.Request, true)
		add(askModels, methodModelList, struct{}{}, m.lim.Request, true)
		method, params := m.threadParams()
		add(askThread, method, params, m.lim.Request, false)
	}
	add(askClean, methodClean, nil, cleanGrace, true)
	m.wantModels()
}

// forking reports whether the thread still has to be forked from another.
func (m *machine) forking() bool {
	return m.in.Fork && m.in.State.ThreadID != "" && m.in.State.ForkedFrom == ""
}

// resuming reports whether there is a thread to resume. A fork has everything that
// its source had, even before its own first turn.
func (m *machine) resuming() bool {
	st := m.in.State
	return st.ThreadID != "" && (m.in.Resume || st.ForkedFrom != "") && !m.forking()
}

// opens returns the method that opens the thread, and a word for what it does.
func (m *machine) opens() (method, did string) {
	switch {
	case m.forking():
		return methodFork, "forked"
	case m.resuming():
		return methodResume, "resumed"
	}
	return methodStart, "started"
}

// threadParams sets sandbox, approval policy and cwd each time, because a resumed
// thread has forgotten its sandbox.
func (m *machine) threadParams() (string, threadParams) {
	t := m.in.Thread
	p := threadParams{CWD: t.CWD, ApprovalPolicy: t.ApprovalPolicy, Sandbox: t.Sandbox, Permissions: t.Permissions, Model: t.Model}
	if t.Permissions != "" {
		p.Sandbox = ""
	}
	config := map[string]any{}
	if t.Mark != "" {
		// A thread's override reaches its commands whatever they inherit.
		config["shell_environment_policy.set.FAIRLEAD_SESSION"] = t.Mark
	}
	if t.Effort != "" {
		config["model_reasoning_effort"] = t.Effort
	}
	if len(config) > 0 {
		p.Config = config
	}
	method, _ := m.opens()
	p.Instructions = t.Instructions
	if method != methodFork { // thread/fork does not take it; the fork's first turn does
		p.Personality = t.Personality
	}
	if method == methodStart {
		p.Tools = dynamicTools(t.Tools)
	} else {
		p.ThreadID, p.ExcludeTurns = m.in.State.ThreadID, true
	}
	return method, p
}

// lookFirst is how long a later attempt waits for a sign that an earlier one has
// asked for the thread, whose answer may take seconds. account and models are asked
// after the thread and answered at once, so their answers are the sign.
const lookFirst = 3 * time.Second

// open does the steps of the opening that are possible now.
func (m *machine) open() {
	if !m.opening {
		m.opening, m.before = true, m.inited
	}
	if !m.inited {
		m.asks.send(askInit)
		return
	}
	if !m.greeted {
		m.greeted = true
		m.write(outgoing{Method: methodInitialized})
	}
	if !m.login() {
		return
	}
	if !m.looked {
		m.looked = true
		if m.opt.Attempt > 1 && m.before && !m.asks.all[askThread].done && !m.askedBefore() {
			for _, name := range []askName{askThread, askAccount, askModels} {
				if a := m.asks.all[name]; a != nil {
					a.next = m.now + lookFirst
				}
			}
		}
	}
	m.asks.send(askThread)
	m.asks.send(askAccount)
	m.asks.send(askModels)
}

// askedBefore reports whether an earlier attempt has asked codex for the thread. If
// so, the pump waits for that answer and does not ask again.
func (m *machine) askedBefore() bool {
	a := m.asks.all[askThread]
	if m.opt.Attempt < 2 || a == nil || a.sent || a.done || a.tried || a.try > 0 {
		return false
	}
	for _, behind := range []askName{askAccount, askModels} {
		if b := m.asks.all[behind]; b != nil && b.done && !b.tried {
			a.sent, a.tried, a.first, a.asked = true, true, m.now, m.now
			return true
		}
	}
	return false
}

// sendOf returns the Send that a request id belongs to, and the try.
func sendOf(id string) (send string, try int, ok bool) {
	rest, ok := strings.CutPrefix(id, sendPrefix)
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 {
		return "", 0, false
	}
	try, err := strconv.Atoi(rest[i+1:])
	return rest[:i], try, err == nil
}

// response handles codex's answer to one of our requests.
func (m *machine) response(id string, r *message) {
	if strings.HasPrefix(id, sendPrefix) {
		if of, try, ok := sendOf(id); ok {
			m.sendAnswered(of, try, r)
		}
		return
	}
	i := strings.LastIndexByte(id, '.')
	if i < 0 {
		return
	}
	try, err := strconv.Atoi(id[i+1:])
	if err != nil {
		return
	}
	// Answers to what an earlier pump asked are still useful, except for its thread:
	// only the thread that this pump asks for counts.
	j := strings.LastIndexByte(id[:i], '.')
	if j < 0 {
		return
	}
	prefix := id[:j]
	called, _, _ := strings.Cut(id[j+1:i], "-")
	name := askName(slices.Index(askNames[:], called))
	if name < 0 {
		return
	}
	ours := prefix == m.in.Prefix && (m.asks.id(name, try) == id || name == askLogin)
	a := m.asks.all[name]
	if r.Error != nil && r.Error.Code == CodeOverloaded {
		if a != nil && ours && !a.done && try >= a.try {
			a.try, a.sent, a.next = try+1, false, m.now+backoff(try)
		}
		return
	}
	if a != nil && ours {
		if a.done {
			return // a second attempt asked again; the first answer counts
		}
		a.done = true
		m.askedBefore()
	}
	switch {
	case name == askInit:
		m.initialized(r)
	case name == askLogin && ours && m.fresh:
		generation, _ := dashed(id[j+1 : i])
		m.loginAnswered(generation, r)
	case name == askToken:
		m.tokenGiven(dashed(id[j+1 : i]))
	case name == askAccount:
		m.accountRead(r)
	case name == askModels:
		m.modelsListed(r)
	case name == askNaming && ours:
		m.threadNamed(r)
	case name == askThread && ours && m.fresh:
		m.threadOpened(r)
	case name == askHistory && ours:
		m.historyRead(r)
	case name == askBarrier && ours:
		m.barrierAnswered()
	}
}

func (m *machine) initialized(r *message) {
	if r.Error != nil {
		// A process that an earlier pump began to open answers so; go on.
		if !strings.Contains(strings.ToLower(r.Error.Message), "already initialized") {
			m.giveUp(Refused, classifyAnswer(methodInitialize, r.Error))
			return
		}
		m.inited = true
		return
	}
	var s Server
	if err := json.Unmarshal(r.Result, &s); err != nil {
		m.giveUp(Refused, problem("protocol", "codex's answer to initialize cannot be read: "+err.Error()))
		return
	}
	m.inited = true
	m.st.CodexVersion = versionOf(s.UserAgent)
	if err := CheckVersion(m.st.CodexVersion); err != nil && !m.opt.AnyVersion {
		m.giveUp(Refused, problem("version", err.Error()))
		return
	}
	if p := m.in.Thread.Permissions; p != "" && !Has(m.st.CodexVersion, NamedProfiles) {
		// The oldest version would start the thread in a sandbox of its own choice.
		m.giveUp(Refused, problem("version", "codex "+m.st.CodexVersion+" knows no permission profile by name, and the session is to run under "+p))
	}
	m.checkPersonality()
}

func (m *machine) accountRead(r *message) {
	if r.Error != nil {
		m.warn("codex could not read its account: " + r.Error.Message)
		return
	}
	var a accountAnswer
	if json.Unmarshal(r.Result, &a) == nil && a.RequiresOpenAIAuth && (len(a.Account) == 0 || string(a.Account) == "null") {
		// The turn would only wait and retry until its deadline.
		m.giveUp(Refused, problem("auth", "codex is not logged in, and its provider wants a login"))
	}
}

// threadOpened takes the answer to thread/start, resume or fork. A thread that
// cannot be resumed or forked is never replaced by a new one.
func (m *machine) threadOpened(r *message) {
	method, did := m.opens()
	source := m.in.State.ThreadID
	if r.Error != nil {
		m.giveUp(Refused, classifyAnswer(method, r.Error))
		return
	}
	var a threadAnswer
	if err := json.Unmarshal(r.Result, &a); err != nil || a.Thread.ID == "" {
		m.giveUp(Refused, problem("protocol", method+": codex's answer names no thread"))
		return
	}
	switch {
	case method == methodResume && a.Thread.ID != source:
		m.giveUp(Refused, problem("protocol", fmt.Sprintf("%s: codex opened thread %s instead of %s", method, a.Thread.ID, source)))
		return
	case method == methodFork && a.Thread.ID == source:
		m.giveUp(Refused, problem("protocol", fmt.Sprintf("%s: codex opened thread %s itself, not a fork of it", method, source)))
		return
	}
	m.fresh = false
	m.st.Opened = m.st.Cursor.Incarnation
	m.st.ThreadID = a.Thread.ID
	m.st.Model = a.Model
	m.st.Provider = a.Provider
	if m.st.CodexVersion == "" && method != methodResume { // an earlier pump had the answer to initialize
		m.st.CodexVersion = a.Thread.CLIVersion
	}
	e := Entry{Type: EntryState, Turn: m.st.Turn, Status: did, Text: "thread " + did,
		Data: map[string]string{"thread": a.Thread.ID, "model": a.Model, "codex": m.st.CodexVersion}}
	if method == methodFork {
		m.st.ForkedFrom = source
		e.set("from", source)
	}
	m.entry(e)
}
