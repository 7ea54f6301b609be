package conversation

import (
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
)

func (m *machine) message(msg *wire.Message) {
	switch {
	case msg.Clash != nil:
		m.clash(msg)
	case msg.IsRequest():
		m.request(msg)
	case msg.IsResponse():
		if id, ok := wire.StringID(msg.ID); ok {
			m.response(id, msg)
		}
	default:
		m.notification(msg)
	}
}

// clash records a message that names two threads. A request is refused, and the end of the
// running turn counts as unknown.
func (m *machine) clash(msg *wire.Message) {
	m.log.Warn("a message names two threads", "method", msg.Method)
	if msg.IsRequest() {
		m.autos.refuse(msg, msg.Clash.Error())
		return
	}
	m.warn(msg.Clash.Error())
	if msg.Method == "turn/completed" {
		m.turns.endedUnclearly(msg.Params, problem("protocol", msg.Clash.Error()))
	}
}

func (m *machine) request(msg *wire.Message) {
	switch msg.Method {
	case methodToolCall:
		m.calls.toolCalled(msg)
	case methodTokenRefresh:
		m.logins.asked(msg)
	case "currentTime/read":
		m.autos.add(msg.ID, wire.Outgoing{ID: msg.ID, Result: map[string]int64{"currentTimeAt": m.opt.clock().Unix()}})
	default:
		if read := families[msg.Method]; read != nil {
			m.turns.sayForeign()
			m.requests.demand(msg, read)
			return
		}
		m.autos.refuse(msg, "")
	}
}

func (m *machine) response(id string, r *wire.Message) {
	if strings.HasPrefix(id, sendPrefix) {
		if of, try, ok := sendOf(id); ok {
			m.delivery.answered(of, try, r)
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
	// An earlier pump's answers are useful, except the one about the thread: only the
	// thread that this pump asked for counts.
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
	if r.Error != nil && r.Error.Code == wire.CodeOverloaded {
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
		m.opening.askedBefore()
	}
	switch {
	case name == askInit:
		m.opening.initialized(r)
	case name == askLogin && ours && m.opening.fresh:
		generation, _ := dashed(id[j+1 : i])
		m.logins.loginAnswered(generation, r)
	case name == askToken:
		m.logins.given(dashed(id[j+1 : i]))
	case name == askAccount:
		m.opening.accountRead(r)
	case name == askModels:
		m.questions.modelsListed(r)
	case name == askNaming && ours:
		m.questions.threadNamed(try, r)
	case name == askThread && ours && m.opening.fresh:
		m.opening.threadOpened(r)
	case name == askHistory && ours:
		m.delivery.historyRead(r)
	case name == askBarrier && ours:
		m.delivery.barrierAnswered()
	}
}

// notification folds a notification. Unknown ones go to a RawSink.
func (m *machine) notification(msg *wire.Message) {
	p := msg.Params
	if of := wire.PieceOf(msg.Method); of != "" {
		if d, ok := wire.SlowPiece(of, p); ok {
			m.turns.delta(d)
		}
		return
	}
	switch msg.Method {
	case "item/started":
		m.turns.itemStarted(p)
	case "item/completed":
		m.turns.itemCompleted(p)
	case "item/fileChange/patchUpdated":
		m.items.patchUpdated(p)
	case "serverRequest/resolved":
		m.requests.resolvedBy(p)
	case "turn/started":
		m.turns.started(p, msg.EmittedAtMS)
	case "turn/completed":
		m.turns.completed(p)
	case "turn/aborted", "turn_aborted", "codex/event/turn_aborted":
		m.turns.aborted(p)
	case "thread/goal/updated", "thread/goal/cleared":
		m.turns.goalChanged(msg.Method, p)
		m.raw(msg.Method, p)
	case "turn/plan/updated":
		m.noticed.planUpdated(p)
	case "mcpServer/startupStatus/updated":
		m.noticed.serverStatus(p)
	case "item/mcpToolCall/progress":
		m.noticed.toolProgress(p)
	case "hook/completed":
		m.noticed.hookCompleted(p)
	case "model/rerouted":
		m.noticed.rerouted(p)
	case "turn/diff/updated":
		m.turns.diffUpdated(p)
	case "account/rateLimits/updated":
		m.turns.rateLimitsUpdated(p)
	case "thread/tokenUsage/updated":
		m.turns.usageUpdated(p)
	case "thread/status/changed":
		m.turns.statusChanged(p)
	case "thread/closed", "thread/deleted":
		m.turns.threadClosed(p)
	case "error":
		m.turns.errorNotice(p)
	case "warning", "configWarning", "guardianWarning":
		m.turns.warning(p)
	case "account/login/completed":
		if m.opt.Broker != nil {
			m.logins.loginCompleted(p)
			return
		}
		fallthrough
	default:
		m.raw(msg.Method, p)
	}
}
