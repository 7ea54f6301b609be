package conversation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An ask is a request of ours that is no Send: a step of the opening, the
// barrier, the end of left commands. Its id is <prefix>.<name>.<try>: the same
// over all attempts of a pump, so a later attempt finds the answers of the
// earlier one in the journal and does not ask again.
type ask struct {
	method   string
	params   any
	limit    time.Duration
	optional bool // nobody waits for it

	try   int
	sent  bool
	tried bool
	first time.Duration // when it was first sent
	next  time.Duration // not before, after an overload
	done  bool
}

// An askName says which of our asks it is.
type askName int

const (
	askInit askName = iota
	askAccount
	askModels
	askThread
	askHistory
	askBarrier
	askClean
	askLife // a sign of it
	askLogin
	askToken  // behind the answer to codex's request for one
	askNaming // what the thread is called
)

// askNames are what they are called in ids.
var askNames = [...]string{"initialize", "account", "models", "thread", "history", "barrier", "clean", "life", "login", "token", "name"}

// expectAnswers registers what an earlier attempt may have asked.
func (m *machine) expectAnswers() {
	add := func(name askName, method string, params any, limit time.Duration, optional bool) {
		m.asks[name] = &ask{method: method, params: params, limit: limit, optional: optional}
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

// forking says that the thread is still to be forked from another.
func (m *machine) forking() bool {
	return m.in.Fork && m.in.State.ThreadID != "" && m.in.State.ForkedFrom == ""
}

// resuming says that there is a thread to go on with. A fork has all that its
// source had, also where it had no turn of its own yet.
func (m *machine) resuming() bool {
	st := m.in.State
	return st.ThreadID != "" && (m.in.Resume || st.ForkedFrom != "") && !m.forking()
}

// opens is the request that opens the thread, and what it does in a word.
func (m *machine) opens() (method, did string) {
	switch {
	case m.forking():
		return methodFork, "forked"
	case m.resuming():
		return methodResume, "resumed"
	}
	return methodStart, "started"
}

// threadParams name sandbox, approval policy and cwd each time: a resumed
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
	if method != methodFork { // which does not take it: its first turn does
		p.Personality = t.Personality
	}
	if method == methodStart {
		p.Tools = dynamicTools(t.Tools)
	} else {
		p.ThreadID, p.ExcludeTurns = m.in.State.ThreadID, true
	}
	return method, p
}

// lookFirst is how long a later attempt waits for a sign that an earlier one
// has asked for the thread. The answer itself may take seconds on a busy host.
// But account and models are asked behind the thread, and are answered as soon
// as codex has read so far: their answer says that codex has the other, too.
const lookFirst = 3 * time.Second

// open goes through the opening as far as it can now.
func (m *machine) open() {
	if !m.opening {
		m.opening, m.before = true, m.inited
	}
	if !m.inited {
		m.ask(askInit)
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
		if m.opt.Attempt > 1 && m.before && !m.asks[askThread].done && !m.askedBefore() {
			for _, name := range []askName{askThread, askAccount, askModels} {
				if a := m.asks[name]; a != nil {
					a.next = m.now + lookFirst
				}
			}
		}
	}
	m.ask(askThread)
	m.ask(askAccount)
	m.ask(askModels)
}

// askedBefore finds out whether an earlier attempt has asked codex for the
// thread; then its answer is waited for, and it is not asked again.
func (m *machine) askedBefore() bool {
	a := m.asks[askThread]
	if m.opt.Attempt < 2 || a == nil || a.sent || a.done || a.tried || a.try > 0 {
		return false
	}
	for _, behind := range []askName{askAccount, askModels} {
		if b := m.asks[behind]; b != nil && b.done && !b.tried {
			a.sent, a.tried, a.first = true, true, m.now
			return true
		}
	}
	return false
}

// ask sends a request unless it was sent, answered, or has to wait.
func (m *machine) ask(name askName) {
	a := m.asks[name]
	if a == nil || a.sent || a.done || a.next > m.now {
		return
	}
	if !a.tried {
		a.tried, a.first = true, m.now
	}
	a.sent = true
	m.write(outgoing{ID: m.askID(name, a.try), Method: a.method, Params: a.params})
}

func (m *machine) askID(which askName, try int) string {
	name := askNames[which]
	if which == askBarrier || which == askHistory || which == askLife {
		// Only the answer to this attempt's own counts.
		name += "-" + m.opt.nonce()
	}
	if which == askLogin {
		name += "-" + strconv.FormatInt(m.loginOf, 10) // an answer tells what codex has
	}
	return m.in.Prefix + "." + name + "." + strconv.Itoa(try)
}

// response takes an answer of codex's to one of our requests.
func (m *machine) response(id string, r *message) {
	if rest, ok := strings.CutPrefix(id, sendPrefix); ok {
		if i := strings.LastIndexByte(rest, '/'); i >= 0 {
			if try, err := strconv.Atoi(rest[i+1:]); err == nil {
				m.sendAnswered(rest[:i], try, r)
			}
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
	// What an earlier pump asked and left behind is still worth knowing,
	// but for its thread: the one that we ask for ourselves counts.
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
	ours := prefix == m.in.Prefix && (m.askID(name, try) == id || name == askLogin)
	a := m.asks[name]
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

// backoff grows from a quarter of a second to eight.
func backoff(try int) time.Duration {
	return 250 * time.Millisecond << min(try, 5)
}

func (m *machine) initialized(r *message) {
	if r.Error != nil {
		// A process that an earlier pump began to open says so; go on.
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
		// The oldest would start the thread in a sandbox of its own choice.
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

// warn puts on record what is worth knowing and stops nothing.
func (m *machine) warn(text string) {
	m.entry(Entry{Type: EntryState, Turn: m.st.Turn, Status: "warning", Text: text})
}
