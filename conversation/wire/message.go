package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// A Message is a request (ID and Method), a response (ID and Result or Error) or a
// notification (Method).
type Message struct {
	ID          json.RawMessage `json:"id"`
	Method      string          `json:"method"`
	Params      json.RawMessage `json:"params"`
	Result      json.RawMessage `json:"result"`
	Error       *RPCError       `json:"error"`
	EmittedAtMS int64           `json:"emittedAtMs"`

	// Clash is set if the params name two threads.
	Clash error `json:"-"`
}

func (m *Message) IsRequest() bool  { return m.Method != "" && m.ID != nil }
func (m *Message) IsResponse() bool { return m.Method == "" && m.ID != nil }

// An RPCError is an error answer. codex uses -32600 for nearly everything, including
// unknown methods.
type RPCError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *RPCError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Codes that we send or check for.
const (
	CodeOverloaded     = -32001 // try again later
	CodeInvalidRequest = -32600
	CodeNoMethod       = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// Parse reads one line. It fails unless the line is a request, a response or a
// notification. The params name their thread as threadId.
func Parse(raw []byte) (*Message, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil, fmt.Errorf("no JSON object")
	}
	var m Message
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	if m.ID != nil && !ValidID(m.ID) {
		if string(m.ID) != "null" {
			return nil, fmt.Errorf("id is neither string nor number")
		}
		m.ID = nil
	}
	if m.Method == "" && m.ID == nil {
		return nil, fmt.Errorf("neither method nor id")
	}
	m.Params, m.Clash = nameThread(m.Method, m.Params)
	return &m, nil
}

// ValidID reports whether raw is a JSON string or number.
func ValidID(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	if c := raw[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
		return false
	}
	return json.Valid(raw)
}

// IDKey makes ids comparable: a string may be escaped in several ways, and 1 is not "1".
func IDKey(raw json.RawMessage) string {
	if s, ok := StringID(raw); ok {
		return strconv.Quote(s)
	}
	return string(bytes.TrimSpace(raw))
}

// StringID returns an id that is a JSON string.
func StringID(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// Outgoing is a line that we write.
type Outgoing struct {
	ID     any       `json:"id,omitempty"`
	Method string    `json:"method,omitempty"`
	Params any       `json:"params,omitempty"`
	Result any       `json:"result,omitempty"`
	Error  *RPCError `json:"error,omitempty"`
}

// Encode returns the line with its newline. HTML escapes would only make prompts longer.
func (o Outgoing) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
