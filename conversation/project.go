package conversation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// Projections show a transcript to readers that do not know its entries. The same entries
// give the same bytes, even if repeated or in another order.

// A ChatRole is the author of a message.
type ChatRole string

// The roles of chat messages.
const (
	RoleUser      ChatRole = "user"
	RoleAssistant ChatRole = "assistant"
	RoleTool      ChatRole = "tool"
)

// A ChatMessage is a message in the form of model providers. The first one is the user's.
// Between two user messages there is one assistant message, or several with the results of
// their calls between them.
type ChatMessage struct {
	ID      string     `json:"id"`
	Role    ChatRole   `json:"role"`
	Content string     `json:"content"`
	Calls   []ChatCall `json:"tool_calls,omitempty"`
	// CallID is the call whose result this message (role tool) is.
	CallID string `json:"tool_call_id,omitempty"`
	// Reasoning has the summaries of the model's reasoning before this message.
	Reasoning string `json:"reasoning_content,omitempty"`
	// Thread is that of the sub-agent that sent the message; empty for the session's own.
	Thread string `json:"thread,omitempty"`
}

// A ChatCall is a tool call.
type ChatCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is a JSON object with sorted keys.
	Arguments string `json:"arguments"`
}

// Whole sorts entries and keeps the first of each id, as every reader of a transcript must.
func Whole(entries []protocol.Entry) []protocol.Entry {
	all := slices.Clone(entries)
	slices.SortStableFunc(all, func(a, b protocol.Entry) int {
		switch {
		case a.Seq < b.Seq:
			return -1
		case a.Seq > b.Seq:
			return 1
		}
		return strings.Compare(string(canonical(a)), string(canonical(b)))
	})
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(e protocol.Entry) bool {
		again := e.ID != "" && seen[e.ID]
		seen[e.ID] = true
		return again
	})
}

// Chat returns the messages of a session's own thread, without requests, decisions and
// states. An error becomes the assistant's message of a turn without one.
func Chat(entries []protocol.Entry) []ChatMessage { return chatOf("", Whole(entries)) }

// ChatWithAgents returns also the messages of each sub-agent, as a chat of its own behind
// that of the session.
func ChatWithAgents(entries []protocol.Entry) []ChatMessage {
	whole := Whole(entries)
	all := chatOf("", whole)
	seen := map[string]bool{"": true}
	for _, e := range whole {
		if thread := e.SubAgent(); !seen[thread] {
			seen[thread] = true
			all = append(all, chatOf(thread, whole)...)
		}
	}
	return all
}

func chatOf(thread string, whole []protocol.Entry) []ChatMessage {
	var c chat
	for _, e := range whole {
		if e.SubAgent() == thread {
			c.add(e)
		}
	}
	c.close()
	for i := range c.all {
		c.all[i].Thread = thread
	}
	return c.all
}

type chat struct {
	thought string // that no message has yet
	of      int    // the turn of thought
	all     []ChatMessage
	said    *ChatMessage
	results []ChatMessage
	failed  string
}

func (c *chat) add(e protocol.Entry) {
	switch e.Type {
	case protocol.EntryUser:
		c.user(e)
	case protocol.EntryAssistant:
		c.assistant(e)
	case protocol.EntryReasoning:
		if len(c.results) > 0 {
			c.flush() // it has thought about the results
		}
		c.thought, c.of = joined(c.thought, e.Text), e.Turn
	case protocol.EntryTool:
		if !opaque[e.Tool] || e.Data["arguments"] != "" {
			c.call(e)
		}
	case protocol.EntryCommand, protocol.EntryFileChange:
		c.call(e)
	case protocol.EntryError:
		c.failed = e.Text
	}
}

// opaque has the types of items that older workers recorded as tools, and that are no tool calls.
var opaque = map[string]bool{
	"collabAgentToolCall": true, "functionCallOutput": true, "hookPrompt": true, "imageGeneration": true, "sleep": true, "subAgentActivity": true,
}

// user begins a user message or, as after a steer, extends the last one.
func (c *chat) user(e protocol.Entry) {
	c.close()
	if e.Turn != c.of {
		c.thought = ""
	}
	if n := len(c.all); n > 0 && c.all[n-1].Role == RoleUser {
		c.all[n-1].Content = joined(c.all[n-1].Content, e.Text)
		return
	}
	c.failed = ""
	c.all = append(c.all, ChatMessage{ID: chatID("msg", e), Role: RoleUser, Content: e.Text})
}

func (c *chat) assistant(e protocol.Entry) {
	if len(c.results) > 0 {
		c.flush() // the next message has seen the results
	}
	c.begin(e)
	c.said.Content = joined(c.said.Content, e.Text)
}

func (c *chat) call(e protocol.Entry) {
	c.begin(e)
	call := ChatCall{ID: chatID("call", e), Name: callName(e), Arguments: callArguments(e)}
	c.said.Calls = append(c.said.Calls, call)
	c.results = append(c.results, ChatMessage{ID: chatID("res", e), Role: RoleTool, Content: callResult(e), CallID: call.ID})
}

// begin opens an assistant message if none is open, after an empty user message if the
// transcript has none yet. It gives it what was thought before.
func (c *chat) begin(e protocol.Entry) {
	if len(c.all) == 0 {
		c.all = append(c.all, ChatMessage{ID: chatID("start", e), Role: RoleUser})
	}
	if c.said == nil {
		c.said = &ChatMessage{ID: chatID("msg", e), Role: RoleAssistant}
	}
	c.said.Reasoning, c.thought = joined(c.said.Reasoning, c.thought), ""
}

func (c *chat) flush() {
	if c.said == nil {
		return
	}
	c.all = append(c.all, *c.said)
	c.all = append(c.all, c.results...)
	c.said, c.results = nil, nil
}

// close ends the assistant's messages. After a tool result or a failed user message it adds
// one, to keep the alternation.
func (c *chat) close() {
	c.flush()
	n := len(c.all)
	if n == 0 {
		return
	}
	last := c.all[n-1]
	switch {
	case last.Role == RoleTool:
	case last.Role == RoleUser && c.failed != "":
	default:
		return
	}
	c.all = append(c.all, ChatMessage{ID: "end_" + strings.SplitN(last.ID, "_", 2)[1], Role: RoleAssistant, Content: c.failed, Reasoning: c.thought})
	c.failed, c.thought = "", ""
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// chatID derives an id from the entry's. It is the same in every replay and says nothing
// about the session.
func chatID(kind string, e protocol.Entry) string {
	sum := sha256.Sum256([]byte(orWord(e.ID, strconv.FormatInt(e.Seq, 10))))
	return kind + "_" + hex.EncodeToString(sum[:12])
}

func callName(e protocol.Entry) string {
	switch e.Type {
	case protocol.EntryCommand:
		return "shell"
	case protocol.EntryFileChange:
		return "apply_patch"
	}
	return orWord(e.Tool, "tool")
}

func callArguments(e protocol.Entry) string {
	switch e.Type {
	case protocol.EntryCommand:
		args := map[string]any{"command": e.Command}
		if e.CWD != "" {
			args["cwd"] = e.CWD
		}
		return string(canonical(args))
	case protocol.EntryFileChange:
		return sortedArguments(string(canonical(map[string]any{"changes": e.Changes})))
	}
	if name := argumentOf[e.Tool]; name != "" && e.Data["arguments"] == "" {
		return string(canonical(map[string]any{name: e.Text}))
	}
	return sortedArguments(e.Data["arguments"])
}

// argumentOf names the argument that is the text of a tool's entry.
var argumentOf = map[string]string{"webSearch": "query", "imageView": "path"}

// sortedArguments returns arguments as an object with sorted keys. Arguments that are no
// JSON object become a text in one.
func sortedArguments(text string) string {
	if text == "" {
		return "{}"
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var object map[string]any
	if d.Decode(&object) == nil && object != nil && !d.More() {
		return string(canonical(object))
	}
	return string(canonical(map[string]any{"arguments": text}))
}

func callResult(e protocol.Entry) string {
	var b strings.Builder
	if e.Type != protocol.EntryFileChange && argumentOf[e.Tool] == "" {
		b.WriteString(e.Text)
	}
	note := e.Status
	if e.ExitCode != nil && *e.ExitCode != 0 {
		note = fmt.Sprintf("exit code %d", *e.ExitCode)
	}
	if note != "" && (note != "completed" || b.Len() == 0) {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString("[" + note + "]")
	}
	return b.String()
}

// ChatLines returns the messages as lines of JSON.
func ChatLines(entries []protocol.Entry) []byte { return messageLines(Chat(entries)) }

// ChatLinesWithAgents does so with the messages of sub-agents.
func ChatLinesWithAgents(entries []protocol.Entry) []byte {
	return messageLines(ChatWithAgents(entries))
}

func messageLines(all []ChatMessage) []byte {
	var b bytes.Buffer
	for _, m := range all {
		b.Write(canonical(m))
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// JSONLines returns the entries as lines of JSON.
func JSONLines(entries []protocol.Entry) []byte {
	var b bytes.Buffer
	for _, e := range Whole(entries) {
		b.Write(canonical(e))
		b.WriteByte('\n')
	}
	return b.Bytes()
}
