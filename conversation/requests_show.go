package conversation

import (
	"encoding/json"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// describe returns the request as people see it. Texts are redacted before they are cut, so
// that no part of a secret is left.
func describe(a *asked, clean *Redactor) *protocol.Request {
	r := &protocol.Request{
		Kind: a.Kind, Method: a.Method, TurnID: a.turn, ItemID: a.item, Offered: a.offered(),
		Command: clean.String(a.Command), CWD: clean.String(a.CWD), Reason: clean.String(a.reason), Changes: clean.changes(changes(a.Changes)),
		Network: clean.String(networkHost(a.Network)), Permissions: clean.json(a.Permissions), Questions: clean.questions(a.Questions),
		URL: clean.String(a.URL), Server: clean.String(a.Server), Tool: clean.String(a.Tool), Args: string(clean.json(a.Args)),
		Amendment: amendmentWords(a, clean), GrantRoot: clean.String(a.GrantRoot),
	}
	r.Summary = summary(a, r, clean)
	return r
}

func summary(a *asked, r *protocol.Request, clean *Redactor) string {
	switch a.Kind {
	case protocol.KindFileChange:
		text := changeSummary(r.Changes)
		if r.GrantRoot != "" { // first, because the rest may be cut
			text = "change whatever lies under " + quoteShort(r.GrantRoot) + ": " + text
		}
		return text
	case protocol.KindPermissions:
		return "be allowed to " + someWords(PermissionWords(r.Permissions))
	case protocol.KindUserInput:
		return questionSummary(r.Questions)
	case protocol.KindElicitation:
		return elicitedText(r, a.ofTool)
	}
	command := quoteShort(clean.String(a.shown))
	text := "run " + command
	switch {
	case r.Network != "":
		text = "reach " + quoteShort(r.Network) + " for " + command
	case a.Action != "":
		text = a.Action + " " + command
	}
	if len(r.Permissions) > 0 {
		text += ", being allowed to " + someWords(PermissionWords(r.Permissions))
	}
	return text
}

func elicitedText(r *protocol.Request, tool bool) string {
	switch {
	case tool && r.Tool != "":
		return "call the tool " + quoteShort(r.Tool) + " of the MCP server " + quoteShort(r.Server)
	case r.URL != "":
		return "the MCP server " + quoteShort(r.Server) + " wants " + quoteShort(r.URL) + " opened: " + quoteShort(r.Reason)
	}
	return "the MCP server " + quoteShort(r.Server) + " asks: " + quoteShort(r.Reason)
}

func questionSummary(all []protocol.Question) string {
	text := quoteShort(all[0].Text)
	if n := len(all) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

func someWords(words []string) string {
	if len(words) == 0 {
		return "do nothing more"
	}
	var some []string
	for i, w := range words {
		if i == 5 {
			some = append(some, fmt.Sprintf("and %d more", len(words)-i))
			break
		}
		some = append(some, quoteShort(w))
	}
	return strings.Join(some, ", ")
}

// amendmentWords returns what the amendment would allow in every thread of the codex home.
func amendmentWords(a *asked, clean *Redactor) []string {
	if len(a.Amendment) == 0 {
		return nil
	}
	if a.ofTool {
		return []string{"call the tool " + clean.String(a.Tool) + " of the MCP server " + clean.String(a.Server) + ", with whatever arguments"}
	}
	var d amendment
	if json.Unmarshal(a.Amendment, &d) != nil {
		return nil
	}
	var words []string
	for _, w := range d.words() {
		words = append(words, clean.String(w))
	}
	return words
}

func (q *requests) entryOf(a *asked, r *protocol.Request) protocol.Entry {
	e := protocol.Entry{Type: protocol.EntryRequest, Turn: q.st.Turn, Text: r.Summary, Status: "open", Item: r.ItemID,
		Command: r.Command, CWD: r.CWD, Changes: r.Changes, Tool: r.Tool, Digest: r.Digest}
	setData(&e, "kind", string(r.Kind))
	setData(&e, "reason", r.Reason)
	setData(&e, "grant_root", r.GrantRoot)
	setData(&e, "network", r.Network)
	setData(&e, "permissions", strings.Join(PermissionWords(r.Permissions), "\n"))
	setData(&e, "questions", questionText(r.Questions))
	setData(&e, "url", r.URL)
	setData(&e, "server", r.Server)
	setData(&e, "arguments", r.Args)
	setData(&e, "amendment", strings.Join(r.Amendment, "\n"))
	if !q.st.ours(wire.Notice{ThreadID: a.thread}) {
		setData(&e, "thread", a.thread)
	}
	e.Data = rulingIn(r.Ruling, e.Data)
	return e
}

func questionText(all []protocol.Question) string {
	var b strings.Builder
	for i, q := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s", q.ID, q.Text)
		for n, o := range q.Options {
			sep := ", "
			if n == 0 {
				sep = " ["
			}
			b.WriteString(sep + o.Label)
		}
		if len(q.Options) > 0 {
			b.WriteByte(']')
		}
	}
	return b.String()
}

// bulkOf returns the size of what the answering person needs uncut.
func bulkOf(r *protocol.Request) int {
	return wire.Len(r.URL) + wire.JSONLen(r.Permissions) + wire.JSONLen(r.Questions) + wire.JSONLen(r.Amendment)
}

func (q *requests) report() []protocol.Request {
	var due []*protocol.Request
	for _, r := range q.seen {
		if i := q.st.openAt(r.RPC); i >= 0 && !q.st.Open[i].Reported {
			q.st.Open[i].Reported = true
			due = append(due, r)
		}
	}
	var rs []protocol.Request
	for _, r := range due {
		rs = append(rs, cutRequest(r, min(q.lim.Excerpt, maxAsked/len(due))))
	}
	return rs
}

const maxShownChanges = 100

// cutRequest cuts r's texts to about max bytes in all. The digest covers the uncut request,
// which is in the store.
func cutRequest(r *protocol.Request, max int) protocol.Request {
	e := *r
	e.Whole = r
	left := max
	cut := func(s string) string {
		short := wire.Excerpt(s, left)
		if len(short) < len(s) {
			e.Truncated = true
		}
		left -= wire.Len(short)
		return short
	}
	for _, f := range []struct {
		text *string
		max  int
	}{{&e.Summary, maxSummary}, {&e.CWD, maxCWD}, {&e.GrantRoot, maxCWD}, {&e.Network, maxName}, {&e.Server, maxName}, {&e.Tool, maxName}} {
		short := wire.Excerpt(*f.text, f.max)
		e.Truncated = e.Truncated || len(short) < len(*f.text)
		*f.text = short
	}
	e.Command = cut(r.Command)
	e.Args = cut(r.Args)
	e.Reason = cut(r.Reason)
	e.Changes = nil
	for i, c := range r.Changes {
		size := wire.JSONLen(protocol.Change{Path: c.Path, Kind: c.Kind})
		if i == maxShownChanges || left < size {
			e.Truncated = true
			break
		}
		left -= size
		c.Diff = cut(c.Diff)
		e.Changes = append(e.Changes, c)
	}
	return e
}

func changes(in []wire.Change) []protocol.Change {
	var out []protocol.Change
	for _, c := range in {
		path := c.Path
		if c.Kind.MovePath != "" {
			path += " -> " + c.Kind.MovePath
		}
		out = append(out, protocol.Change{Path: path, Kind: c.Kind.Type, Diff: c.Diff})
	}
	return out
}

func changeSummary(cs []protocol.Change) string {
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

func quoteShort(s string) string {
	line, rest, more := strings.Cut(strings.TrimSpace(s), "\n")
	short := wire.Excerpt(line, 120)
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
