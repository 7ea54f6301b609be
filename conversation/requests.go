package conversation

import (
	"encoding/json"
	"fmt"
)

// request handles a request from codex. What a person decides becomes a Request;
// all others are answered at once.
func (m *machine) request(msg *message) {
	switch msg.Method {
	case methodToolCall:
		m.toolCalled(msg)
	case methodTokenRefresh:
		m.logins.asked(msg)
	case "currentTime/read":
		m.autos.add(msg.ID, outgoing{ID: msg.ID, Result: map[string]int64{"currentTimeAt": m.opt.clock().Unix()}})
	default:
		if read := families[msg.Method]; read != nil {
			m.turns.sayForeign()
			m.demand(msg, read)
			return
		}
		m.autos.refuse(msg, "")
	}
}

// demand opens a request for a person, with everything needed to decide it.
func (m *machine) demand(msg *message, read reader) {
	if m.st.openAt(msg.ID) >= 0 {
		return // asked again under the same id
	}
	a, why := read(msg.Params)
	if why == nil && a.ofTool && !m.st.ofCodex(a) {
		why = a.asForm()
	}
	if why != nil {
		m.log.Warn("a request that nobody can decide", "method", msg.Method, "error", m.redact(why.Error()))
		m.autos.refuse(msg, why.Error())
		return
	}
	m.fill(a)
	r := describe(a, m.opt.Redactor)
	bulk := r.bulk()
	switch {
	case len(m.st.Open) >= maxRequests:
		m.autos.refuse(msg, fmt.Sprintf("%d requests are open, and more cannot be", maxRequests))
		return
	case bulk > maxBulk:
		m.autos.refuse(msg, fmt.Sprintf("its questions and permissions take %d bytes, and %d is the most that can be shown", bulk, maxBulk))
		return
	case bulk+m.st.bulk() > maxAllBulk:
		m.autos.refuse(msg, "too much else is being asked already: ask again later")
		return
	}
	m.time.dated(a.startedMS) // requests have no other time
	r.RPC = append(json.RawMessage(nil), msg.ID...)
	r.Incarnation, r.Digest = m.st.Cursor.Incarnation, a.digest()
	o := OpenRequest{RPC: r.RPC, Item: r.ItemID, Thread: m.st.keyOf(a.thread, "").thread, TurnID: r.TurnID, Bulk: bulk}
	o.Remembers, o.OfTool = a.remembers(), a.ofTool
	if a.keeps() {
		o.At = m.line.Offset
	}
	if m.demands == nil {
		m.demands = map[string]*asked{}
	}
	m.demands[idKey(r.RPC)] = a
	v := m.judge(a, r)
	m.entry(m.requestEntry(a, r))
	if v.Outcome != "" {
		m.answerByPolicy(r, o, v)
	}
	if m.err != nil || v.Outcome != "" {
		return
	}
	if err := m.sink.Request(*r); err != nil {
		m.err = fmt.Errorf("hand over request %s: %w", r.RPC, err)
		return
	}
	if !m.unreported() {
		m.unreportedAt = m.now
	}
	m.requests = append(m.requests, r)
	m.st.Open = append(m.st.Open, o)
}

func (m *machine) fill(a *asked) {
	if a.Method == methodFileApproval {
		a.Changes = m.items.changes[m.st.keyOf(a.thread, a.item)]
	}
	if a.Kind == KindElicitation && a.item == "" {
		a.item = m.st.toolItem(m.st.keyOf(a.thread, "").thread)
	}
	if a.turn == "" {
		a.turn = m.st.TurnID // an MCP server may ask without a turn
	}
	if !m.in.Amend {
		a.Amendment = nil
	}
}

// demandAgain reads a request again that an earlier pump folded, because its text
// is stored nowhere else.
func (m *machine) demandAgain(msg *message, at int64) {
	i := m.st.openAt(msg.ID)
	if i < 0 || m.st.Open[i].At != at {
		return
	}
	read := families[msg.Method]
	if msg.Method == methodToolCall {
		read = readHumanQuestion
	}
	if read == nil {
		return
	}
	a, why := read(msg.Params)
	if why == nil && a.ofTool && !m.st.Open[i].OfTool {
		why = a.asForm()
	}
	if why != nil {
		return
	}
	if !m.in.Amend {
		a.Amendment = nil
	}
	if m.demands == nil {
		m.demands = map[string]*asked{}
	}
	m.demands[idKey(msg.ID)] = a
}

// dropOpen closes the open requests that match. Those that the workflow knows are
// reported as resolved, unless a Send of ours closed them.
func (m *machine) dropOpen(match func(OpenRequest) bool) {
	var left []OpenRequest
	for _, o := range m.st.Open {
		if !match(o) {
			left = append(left, o)
			continue
		}
		if o.Reported && !m.delivery.decided(o.RPC) {
			if len(m.resolved) == 0 {
				m.resolvedAt = m.now
			}
			m.resolved = append(m.resolved, o.RPC)
		}
		key := idKey(o.RPC)
		delete(m.demands, key)
		for i, r := range m.requests {
			if idKey(r.RPC) == key {
				m.requests = append(m.requests[:i:i], m.requests[i+1:]...)
				break
			}
		}
	}
	m.st.Open = left
}

// resolvedBy handles serverRequest/resolved: an answer arrived, ours or another's.
func (m *machine) resolvedBy(params json.RawMessage) {
	var n resolvedNotice
	if json.Unmarshal(params, &n) != nil || n.RequestID == nil {
		return
	}
	m.quiet.stillTrying()
	key := idKey(n.RequestID)
	// Whether our answer is still unwritten depends only on how far this pump has got.
	// Everything else here is the same for every pump.
	m.autos.drop(key)
	m.answered(key)
}

// answered records that codex no longer waits for an answer.
func (m *machine) answered(key string) {
	m.delivery.decisionAnswered(key)
	waited := m.st.waits()
	m.dropOpen(func(o OpenRequest) bool { return idKey(o.RPC) == key })
	if waited && !m.st.waits() {
		m.time.waitEnds()
	}
	m.st.dropCalls(func(c OpenCall) bool { return idKey(c.RPC) == key })
}

// unreported reports whether there are requests that the workflow does not know.
func (m *machine) unreported() bool {
	for _, r := range m.requests {
		if i := m.st.openAt(r.RPC); i >= 0 && !m.st.Open[i].Reported {
			return true
		}
	}
	return false
}
