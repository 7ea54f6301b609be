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
	// maxCalls bounds the calls that are carried out at once; the model is told to wait
	// with more.
	maxCalls = 8
	// maxCallArgs bounds the arguments of one call, which the state holds, in bytes.
	maxCallArgs = 8 << 10
	// callGrace is how long a pump with requests to report stays for a call that is
	// being carried out, because the next pump would have to begin it again.
	callGrace = 10 * time.Second

	// MaxProgress bounds the text of a progress report, and maxStep its step, in bytes.
	MaxProgress = 500
	maxStep     = 60
)

// An OpenCall is a tool call that is not known to be answered.
type OpenCall struct {
	RPC    json.RawMessage `json:"rpc"`
	Thread string          `json:"thread,omitempty"` // a sub-agent's, if it is not the session's
	ToolCall
}

// Progress is the model's newest report on its work.
type Progress struct {
	Turn    int    `json:"turn"`
	Text    string `json:"text"`
	Percent *int   `json:"percent,omitempty"`
	Step    string `json:"step,omitempty"`
	AtMS    int64  `json:"at_ms,omitempty"`
}

type toolReplied struct {
	key   string
	reply ToolReply
	err   error
}

// toolCalled handles codex's call of a tool. Progress is stored and answered at
// once. A call that has to be carried out stays in the state until codex is known
// to have the answer, so that a later pump carries it out again.
func (m *machine) toolCalled(msg *message) {
	var p toolParams
	if err := json.Unmarshal(msg.Params, &p); err != nil || p.Space != nil && *p.Space != "" || !m.offers(p.Tool) {
		m.autos.refuse(msg, "")
		return
	}
	switch p.Tool {
	case ToolAskHuman:
		m.demand(msg, readHumanQuestion)
	case ToolProgress:
		m.autos.add(msg.ID, outgoing{ID: msg.ID, Result: toolAnswer(m.progress(p.Args))})
	case ToolDeliver:
		m.openCall(msg.ID, p)
	default:
		m.autos.refuse(msg, "")
	}
}

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
	no := func(text string) { m.autos.add(rpc, outgoing{ID: rpc, Result: toolAnswer(ToolReply{Text: text})}) }
	switch {
	case m.st.callAt(rpc) >= 0:
		return // asked again under the same id
	case jsonLen(p.Args) > maxCallArgs:
		no(fmt.Sprintf("The arguments have %d bytes with all their escapes, at most %d are taken.", jsonLen(p.Args), maxCallArgs))
		return
	case len(m.st.Calls) >= maxCalls:
		no(fmt.Sprintf("%d calls are being carried out at this moment. Call again when one of them was answered.", maxCalls))
		return
	}
	// The state goes through workflows, so secrets are redacted, and the call is made
	// with the redacted text.
	args := json.RawMessage(m.redact(string(p.Args)))
	if !json.Valid(args) {
		args = nil
	}
	m.st.Calls = append(m.st.Calls, OpenCall{RPC: slices.Clone(rpc), Thread: m.st.keyOf(p.ThreadID, "").thread, ToolCall: ToolCall{
		// The journal position, because a model may use one id twice.
		ID:   "i" + strconv.Itoa(m.st.Cursor.Incarnation) + "." + strconv.FormatInt(m.line.Offset, 10),
		Call: excerpt(p.CallID, 200), Tool: p.Tool, Args: args, Turn: m.st.Turn, TurnID: p.TurnID, AtMS: m.st.AtMS,
	}})
}

// toolDone records that a call is over: codex has its answer, or no longer wants
// one. Only the end of the item, which has the call's id, shows it; there is no
// serverRequest/resolved for tool calls (measured).
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

// callTools has the open calls carried out, once each in this pump.
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

// calling reports whether to stay for a call although requests wait to be reported.
func (m *machine) calling() bool {
	for _, c := range m.st.Calls {
		if at, known := m.called[idKey(c.RPC)]; !known || m.now-at < callGrace {
			return true
		}
	}
	return false
}

// callsWake registers when calling may change.
func (m *machine) callsWake(soon func(time.Duration)) {
	for _, c := range m.st.Calls {
		if at, known := m.called[idKey(c.RPC)]; known {
			soon(at + callGrace)
		}
	}
}

// brokered takes what the broker said about a token.
func (m *machine) brokered(a tokenAnswered, now time.Duration) {
	m.now = now
	if m.result != nil || m.err != nil {
		return
	}
	m.logins.brokered(a)
	m.step()
}

// toolReplied gives the outcome of a call to codex. The call stays open until codex
// shows that it has the answer. If this pump dies first, the next one repeats the
// call with the same ID, which changes nothing and gives the same reply; codex
// takes the first.
func (m *machine) toolReplied(r toolReplied, now time.Duration) {
	m.now = now
	if m.result != nil || m.err != nil {
		return
	}
	i := slices.IndexFunc(m.st.Calls, func(c OpenCall) bool { return idKey(c.RPC) == r.key })
	switch {
	case i < 0: // the turn that wanted it is over
	case r.err != nil:
		m.err = fmt.Errorf("carry out %s for codex: %w", m.st.Calls[i].Tool, r.err)
		return
	default:
		r.reply.Text = m.redact(r.reply.Text)
		m.write(outgoing{ID: m.st.Calls[i].RPC, Result: toolAnswer(r.reply)})
	}
	m.step()
}

func (s *PumpState) callAt(rpc json.RawMessage) int {
	key := idKey(rpc)
	return slices.IndexFunc(s.Calls, func(c OpenCall) bool { return idKey(c.RPC) == key })
}

func (s *PumpState) dropCalls(match func(OpenCall) bool) {
	s.Calls = slices.DeleteFunc(s.Calls, match)
}
