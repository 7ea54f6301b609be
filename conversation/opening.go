package conversation

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// An opening makes a new process ready: handshake, login, and the thread, which is started,
// resumed or forked. It owns Opened, ThreadID, ForkedFrom and the fields from codex's
// answers about the thread. It may call the asks and the logins.
type opening struct {
	*core
	asks   *asks
	logins *logins

	fresh   bool
	inited  bool
	greeted bool
	begun   bool
	before  bool // initialize was answered before the opening began
	looked  bool // the pump knows whether to wait for an earlier attempt's answers
}

func (o *opening) expect() {
	add := func(name askName, method string, params any, limit time.Duration, optional bool) {
		o.asks.all[name] = &ask{method: method, params: params, limit: limit, optional: optional}
	}
	if o.fresh {
		add(askInit, wire.MethodInitialize, wire.Initialize(o.opt.Client), o.lim.StartUp, false)
		if o.opt.Broker != nil {
			add(askLogin, methodLogin, nil, o.lim.Request, false)
		}
		add(askAccount, wire.MethodAccountRead, struct{}{}, o.lim.Request, true)
		add(askModels, wire.MethodModelList, struct{}{}, o.lim.Request, true)
		method, params := o.threadParams()
		add(askThread, method, params, o.lim.Request, false)
	}
	add(askClean, wire.MethodClean, nil, cleanGrace, true)
}

func (o *opening) forking() bool {
	return o.in.Fork && o.in.State.ThreadID != "" && o.in.State.ForkedFrom == ""
}

// resuming reports whether there is a thread to resume. A fork has all of its source, even
// before its first turn.
func (o *opening) resuming() bool {
	st := o.in.State
	return st.ThreadID != "" && (o.in.Resume || st.ForkedFrom != "") && !o.forking()
}

// opens returns the method that opens the thread, and its past tense.
func (o *opening) opens() (method, did string) {
	switch {
	case o.forking():
		return wire.MethodFork, "forked"
	case o.resuming():
		return wire.MethodResume, "resumed"
	}
	return wire.MethodStart, "started"
}

// noProxy is what commands reach without their proxy.
const noProxy = "localhost,127.0.0.1,::1"

// threadParams sets sandbox, approval policy and cwd each time: a resumed thread has
// forgotten its sandbox.
func (o *opening) threadParams() (string, wire.ThreadParams) {
	t := o.in.Thread
	p := wire.ThreadParams{CWD: t.CWD, ApprovalPolicy: t.ApprovalPolicy, Sandbox: t.Sandbox, Permissions: t.Permissions, Model: t.Model}
	if t.Permissions != "" {
		p.Sandbox = ""
	}
	config := map[string]any{}
	if t.Mark != "" {
		// This reaches the thread's commands, whatever else they inherit.
		config["shell_environment_policy.set.FAIRLEAD_SESSION"] = t.Mark
	}
	if t.Proxy != "" {
		// Some programs read the upper-case names, some the lower-case ones. noProxy lists this machine,
		// since commands may connect to servers that they started.
		for name, value := range map[string]string{"HTTPS_PROXY": t.Proxy, "https_proxy": t.Proxy, "NO_PROXY": noProxy, "no_proxy": noProxy} {
			config["shell_environment_policy.set."+name] = value
		}
	}
	if t.Effort != "" {
		config["model_reasoning_effort"] = t.Effort
	}
	if len(config) > 0 {
		p.Config = config
	}
	method, _ := o.opens()
	p.Instructions, p.Base = t.Instructions, t.Base
	if method != wire.MethodFork { // the fork's first turn sets it
		p.Personality = t.Personality
	}
	if method == wire.MethodStart {
		p.Tools = t.dynamicTools()
	} else {
		p.ThreadID, p.ExcludeTurns = o.in.State.ThreadID, true
	}
	return method, p
}

// lookFirst is how long a later attempt waits for a sign that an earlier one has asked for
// the thread. That answer may take seconds; account and models are asked after it and
// answered at once, so their answers are the sign.
const lookFirst = 3 * time.Second

func (o *opening) open() {
	if !o.begun {
		o.begun, o.before = true, o.inited
	}
	if !o.inited {
		o.asks.send(askInit)
		return
	}
	if !o.greeted {
		o.greeted = true
		o.write(wire.Outgoing{Method: wire.MethodInitialized})
	}
	if !o.logins.ensure() {
		return
	}
	if !o.looked {
		o.looked = true
		if o.opt.Attempt > 1 && o.before && !o.asks.all[askThread].done && !o.askedBefore() {
			for _, name := range []askName{askThread, askAccount, askModels} {
				if a := o.asks.all[name]; a != nil {
					a.next = o.now + lookFirst
				}
			}
		}
	}
	o.asks.send(askThread)
	o.asks.send(askAccount)
	o.asks.send(askModels)
}

// askedBefore reports whether an earlier attempt has asked for the thread, so that the pump
// waits for that answer.
func (o *opening) askedBefore() bool {
	a := o.asks.all[askThread]
	if o.opt.Attempt < 2 || a == nil || a.sent || a.done || a.tried || a.try > 0 {
		return false
	}
	for _, behind := range []askName{askAccount, askModels} {
		if b := o.asks.all[behind]; b != nil && b.done && !b.tried {
			a.sent, a.tried, a.first, a.asked = true, true, o.now, o.now
			return true
		}
	}
	return false
}

func (o *opening) initialized(r *wire.Message) {
	if r.Error != nil {
		// An earlier pump began to open this process.
		if !strings.Contains(strings.ToLower(r.Error.Message), "already initialized") {
			o.giveUp(Refused, classifyAnswer(wire.MethodInitialize, r.Error))
			return
		}
		o.inited = true
		return
	}
	var s wire.Server
	if err := json.Unmarshal(r.Result, &s); err != nil {
		o.giveUp(Refused, problem("protocol", "codex's answer to initialize cannot be read: "+err.Error()))
		return
	}
	o.inited = true
	o.st.CodexVersion = wire.VersionOf(s.UserAgent)
	if err := wire.CheckVersion(o.st.CodexVersion); err != nil && !o.opt.AnyVersion {
		o.giveUp(Refused, problem("version", err.Error()))
		return
	}
	if p := o.in.Thread.Permissions; p != "" && !wire.Has(o.st.CodexVersion, wire.NamedProfiles) {
		// The oldest version would start the thread in a sandbox of its own choice.
		o.giveUp(Refused, problem("version", "codex "+o.st.CodexVersion+" knows no permission profile by name, and the session is to run under "+p))
	}
	o.checkPersonality()
}

// checkPersonality refuses a new thread whose personality codex would ignore. A continued
// thread gets a warning.
func (o *opening) checkPersonality() {
	name := o.in.Thread.Personality
	if name == "" || name == personalityNone || wire.Has(o.st.CodexVersion, wire.Personalities) {
		return
	}
	if method, _ := o.opens(); method != wire.MethodStart {
		o.warn("codex " + o.st.CodexVersion + " has no personalities any more: " + name + " changes nothing from here on")
		return
	}
	o.giveUp(Refused, problem("version", "codex "+o.st.CodexVersion+" takes the personality "+name+" and does nothing about it (no version from 0.169 on does); leave it out, or say how to speak in the instructions"))
}

func (o *opening) accountRead(r *wire.Message) {
	if r.Error != nil {
		o.warn("codex could not read its account: " + r.Error.Message)
		return
	}
	var a wire.AccountAnswer
	if json.Unmarshal(r.Result, &a) == nil && a.RequiresOpenAIAuth && (len(a.Account) == 0 || string(a.Account) == "null") {
		// The turn would retry until its deadline.
		o.giveUp(Refused, problem("auth", "codex is not logged in, and its provider wants a login"))
	}
}

// threadOpened takes the answer about the thread. A thread that cannot be opened is never
// replaced by a new one.
func (o *opening) threadOpened(r *wire.Message) {
	method, did := o.opens()
	source := o.in.State.ThreadID
	if r.Error != nil {
		o.giveUp(Refused, classifyAnswer(method, r.Error))
		return
	}
	var a wire.ThreadAnswer
	id, err := "", json.Unmarshal(r.Result, &a)
	if err == nil {
		if id, err = a.OfThread(method); err != nil {
			o.giveUp(Refused, problem("protocol", err.Error()))
			return
		}
	}
	if id == "" {
		o.giveUp(Refused, problem("protocol", method+": codex's answer names no thread"))
		return
	}
	switch {
	case method == wire.MethodResume && id != source:
		o.giveUp(Refused, problem("protocol", fmt.Sprintf("%s: codex opened thread %s instead of %s", method, id, source)))
		return
	case method == wire.MethodFork && id == source:
		o.giveUp(Refused, problem("protocol", fmt.Sprintf("%s: codex opened thread %s itself, not a fork of it", method, source)))
		return
	}
	o.fresh = false
	o.st.Opened = o.st.Cursor.Incarnation
	o.st.ThreadID = id
	o.st.Model = a.Model
	o.st.Provider = a.Provider
	if o.st.CodexVersion == "" && method != wire.MethodResume { // an earlier pump had it from initialize
		o.st.CodexVersion = a.Thread.CLIVersion
	}
	e := protocol.Entry{Type: protocol.EntryState, Turn: o.st.Turn, Status: did, Text: "thread " + did,
		Data: map[string]string{"thread": id, "model": a.Model, "codex": o.st.CodexVersion}}
	if method == wire.MethodFork {
		o.st.ForkedFrom = source
		setData(&e, "from", source)
	}
	o.entry(e)
}
