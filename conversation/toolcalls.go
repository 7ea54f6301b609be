package conversation

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxCalls are those that may be carried out at once; of more, the model
	// hears that it has to wait.
	maxCalls = 8
	// maxCallArgs bounds the arguments of one, which the state holds.
	maxCallArgs = 8 << 10
	// callGrace is how long a pump that has requests to report stays for a call
	// that is being carried out: the next one would have to begin it anew.
	callGrace = 10 * time.Second

	// MaxProgress bounds the text of a report of progress, and maxStep its
	// step, in bytes.
	MaxProgress = 500
	maxStep     = 60
)

// An OpenCall is a call that nobody is known to have answered.
type OpenCall struct {
	RPC    json.RawMessage `json:"rpc"`
	Thread string          `json:"thread,omitempty"` // a sub-agent's, if it is not the session's
	ToolCall
}

// Progress is the newest that the model reported of its work.
type Progress struct {
	Turn    int    `json:"turn"`
	Text    string `json:"text"`
	Percent *int   `json:"percent,omitempty"`
	Step    string `json:"step,omitempty"`
	AtMS    int64  `json:"at_ms,omitempty"`
}

// A toolReplied is what became of a call.
type toolReplied struct {
	key   string
	reply ToolReply
	err   error
}

// toolCalled takes codex's call of a tool. Progress is taken note of and
// answered at once; what has to be carried out stays in the state until it is
// known that codex has its answer, so that a later pump carries it out again.
func (m *machine) toolCalled(msg *message) {
	var p toolParams
	if err := json.Unmarshal(msg.Params, &p); err != nil || p.Space != nil && *p.Space != "" || !m.offers(p.Tool) {
		m.refuse(msg, "")
		return
	}
	switch p.Tool {
	case ToolAskHuman:
		m.demand(msg, readHumanQuestion)
	case ToolProgress:
		m.auto(msg.ID, outgoing{ID: msg.ID, Result: toolAnswer(m.progress(p.Args))})
	case ToolDeliver:
		m.openCall(msg.ID, p)
	default:
		m.refuse(msg, "")
	}
}

// progress takes a report into the state.
func (m *machine) progress(args json.RawMessage) ToolReply {
	var a struct {
		Text    string   `json:"text"`
		Percent *float64 `json:"percent"`
		Step    string   `json:"step"`
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return ToolReply{Text: "The arguments are not as described: " + err.Error()}
	}
	line := func(s string, most int) string { // secrets go before anything is cut
		return excerpt(strings.Join(strings.Fields(m.redact(s)), " "), most)
	}
	r := Progress{Turn: m.st.Turn, Text: line(a.Text, MaxProgress), Step: line(a.Step, maxStep), AtMS: m.st.AtMS}
	if r.Text == "" {
		return ToolReply{Text: "text is empty: say in one line what you are doing."}
	}
	if a.Percent != nil {
		percent := int(math.Round(min(max(*a.Percent, 0), 100)))
		r.Percent = &percent
	}
	m.st.Progress = &r
	if wireLen(a.Text) > MaxProgress {
		return ToolReply{Text: fmt.Sprintf("Taken; only the first %d bytes are shown.", MaxProgress), OK: true}
	}
	return ToolReply{Text: "Taken.", OK: true}
}

func (m *machine) openCall(rpc json.RawMessage, p toolParams) {
	no := func(text string) { m.auto(rpc, outgoing{ID: rpc, Result: toolAnswer(ToolReply{Text: text})}) }
	switch {
	case m.callAt(rpc) >= 0:
		return // asked again under the same id
	case jsonLen(p.Args) > maxCallArgs:
		no(fmt.Sprintf("The arguments have %d bytes with all their escapes, at most %d are taken.", jsonLen(p.Args), maxCallArgs))
		return
	case len(m.st.Calls) >= maxCalls:
		no(fmt.Sprintf("%d calls are being carried out at this moment. Call again when one of them was answered.", maxCalls))
		return
	}
	// Where a secret is part of them it is not carried out as meant, and the
	// state goes through workflows.
	args := json.RawMessage(m.redact(string(p.Args)))
	if !json.Valid(args) {
		args = nil
	}
	m.st.Calls = append(m.st.Calls, OpenCall{RPC: slices.Clone(rpc), Thread: m.keyOf(p.ThreadID, "").thread, ToolCall: ToolCall{
		// The place in the journal: a model may use an id of its own twice.
		ID:   "i" + strconv.Itoa(m.st.Cursor.Incarnation) + "." + strconv.FormatInt(m.line.Offset, 10),
		Call: excerpt(p.CallID, 200), Tool: p.Tool, Args: args, Turn: m.st.Turn, TurnID: p.TurnID, AtMS: m.st.AtMS,
	}})
}

// toolDone says that a call is over: codex has its answer, or wants none any
// more. It says so by the end of the item alone, which bears the call's id; there
// is no serverRequest/resolved for calls of tools (measured).
func (m *machine) toolDone(call itemKey) {
	var keys []string
	for _, o := range m.st.Open {
		if o.item() == call {
			keys = append(keys, idKey(o.RPC))
		}
	}
	for _, c := range m.st.Calls {
		if c.Call == call.id && c.Thread == call.thread {
			keys = append(keys, idKey(c.RPC))
		}
	}
	for _, key := range keys {
		m.answered(key)
	}
}

func (m *machine) callAt(rpc json.RawMessage) int {
	key := idKey(rpc)
	return slices.IndexFunc(m.st.Calls, func(c OpenCall) bool { return idKey(c.RPC) == key })
}

func (m *machine) dropCalls(match func(OpenCall) bool) {
	m.st.Calls = slices.DeleteFunc(m.st.Calls, match)
}

// callTools has what is open carried out, once for each call in this pump.
func (m *machine) callTools() {
	for _, c := range m.st.Calls {
		key := idKey(c.RPC)
		if _, known := m.called[key]; known {
			continue
		}
		if m.called == nil {
			m.called = map[string]time.Duration{}
		}
		m.called[key] = m.now
		if m.opt.Tool == nil {
			m.write(outgoing{ID: c.RPC, Result: toolAnswer(ToolReply{Text: "Nobody can carry this out now. Go on without it."})})
			continue
		}
		m.calls = append(m.calls, c)
	}
}

// calling says whether a call is worth staying for although requests wait to
// be reported.
func (m *machine) calling() bool {
	for _, c := range m.st.Calls {
		if at, known := m.called[idKey(c.RPC)]; !known || m.now-at < callGrace {
			return true
		}
	}
	return false
}

// callsWake is when that is to be asked again.
func (m *machine) callsWake(soon func(time.Duration)) {
	for _, c := range m.st.Calls {
		if at, known := m.called[idKey(c.RPC)]; known {
			soon(at + callGrace)
		}
	}
}

// toolReplied takes what became of a call and tells codex. The call stays open
// until codex says that it has the answer: should this pump die before, the
// next one has it carried out again, which changes nothing, and says the same;
// codex takes the first answer and ignores the second.
func (m *machine) toolReplied(r toolReplied, now time.Duration) {
	m.now = now
	if m.result != nil || m.err != nil {
		return
	}
	i := slices.IndexFunc(m.st.Calls, func(c OpenCall) bool { return idKey(c.RPC) == r.key })
	switch {
	case i < 0: // the turn is over that wanted it
	case r.err != nil:
		m.err = fmt.Errorf("carry out %s for codex: %w", m.st.Calls[i].Tool, r.err)
		return
	default:
		r.reply.Text = m.redact(r.reply.Text)
		m.write(outgoing{ID: m.st.Calls[i].RPC, Result: toolAnswer(r.reply)})
	}
	m.step()
}
