package conversation

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// The calls part serves codex's calls of our tools. It owns Calls, Progress and Finish of
// the state, and may call the autos and the requests.
type calls struct {
	*core
	autos    *autos
	requests *requests

	due    []OpenCall
	called map[string]time.Duration // when the driver got each call; ended ones stay
}

// An OpenCall is a tool call that is not known to be answered.
type OpenCall struct {
	RPC    json.RawMessage `json:"rpc"`
	Thread string          `json:"thread,omitempty"` // set for a sub-agent's call
	ToolCall
}

type toolReplied struct {
	key   string
	reply ToolReply
	err   error
}

const (
	maxCalls    = 8
	maxCallArgs = 8 << 10
	// callGrace is how long a pump with requests to report waits for a call, which the next
	// pump would begin again.
	callGrace = 10 * time.Second

	maxStep = 60
)

// toolCalled handles a call. One that has to be carried out stays in the state until codex
// is known to have the answer, so that a later pump carries it out again.
func (t *calls) toolCalled(msg *wire.Message) {
	var p toolParams
	if err := json.Unmarshal(msg.Params, &p); err != nil || p.Space != nil && *p.Space != "" || !t.offers(p.Tool) {
		t.autos.refuse(msg, "")
		return
	}
	switch p.Tool {
	case protocol.ToolAskHuman:
		t.requests.demand(msg, readHumanQuestion)
	case protocol.ToolProgress:
		t.autos.add(msg.ID, wire.Outgoing{ID: msg.ID, Result: toolAnswer(t.progress(p.Args))})
	case protocol.ToolFinish:
		t.autos.add(msg.ID, wire.Outgoing{ID: msg.ID, Result: toolAnswer(t.finish(p))})
	case protocol.ToolDeliver:
		t.open(msg.ID, p)
	case protocol.ToolStartSession, protocol.ToolWaitSession:
		t.requests.demand(msg, readChildCall)
	default:
		if !t.ofTeam(p.Tool) {
			t.autos.refuse(msg, "")
			return
		}
		t.open(msg.ID, p)
	}
}

func (t *calls) progress(args json.RawMessage) ToolReply {
	var a struct {
		Text    string   `json:"text"`
		Percent *float64 `json:"percent"`
		Step    string   `json:"step"`
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return ToolReply{Text: "The arguments are not as described: " + err.Error()}
	}
	line := func(s string, most int) string { // redact before cutting
		return wire.Excerpt(strings.Join(strings.Fields(t.redact(s)), " "), most)
	}
	r := protocol.Progress{Turn: t.st.Turn, Text: line(a.Text, protocol.MaxProgress), Step: line(a.Step, maxStep), AtMS: t.st.AtMS}
	if r.Text == "" {
		return ToolReply{Text: "text is empty: say in one line what you are doing."}
	}
	if a.Percent != nil {
		percent := int(math.Round(min(max(*a.Percent, 0), 100)))
		r.Percent = &percent
	}
	t.st.Progress = &r
	if wire.Len(a.Text) > protocol.MaxProgress {
		return ToolReply{Text: fmt.Sprintf("Taken; only the first %d bytes are shown.", protocol.MaxProgress), OK: true}
	}
	return ToolReply{Text: "Taken.", OK: true}
}

func (t *calls) open(rpc json.RawMessage, p toolParams) {
	no := func(text string) { t.autos.add(rpc, wire.Outgoing{ID: rpc, Result: toolAnswer(ToolReply{Text: text})}) }
	switch {
	case t.st.callAt(rpc) >= 0:
		return // asked again under the same id
	case wire.JSONLen(p.Args) > maxCallArgs:
		no(fmt.Sprintf("The arguments have %d bytes with all their escapes, at most %d are taken.", wire.JSONLen(p.Args), maxCallArgs))
		return
	case len(t.st.Calls) >= maxCalls:
		no(fmt.Sprintf("%d calls are being carried out at this moment. Call again when one of them was answered.", maxCalls))
		return
	}
	// The state passes through workflows, so secrets are redacted, also for the tool.
	args := json.RawMessage(t.redact(string(p.Args)))
	if !json.Valid(args) {
		args = nil
	}
	t.st.Calls = append(t.st.Calls, OpenCall{RPC: slices.Clone(rpc), Thread: t.st.keyOf(p.ThreadID, "").thread, ToolCall: ToolCall{
		// A model may use one call id twice; a place in the journal is unique.
		ID:   "i" + strconv.Itoa(t.st.Cursor.Incarnation) + "." + strconv.FormatInt(t.line.Offset, 10),
		Call: wire.Excerpt(p.CallID, 200), Tool: p.Tool, Args: args, Turn: t.st.Turn, TurnID: p.TurnID, AtMS: t.st.AtMS,
	}})
}

// done records that codex no longer waits for a call. Only the end of its item shows this:
// codex sends no serverRequest/resolved for tool calls (measured).
func (t *calls) done(call itemKey) {
	var keys []string
	for _, o := range t.st.Open {
		if o.item() == call {
			keys = append(keys, wire.IDKey(o.RPC))
		}
	}
	for _, c := range t.st.Calls {
		if c.Call == call.id && c.Thread == call.thread {
			keys = append(keys, wire.IDKey(c.RPC))
		}
	}
	for _, key := range keys {
		t.requests.answered(key)
	}
}

func (t *calls) begin() {
	for _, c := range t.st.Calls {
		key := wire.IDKey(c.RPC)
		if _, known := t.called[key]; known {
			continue
		}
		if t.called == nil {
			t.called = map[string]time.Duration{}
		}
		t.called[key] = t.now
		if t.opt.Tool == nil {
			t.write(wire.Outgoing{ID: c.RPC, Result: toolAnswer(ToolReply{Text: "Nobody can carry this out now. Go on without it."})})
			continue
		}
		t.due = append(t.due, c)
	}
}

// calling reports whether the report of requests must wait for a call.
func (t *calls) calling() bool {
	for _, c := range t.st.Calls {
		if at, known := t.called[wire.IDKey(c.RPC)]; !known || t.now-at < callGrace {
			return true
		}
	}
	return false
}

func (t *calls) wake(soon func(time.Duration)) {
	for _, c := range t.st.Calls {
		if at, known := t.called[wire.IDKey(c.RPC)]; known {
			soon(at + callGrace)
		}
	}
}

// replied gives the outcome to codex. If this pump dies before codex shows that it has the
// answer, the next pump repeats the call with the same ID, which changes nothing and gives
// the same reply. codex takes the first reply.
func (t *calls) replied(r toolReplied) {
	i := slices.IndexFunc(t.st.Calls, func(c OpenCall) bool { return wire.IDKey(c.RPC) == r.key })
	switch {
	case i < 0: // the turn that wanted it is over
	case r.err != nil:
		t.err = fmt.Errorf("carry out %s for codex: %w", t.st.Calls[i].Tool, r.err)
	case r.reply.OK && r.reply.Delivered != nil && t.in.Thread.Verdict:
		t.requests.askVerdict(t.st.Calls[i], *r.reply.Delivered)
	default:
		r.reply.Text = t.redact(r.reply.Text)
		t.write(wire.Outgoing{ID: t.st.Calls[i].RPC, Result: toolAnswer(r.reply)})
	}
}

func (t *calls) offers(tool string) bool {
	return slices.Contains(t.in.Thread.Tools, tool) || t.ofTeam(tool)
}

func (t *calls) ofTeam(tool string) bool {
	return slices.ContainsFunc(t.in.Thread.Team, func(o protocol.TeamTool) bool { return o.Name == tool })
}

func (s *PumpState) callAt(rpc json.RawMessage) int {
	key := wire.IDKey(rpc)
	return slices.IndexFunc(s.Calls, func(c OpenCall) bool { return wire.IDKey(c.RPC) == key })
}

func (s *PumpState) dropCalls(match func(OpenCall) bool) {
	s.Calls = slices.DeleteFunc(s.Calls, match)
}
