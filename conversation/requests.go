package conversation

import (
	"encoding/json"
	"fmt"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// The requests part keeps codex's requests until they are decided. It owns Open and Tally
// of the state. It may call the delivery, which sends a policy's decisions, the autos, the
// demands, the items, the spending, and the clocks that stop while people are asked.
type requests struct {
	*core
	autos    *autos
	demands  *demands
	items    *items
	quiet    *quiet
	time     *turnTime
	delivery *delivery
	spending *spending

	seen         []*protocol.Request // open ones that this pump has read, in full
	judged       []protocol.Judged
	unreportedAt time.Duration     // when the oldest unreported one came
	resolved     []json.RawMessage // known to the workflow as open
	resolvedAt   time.Duration
}

func (q *requests) wake(soon func(time.Duration)) {
	if q.unreported() {
		soon(q.lastLine + q.lim.Settle)
		soon(q.unreportedAt + 10*q.lim.Settle)
	}
	if len(q.resolved) > 0 {
		soon(q.resolvedAt + 10*q.lim.Settle)
	}
}

func (q *requests) demand(msg *wire.Message, read reader) {
	if q.st.openAt(msg.ID) >= 0 {
		return // asked again under the same id
	}
	a, why := read(msg.Params)
	if why == nil && a.ofTool && !q.st.ofCodex(a) {
		why = a.asForm()
	}
	if why != nil {
		q.log.Warn("a request that nobody can decide", "method", msg.Method, "error", q.redact(why.Error()))
		q.autos.refuse(msg, why.Error())
		return
	}
	q.fill(a)
	r := describe(a, q.opt.Redactor)
	bulk := bulkOf(r)
	switch {
	case len(q.st.Open) >= maxRequests:
		q.autos.refuse(msg, fmt.Sprintf("%d requests are already open, which is the limit: ask again when one is answered", maxRequests))
		return
	case bulk > maxBulk:
		q.autos.refuse(msg, fmt.Sprintf("its questions and permissions take %d bytes, and %d is the most that can be shown", bulk, maxBulk))
		return
	case bulk+q.st.bulk() > maxAllBulk:
		q.autos.refuse(msg, "too much else is being asked already: ask again later")
		return
	}
	q.time.dated(a.startedMS) // requests have no other time
	r.RPC = append(json.RawMessage(nil), msg.ID...)
	r.Incarnation = q.st.Cursor.Incarnation
	o := OpenRequest{RPC: r.RPC, Item: r.ItemID, Thread: q.st.keyOf(a.thread, "").thread, TurnID: r.TurnID, Bulk: bulk}
	if a := q.st.agentOf(o.Thread); a != nil {
		r.Agent = q.cut(a.Name, maxAgentName)
	}
	o.Remembers, o.OfTool = a.remembers(), a.ofTool
	if a.keeps() {
		o.At = q.line.Offset
	}
	q.demands.byID[wire.IDKey(r.RPC)] = a
	var v Verdict
	if a.Kind != protocol.KindChild { // no person and no policy decides these; their item is their entry
		v = q.judge(a, r)
		q.entry(q.entryOf(a, r))
	}
	if v.Outcome != "" {
		q.answerByPolicy(r, o, v)
	}
	if q.err != nil || v.Outcome != "" {
		return
	}
	if a.Kind != protocol.KindChild {
		q.err = q.handOver(r)
	}
	if q.err != nil {
		return
	}
	if !q.unreported() {
		q.unreportedAt = q.now
	}
	q.seen = append(q.seen, r)
	q.st.Open = append(q.st.Open, o)
}

func (q *requests) handOver(r *protocol.Request) error {
	if err := q.sink.Request(*r); err != nil {
		return fmt.Errorf("hand over request %s: %w", r.RPC, err)
	}
	return nil
}

func (q *requests) fill(a *asked) {
	if a.Method == methodFileApproval {
		a.Changes = q.items.changes[q.st.keyOf(a.thread, a.item)]
	}
	if a.Kind == protocol.KindCommand && a.CWD == "" {
		// The digest covers what people are shown.
		a.CWD = q.in.Thread.CWD
		if it := q.st.openItem(q.st.keyOf(a.thread, a.item)); it != nil && it.CWD != "" {
			a.CWD = it.CWD
		}
	}
	if a.Kind == protocol.KindElicitation && a.item == "" {
		a.item = q.st.toolItem(q.st.keyOf(a.thread, "").thread)
	}
	if a.turn == "" {
		a.turn = q.st.TurnID // an MCP server may ask without a turn
	}
	if !q.in.Amend {
		a.Amendment = nil
	}
}

// demandAgain reads an earlier pump's request again, because its text is stored nowhere
// else.
func (q *requests) demandAgain(msg *wire.Message, at int64) {
	i := q.st.openAt(msg.ID)
	if i < 0 || q.st.Open[i].At != at {
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
	if why == nil && a.ofTool && !q.st.Open[i].OfTool {
		why = a.asForm()
	}
	if why != nil {
		return
	}
	if !q.in.Amend {
		a.Amendment = nil
	}
	q.demands.byID[wire.IDKey(msg.ID)] = a
}

// drop closes the open requests that match. Those that the workflow knows are reported as
// resolved, unless a Send closed them.
func (q *requests) drop(match func(OpenRequest) bool) {
	var left []OpenRequest
	for _, o := range q.st.Open {
		if !match(o) {
			left = append(left, o)
			continue
		}
		if o.Reported && !q.delivery.decided(o.RPC) {
			if len(q.resolved) == 0 {
				q.resolvedAt = q.now
			}
			q.resolved = append(q.resolved, o.RPC)
		}
		key := wire.IDKey(o.RPC)
		delete(q.demands.byID, key)
		for i, r := range q.seen {
			if wire.IDKey(r.RPC) == key {
				q.seen = append(q.seen[:i:i], q.seen[i+1:]...)
				break
			}
		}
	}
	q.st.Open = left
}

// resolvedBy handles serverRequest/resolved: codex got an answer, from us or from another
// client.
func (q *requests) resolvedBy(params json.RawMessage) {
	var n wire.ResolvedNotice
	if json.Unmarshal(params, &n) != nil || n.RequestID == nil {
		return
	}
	q.quiet.stillTrying()
	key := wire.IDKey(n.RequestID)
	// Only this removal depends on the pump.
	q.autos.drop(key)
	q.answered(key)
}

// answered records that codex no longer waits for an answer.
func (q *requests) answered(key string) {
	q.delivery.decisionAnswered(key)
	waited := q.st.waits()
	q.drop(func(o OpenRequest) bool { return wire.IDKey(o.RPC) == key })
	if waited && !q.st.waits() {
		q.time.waitEnds()
	}
	q.st.dropCalls(func(c OpenCall) bool { return wire.IDKey(c.RPC) == key })
}

// unreported reports whether there are requests that the workflow does not know.
func (q *requests) unreported() bool {
	for _, r := range q.seen {
		if i := q.st.openAt(r.RPC); i >= 0 && !q.st.Open[i].Reported {
			return true
		}
	}
	return false
}
