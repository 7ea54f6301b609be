package conversation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// An mcpServer is an MCP server over plain loopback HTTP, with one tool, which may
// ask the person something before it answers.
type mcpServer struct {
	*httptest.Server
	t *testing.T
	// ask holds the params of elicitation/create. Without it the tool answers at
	// once.
	ask json.RawMessage
	// harmless says that the tool only reads, so codex asks nobody.
	harmless bool
	// tells says that the tool tells how far it is before it answers.
	tells bool

	mu      sync.Mutex
	calls   int
	answers chan json.RawMessage
}

// config is the part of config.toml that names the server.
func (s *mcpServer) config() string {
	return fmt.Sprintf("[mcp_servers.desk]\nurl = %q\n", s.URL)
}

func serveMCP(t *testing.T, ask string) *mcpServer {
	t.Helper()
	s := &mcpServer{t: t, ask: json.RawMessage(ask), answers: make(chan json.RawMessage, 10)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.CloseClientConnections)
	return s
}

func (s *mcpServer) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *mcpServer) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed) // the server sends no events of its own
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply := func(result string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	send := func(text string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text))
	}
	switch {
	case m.Method == "initialize":
		var p struct {
			Version string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(m.Params, &p)
		send(reply(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"desk","version":"1"}}`, p.Version)))
	case m.Method == "tools/list":
		send(reply(fmt.Sprintf(`{"tools":[{"name":"book","description":"books a table","annotations":{"readOnlyHint":%v},"inputSchema":{"type":"object","properties":{"for":{"type":"string"}}}}]}`, s.harmless)))
	case m.Method == "tools/call":
		s.mu.Lock()
		s.calls++
		s.mu.Unlock()
		if s.tells {
			var p struct {
				Meta struct {
					Token json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			}
			_ = json.Unmarshal(m.Params, &p)
			if p.Meta.Token == nil {
				p.Meta.Token = json.RawMessage("0")
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1,\"total\":2,\"message\":\"asking the kitchen\"}}\n\n", p.Meta.Token)
			w.(http.Flusher).Flush()
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", reply(`{"content":[{"type":"text","text":"booked"}]}`))
			return
		}
		if len(s.ask) == 0 {
			send(reply(`{"content":[{"type":"text","text":"booked"}]}`))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"ask-1\",\"method\":\"elicitation/create\",\"params\":%s}\n\n", s.ask)
		w.(http.Flusher).Flush()
		select {
		case answer := <-s.answers:
			text, _ := json.Marshal("the person said " + string(answer))
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", reply(fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text)))
		case <-r.Context().Done():
		}
	case m.Method == "" && string(m.ID) == `"ask-1"`:
		s.answers <- m.Result
		w.WriteHeader(http.StatusAccepted)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s here"}}`, m.ID, m.Method))
	}
}
