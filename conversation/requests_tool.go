package conversation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// codex asks whether an MCP tool may be called in the words of an elicitation,
// and passes on elicitations of servers with whatever _meta those have. So that
// no server's question passes for codex's, one is taken for codex's only if a
// call of that tool with those arguments has begun and nothing was asked of it
// yet, in codex's own sentence, and nothing is to be filled in.

// codexApps is the server whose tools codex names by the app that they are of.
const codexApps = "codex_apps"

// callOf stands for a call of an MCP tool, to compare.
func callOf(server, tool string, args json.RawMessage) string {
	v, err := plainJSON(args)
	if err != nil {
		v = nil
	}
	sum := sha256.Sum256(canonical([]any{server, tool, v}))
	return hex.EncodeToString(sum[:])
}

// ofCodex says whether an elicitation that claims to be codex's question for a
// tool is that. There is one for each call.
func (m *machine) ofCodex(a *asked) bool {
	end := " to run tool \"" + a.Tool + "\"?"
	own := a.Message == "Allow the "+a.Server+" MCP server"+end ||
		a.Server == codexApps && strings.HasPrefix(a.Message, "Allow ") && strings.HasSuffix(a.Message, end)
	if questions, err := formQuestions(a.Schema); !own || err != nil || len(questions) > 0 {
		return false
	}
	thread, call := "", callOf(a.Server, a.Tool, a.Args)
	if !m.ours(notice{ThreadID: a.thread}) {
		thread = a.thread
	}
	for i := range m.st.Items {
		if it := &m.st.Items[i]; it.Call == call && it.Thread == thread {
			it.Call, a.item = "", it.ID
			return true
		}
	}
	return false
}

// asForm makes a server's own form of what claimed to be a question of codex's.
func (a *asked) asForm() (err error) {
	a.ofTool, a.Tool, a.Args, a.Amendment = false, "", nil, nil
	a.Questions, err = formQuestions(a.Schema)
	return err
}
