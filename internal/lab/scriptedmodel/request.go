package scriptedmodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// request is the part of a Responses request that answers depend on. The
// shapes are those of codex-cli 0.169.
type request struct {
	Model    string          `json:"model"`
	Input    []item          `json:"input"`
	Tools    []tool          `json:"tools"`
	CacheKey string          `json:"prompt_cache_key"`
	Stream   bool            `json:"stream"`
	Text     json.RawMessage `json:"text"`
}

// item is one element of the history. Which fields are set depends on Type.
type item struct {
	Type      string  `json:"type"`
	Role      string  `json:"role"`
	Content   content `json:"content"`
	CallID    string  `json:"call_id"`
	Name      string  `json:"name"`
	Arguments any     `json:"arguments"`
	Output    content `json:"output"`
	Tools     []tool  `json:"tools"` // of type additional_tools
}

type tool struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Tools []tool `json:"tools"` // of a namespace
}

// content is a list of texts. On the wire it is a text or a list of parts;
// parts without text (images, audio) are dropped.
type content []string

func (c *content) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*c = content{one}
		return nil
	}
	var parts []struct {
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		// Outputs of other tools may be objects.
		*c = content{string(b)}
		return nil
	}
	*c = nil
	for _, p := range parts {
		if p.Text != nil {
			*c = append(*c, *p.Text)
		}
	}
	return nil
}

func parseRequest(body []byte) (*request, error) {
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("read the request's body: %w", err)
	}
	if !r.Stream {
		return nil, fmt.Errorf("the request does not ask for a stream, and nothing else is spoken here")
	}
	return &r, nil
}

// conversationID returns the thread that a request belongs to. codex 0.169
// sends it in Thread-Id; the others are from older versions and other clients.
func conversationID(h http.Header, cacheKey string) string {
	for _, name := range []string{"Thread-Id", "Conversation_id", "Session-Id", "Session_id"} {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return cacheKey
}

// userMessages returns the messages that people typed, oldest first.
func (r *request) userMessages() []string {
	var all []string
	for _, it := range r.Input {
		if text, ok := it.userMessage(); ok {
			all = append(all, text)
		}
	}
	return all
}

func (it item) userMessage() (string, bool) {
	if it.Type != "message" || it.Role != "user" {
		return "", false
	}
	text := strings.Join(it.Content, "\n")
	return text, !isContext(text)
}

// isContext reports whether codex wrote the user message itself: one whole
// element such as <environment_context>…</environment_context> or
// <turn_aborted>…</turn_aborted>, or the contents of AGENTS.md.
func isContext(text string) bool {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "# AGENTS.md instructions") {
		return true
	}
	name, _, ok := strings.Cut(strings.TrimPrefix(text, "<"), ">")
	if !ok || !strings.HasPrefix(text, "<") || name == "" {
		return false
	}
	name, _, _ = strings.Cut(name, " ")
	return strings.HasSuffix(text, "</"+name+">")
}

// sinceUser returns the history after the latest user message.
func (r *request) sinceUser() []item {
	for i := len(r.Input) - 1; i >= 0; i-- {
		if _, ok := r.Input[i].userMessage(); ok {
			return r.Input[i+1:]
		}
	}
	return r.Input
}

// cwd returns the working directory that codex last told the model.
func (r *request) cwd() string {
	for i := len(r.Input) - 1; i >= 0; i-- {
		it := r.Input[i]
		if it.Role != "user" {
			continue
		}
		_, rest, ok := strings.Cut(strings.Join(it.Content, "\n"), "<environment_context>")
		if !ok {
			continue
		}
		_, rest, ok = strings.Cut(rest, "<cwd>")
		if cwd, _, end := strings.Cut(rest, "</cwd>"); ok && end {
			return cwd
		}
	}
	return ""
}
