package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A ThreadClash says that a message of codex names two threads as the one it is about.
type ThreadClash struct {
	What     string // method of the message, or of the request that it answers
	One, Two string // a name and an id each, such as "threadId 01a2"
}

func (e *ThreadClash) Error() string {
	return fmt.Sprintf("codex's %s names two threads as its own, %s and %s: it cannot be known which one it is about", e.What, e.One, e.Two)
}

// oneThread returns the id that the names agree on. Empty ids do not count.
func oneThread(what string, names ...[2]string) (string, error) {
	var first [2]string
	for _, n := range names {
		switch {
		case n[1] == "":
		case first[1] == "":
			first = n
		case n[1] != first[1]:
			said := func(n [2]string) string { return n[0] + " " + Excerpt(n[1], 100) }
			return "", &ThreadClash{What: what, One: said(first), Two: said(n)}
		}
	}
	return first[1], nil
}

// OfThread returns the thread's id in an answer to method, or a *ThreadClash. The member
// thread.sessionId is not looked at: threads of one tree share it.
func (a ThreadAnswer) OfThread(method string) (string, error) {
	return oneThread("answer to "+method, [2]string{"thread.id", a.Thread.ID}, [2]string{"threadId", a.ThreadID}, [2]string{"sessionId", a.SessionID})
}

// ofThread reports whether a sessionId in the message's params is a thread's.
func ofThread(method string) bool {
	switch method {
	case "error", "warning", "guardianWarning", "serverRequest/resolved", "turn_aborted", "codex/event/turn_aborted", "mcpServer/elicitation/request":
		return true
	}
	return strings.HasPrefix(method, "turn/") || strings.HasPrefix(method, "item/") || strings.HasPrefix(method, "thread/") && !strings.HasPrefix(method, "thread/realtime/")
}

// nameThread returns the params with the thread's id as threadId. Versions of codex call
// it threadId, thread.id or sessionId. The error is a *ThreadClash.
func nameThread(method string, params json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(params, []byte(`"sessionId"`)) && !bytes.Contains(params, []byte(`"thread"`)) || !ofThread(method) {
		return params, nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(params, &all) != nil {
		return params, nil
	}
	text := func(raw json.RawMessage) (s string) {
		_ = json.Unmarshal(raw, &s) // anything else names no thread
		return s
	}
	var thread struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(all["thread"], &thread)
	named := text(all["threadId"])
	id, err := oneThread(method, [2]string{"threadId", named}, [2]string{"thread.id", text(thread.ID)}, [2]string{"sessionId", text(all["sessionId"])})
	if err != nil || id == "" || id == named {
		return params, err
	}
	quoted, err := json.Marshal(id)
	if err != nil {
		return params, nil
	}
	all["threadId"] = quoted
	again, err := json.Marshal(all)
	if err != nil {
		return params, nil
	}
	return again, nil
}
