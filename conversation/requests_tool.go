package conversation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
)

// codex asks by an elicitation whether an MCP tool may be called. It also passes on
// elicitations of servers with any _meta, so a server could imitate the question. So an
// elicitation counts as codex's only if a call of that tool with those arguments has begun,
// nothing was asked about it yet, the message is codex's own sentence, and there is nothing
// to fill in.

// codexApps is the server whose tools codex names by their app.
const codexApps = "codex_apps"

func callOf(server, tool string, args json.RawMessage) string {
	v, err := plainJSON(args)
	if err != nil {
		v = nil
	}
	sum := sha256.Sum256(canonical([]any{server, tool, v}))
	return hex.EncodeToString(sum[:])
}

// asForm turns a server's imitation of codex's question into the server's form.
func (a *asked) asForm() (err error) {
	a.ofTool, a.Tool, a.Args, a.Amendment = false, "", nil, nil
	a.Questions, err = formQuestions(a.Schema)
	return err
}

// ofCodex reports whether codex itself asks about a tool, once for each call.
func (s *PumpState) ofCodex(a *asked) bool {
	end := " to run tool \"" + a.Tool + "\"?"
	own := a.Message == "Allow the "+a.Server+" MCP server"+end ||
		a.Server == codexApps && strings.HasPrefix(a.Message, "Allow ") && strings.HasSuffix(a.Message, end)
	if questions, err := formQuestions(a.Schema); !own || err != nil || len(questions) > 0 {
		return false
	}
	thread, call := "", callOf(a.Server, a.Tool, a.Args)
	if !s.ours(wire.Notice{ThreadID: a.thread}) {
		thread = a.thread
	}
	for i := range s.Items {
		if it := &s.Items[i]; it.Call == call && it.Thread == thread {
			it.Call, a.item = "", it.ID
			return true
		}
	}
	return false
}

// toolItem returns the MCP tool call that an elicitation probably belongs to: the oldest
// without another open request.
func (s *PumpState) toolItem(thread string) string {
	for _, it := range s.Items {
		if it.Type == "mcpToolCall" && it.Thread == thread && !s.asksFor(it.key()) {
			return it.ID
		}
	}
	return ""
}
