package conversation

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// An auto is an answer that needs nobody to decide. It is written once the
// journal is read up to the pump's start and nothing there resolved it.
type auto struct {
	key  string
	line outgoing
}

func (m *machine) auto(id json.RawMessage, o outgoing) {
	m.autos = append(m.autos, auto{key: idKey(id), line: o})
}

func (m *machine) flushAutos() {
	for _, a := range m.autos {
		m.write(a.line)
	}
	m.autos = nil
}

// request takes what codex asks us. Nothing is left hanging: what a person
// decides becomes a Request, all else is answered at once.
func (m *machine) request(msg *message) {
	switch msg.Method {
	case "item/commandExecution/requestApproval":
		m.approval(msg, KindCommand)
	case "item/fileChange/requestApproval":
		m.approval(msg, KindFileChange)
	case methodTokenRefresh:
		m.tokenAsked(msg)
	case "currentTime/read":
		m.auto(msg.ID, outgoing{ID: msg.ID, Result: map[string]int64{"currentTimeAt": m.opt.clock().Unix()}})
	default:
		m.refuse(msg)
	}
}

// refuse answers in the shape that the request wants, so that codex goes on.
func (m *machine) refuse(msg *message) {
	o := outgoing{ID: msg.ID}
	what := msg.Method
	failure := func(text string) { o.Error = &RPCError{Code: CodeInvalidRequest, Message: text} }
	switch msg.Method {
	case "item/permissions/requestApproval":
		what = "more permissions"
		o.Result = map[string]any{"permissions": struct{}{}, "scope": "turn"}
	case "item/tool/requestUserInput":
		what = "an answer to its questions"
		failure("nobody can answer questions in this session")
	case "mcpServer/elicitation/request":
		what = "an answer for an MCP server"
		o.Result = map[string]string{"action": "decline"}
	case "item/tool/call":
		what = "a tool of ours"
		o.Result = map[string]any{"success": false, "contentItems": []map[string]string{{"type": "inputText", "text": "this session offers no such tool"}}}
	case methodTokenRefresh:
		what = "new login tokens"
		failure("this session has no tokens to give")
	case "attestation/generate":
		what = "an attestation"
		failure("this client does not attest")
	case "item/commandExecution/requestApproval", "item/fileChange/requestApproval":
		what = "one more approval than can be open, or one that cannot be read"
		failure("too many approvals are open, or this one cannot be read")
	case "applyPatchApproval", "execCommandApproval":
		failure("approvals of the first protocol are not supported; use a newer codex")
	default:
		failure("this client does not know " + msg.Method)
	}
	m.auto(msg.ID, o)
	m.entry(Entry{Type: EntryRequest, Turn: m.st.Turn, Status: "refused",
		Text: "codex asked for " + what + "; it was refused", Data: map[string]string{"method": msg.Method}})
}

// approval opens a request for a person, with what it takes to decide it.
func (m *machine) approval(msg *message, kind RequestKind) {
	var p approvalParams
	if err := json.Unmarshal(msg.Params, &p); err != nil {
		m.log.Warn("unreadable approval", "method", msg.Method, "error", err)
		m.refuse(msg)
		return
	}
	if m.openAt(msg.ID) >= 0 {
		return // asked again under the same id
	}
	if len(m.st.Open) >= maxRequests {
		m.refuse(msg)
		return
	}
	m.st.AtMS = max(m.st.AtMS, p.StartedAtMS) // requests bear no other time
	a := asked{Kind: kind, Network: p.Network, Permissions: p.Permissions}
	switch kind {
	case KindCommand:
		a.Command, a.CWD = p.Command, p.CWD
		if p.Kind != "command" {
			a.Action = p.Kind
		}
	case KindFileChange:
		a.Changes, a.GrantRoot = m.items[p.ItemID], p.GrantRoot
	}
	r := m.describe(a, p)
	r.RPC = append(json.RawMessage(nil), msg.ID...)
	r.Incarnation, r.TurnID, r.ItemID = m.st.Cursor.Incarnation, p.TurnID, p.ItemID
	r.Offered = []string{"accept", "accept_for_session", "decline", "cancel"}
	r.Digest = a.digest()
	m.entry(Entry{Type: EntryRequest, Turn: m.st.Turn, Text: r.Summary, Status: "open", Item: r.ItemID,
		Command: r.Command, CWD: r.CWD, Changes: r.Changes, Digest: r.Digest, Data: reasonData(kind, r.Reason)})
	if m.err != nil {
		return
	}
	if err := m.sink.Request(*r); err != nil {
		m.err = fmt.Errorf("hand over request %s: %w", r.RPC, err)
		return
	}
	if !m.unreported() {
		m.unreportedAt = m.now
	}
	m.requests = append(m.requests, r)
	m.st.Open = append(m.st.Open, OpenRequest{RPC: r.RPC, Item: r.ItemID, TurnID: r.TurnID})
}

// describe tells a person what is asked. Secrets go before anything is cut, so
// that no half of one is left.
func (m *machine) describe(a asked, p approvalParams) *Request {
	r := &Request{
		Kind: a.Kind, Command: m.redact(a.Command), CWD: m.redact(a.CWD),
		Reason: m.redact(p.Reason), Changes: m.redactChanges(changes(a.Changes)),
	}
	if a.Kind == KindFileChange {
		r.Summary = changeSummary(r.Changes)
		if a.GrantRoot != "" {
			r.Summary += ", and whatever else lies under " + m.redact(a.GrantRoot)
		}
		return r
	}
	command := quoteShort(m.redact(shownCommand(p)))
	host := networkHost(a.Network)
	switch {
	case host != "":
		r.Summary = "reach " + host + " for " + command
	case a.Action != "":
		r.Summary = a.Action + " " + command
	default:
		r.Summary = "run " + command
	}
	return r
}

func reasonData(kind RequestKind, reason string) map[string]string {
	d := map[string]string{"kind": string(kind)}
	if reason != "" {
		d["reason"] = reason
	}
	return d
}

// openAt is the place of an open request in the state, or -1.
func (m *machine) openAt(rpc json.RawMessage) int {
	key := idKey(rpc)
	for i, o := range m.st.Open {
		if idKey(o.RPC) == key {
			return i
		}
	}
	return -1
}

// dropOpen closes the open requests that match; those that the workflow knows
// are told to it as resolved, unless a Send of ours closed them.
func (m *machine) dropOpen(match func(OpenRequest) bool) {
	var left []OpenRequest
	for _, o := range m.st.Open {
		if !match(o) {
			left = append(left, o)
			continue
		}
		if o.Reported && !m.decided(o.RPC) {
			if len(m.resolved) == 0 {
				m.resolvedAt = m.now
			}
			m.resolved = append(m.resolved, o.RPC)
		}
		key := idKey(o.RPC)
		for i, r := range m.requests {
			if idKey(r.RPC) == key {
				m.requests = append(m.requests[:i:i], m.requests[i+1:]...)
				break
			}
		}
	}
	m.st.Open = left
}

func (m *machine) decided(rpc json.RawMessage) bool {
	key := idKey(rpc)
	for _, s := range m.sends {
		if s.Kind == SendDecision && s.Incarnation == m.st.Cursor.Incarnation && idKey(s.RPC) == key && s.state == Acknowledged {
			return true
		}
	}
	return false
}

// resolvedBy takes serverRequest/resolved: an answer arrived, ours or another.
func (m *machine) resolvedBy(params json.RawMessage) {
	var n resolvedNotice
	if json.Unmarshal(params, &n) != nil || n.RequestID == nil {
		return
	}
	key := idKey(n.RequestID)
	for i, a := range m.autos {
		if a.key == key {
			m.autos = append(m.autos[:i:i], m.autos[i+1:]...)
			return
		}
	}
	for _, s := range m.sends {
		if s.Kind != SendDecision || s.Incarnation != m.st.Cursor.Incarnation || idKey(s.RPC) != key || s.settled() {
			continue
		}
		if s.wrote || s.uncertain {
			s.settle(Acknowledged, "")
		} else {
			s.settle(Void, "codex took the request back before the decision was written")
		}
	}
	m.dropOpen(func(o OpenRequest) bool { return idKey(o.RPC) == key })
}

// unreported says whether there are requests that the workflow does not know.
func (m *machine) unreported() bool {
	for _, r := range m.requests {
		if i := m.openAt(r.RPC); i >= 0 && !m.st.Open[i].Reported {
			return true
		}
	}
	return false
}

// report takes the requests that are new to the workflow into the result.
func (m *machine) report() []Request {
	var due []*Request
	for _, r := range m.requests {
		if i := m.openAt(r.RPC); i >= 0 && !m.st.Open[i].Reported {
			m.st.Open[i].Reported = true
			due = append(due, r)
		}
	}
	var rs []Request
	for _, r := range due {
		rs = append(rs, r.excerpt(min(m.lim.Excerpt, maxAsked/len(due))))
	}
	return rs
}

// maxShownChanges bounds the files that a cut request names.
const maxShownChanges = 100

// excerpt is r with its texts cut to about max bytes in all. Its digest is over
// the whole, and the whole is in the store.
func (r *Request) excerpt(max int) Request {
	e := *r
	e.Whole = r
	left := max
	cut := func(s string) string {
		short := excerpt(s, left)
		if len(short) < len(s) {
			e.Truncated = true
		}
		left -= len(short)
		return short
	}
	e.Summary, e.CWD = excerpt(r.Summary, maxSummary), excerpt(r.CWD, maxCWD)
	e.Truncated = len(e.Summary) < len(r.Summary) || len(e.CWD) < len(r.CWD)
	e.Command = cut(r.Command)
	e.Reason = cut(r.Reason)
	e.Changes = nil
	for i, c := range r.Changes {
		if i == maxShownChanges || left < len(c.Path) {
			e.Truncated = true
			break
		}
		left -= len(c.Path)
		c.Diff = cut(c.Diff)
		e.Changes = append(e.Changes, c)
	}
	return e
}

// excerpt is the beginning of s, at most max bytes, without a broken character.
func excerpt(s string, max int) string {
	if len(s) <= max {
		return s
	}
	if max <= 0 {
		return ""
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

func changes(in []wireChange) []Change {
	var out []Change
	for _, c := range in {
		path := c.Path
		if c.Kind.MovePath != "" {
			path += " -> " + c.Kind.MovePath
		}
		out = append(out, Change{Path: path, Kind: c.Kind.Type, Diff: c.Diff})
	}
	return out
}

func changeSummary(cs []Change) string {
	if len(cs) == 0 {
		return "change files (codex did not say which)"
	}
	var names []string
	for i, c := range cs {
		if i == 5 {
			names = append(names, fmt.Sprintf("and %d more", len(cs)-i))
			break
		}
		names = append(names, c.Kind+" "+quoteShort(c.Path))
	}
	return strings.Join(names, ", ")
}

// shownCommand is what the model asked for, without the shell around it.
func shownCommand(p approvalParams) string {
	if len(p.Actions) == 1 && p.Actions[0].Command != "" {
		return p.Actions[0].Command
	}
	return p.Command
}

// quoteShort is the first line of s, cut for one line of a list.
func quoteShort(s string) string {
	line, rest, more := strings.Cut(strings.TrimSpace(s), "\n")
	short := excerpt(line, 120)
	if len(short) < len(line) || more && strings.TrimSpace(rest) != "" {
		short += " …"
	}
	return short
}

func networkHost(raw json.RawMessage) string {
	var n struct {
		Host string `json:"host"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &n) != nil {
		return ""
	}
	return n.Host
}
