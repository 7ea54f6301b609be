package conversation

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/shellwords"
)

// describe returns the request as people see it. Texts are redacted before they are cut, so
// that no part of a secret is left.
func describe(a *asked, clean *Redactor) *protocol.Request {
	r := &protocol.Request{
		Kind: a.Kind, Method: a.Method, TurnID: a.turn, ItemID: a.item, Offered: a.offered(),
		Command: clean.String(a.Command), CWD: clean.String(a.CWD), Reason: clean.String(a.reason), Changes: clean.changes(changes(a.Changes)),
		Network: clean.String(protocol.NetworkHost(a.Network)), Permissions: clean.json(a.Permissions), Questions: clean.questions(a.Questions),
		URL: clean.String(a.URL), Server: clean.String(a.Server), Tool: clean.String(a.Tool), Args: string(clean.json(a.Args)),
		GrantRoot: clean.String(a.GrantRoot), Digest: a.digest(),
	}
	r.Digested = &protocol.Digested{Action: clean.String(a.Action), Network: clean.json(a.Network), Form: clean.json(a.Schema), Amendment: clean.json(a.Amendment)}
	for i, c := range a.Changes {
		if to := clean.String(c.Kind.MovePath); to != "" {
			if r.Digested.Moved == nil {
				r.Digested.Moved = map[int]string{}
			}
			r.Digested.Moved[i] = to
		}
	}
	reword(r)
	r.Digested.Hidden = r.CheckDigest() != nil
	return r
}

// Verify reports whether what is shown of a request gives the digest that a decision is
// about, and makes anew what is shown beside it: Summary, Network and Amendment. The errors
// are those of protocol's CheckDigest.
func Verify(r *protocol.Request) error {
	if err := r.CheckDigest(); err != nil {
		return err
	}
	if r.Digested == nil { // the summary is of an earlier version
		r.Digested = &protocol.Digested{}
	}
	reword(r)
	return nil
}

// reword sets what is made of the request's content.
func reword(r *protocol.Request) {
	r.Network, r.Amendment = protocol.NetworkHost(r.Digested.Network), amendmentWords(r)
	r.Summary = summary(r)
}

// budgetSummary says what a yes does for a turn that pauses.
func budgetSummary(r *protocol.Request) string {
	b, err := protocol.AskedBudget(r.Args)
	switch {
	case err != nil:
		return "go on with the turn that a budget has ended"
	case b.Raised > 0:
		return fmt.Sprintf("let the session spend %s instead of %s, and go on with its turn", b.Raised, b.Limit)
	case b.RaisedTokens > 0:
		return fmt.Sprintf("let the session use %d tokens instead of %d, and go on with its turn", b.RaisedTokens, b.LimitTokens)
	}
	return "try to go on with the turn that the budget of the " + escape.Text(b.Of) + " has ended"
}

// summary returns the request in a line, with its hidden characters as escapes.
func summary(r *protocol.Request) string {
	switch r.Kind {
	case protocol.KindFileChange:
		text := changeSummary(r.Changes, r.Digested.Moved)
		if r.GrantRoot != "" { // first, because the rest may be cut
			text = "change whatever lies under " + cleanPath(r.GrantRoot, shownPath) + ": " + text
		}
		return text
	case protocol.KindPermissions:
		return "be allowed to " + someWords(PermissionWords(r.Permissions))
	case protocol.KindUserInput:
		return questionSummary(r.Questions)
	case protocol.KindElicitation:
		return elicitedText(r)
	case protocol.KindDeliverable:
		return deliveredText(r)
	case protocol.KindChild:
		return "call the tool " + quoteShort(r.Tool)
	case protocol.KindBudget:
		return budgetSummary(r)
	}
	command := r.Command
	if script, ok := shellwords.Script(command); ok {
		command = script // without the shell around it
	}
	command = quoteCommand(command)
	text := "run " + command
	switch {
	case r.Network != "":
		text = "reach " + quoteShort(r.Network) + " for " + command
	case r.Digested.Action != "":
		text = quoteShort(r.Digested.Action) + " " + command
	}
	if len(r.Permissions) > 0 {
		text += ", being allowed to " + someWords(PermissionWords(r.Permissions))
	}
	return text
}

func elicitedText(r *protocol.Request) string {
	switch {
	case r.Tool != "": // only calls of tools have one
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
func amendmentWords(r *protocol.Request) []string {
	if len(r.Digested.Amendment) == 0 {
		return nil
	}
	if r.Kind == protocol.KindElicitation {
		return []string{"call the tool " + r.Tool + " of the MCP server " + r.Server + ", with whatever arguments"}
	}
	var d amendment
	if json.Unmarshal(r.Digested.Amendment, &d) != nil {
		return nil
	}
	return d.words()
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
	q.ofThread(&e, a.thread)
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
	if r.Kind == protocol.KindChild {
		return wire.Len(r.Args)
	}
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
	if r.Kind != protocol.KindChild { // the session needs them whole
		e.Args = cut(r.Args)
	}
	e.Reason = cut(r.Reason)
	if size := wire.JSONLen(r.Digested); left >= size {
		left -= size
	} else {
		e.Digested, e.Truncated = nil, true
	}
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
		out = append(out, protocol.Change{Path: protocol.MovedPath(c.Path, c.Kind.MovePath), Kind: c.Kind.Type, Diff: c.Diff})
	}
	return out
}

func changeSummary(cs []protocol.Change, moved map[int]string) string {
	if len(cs) == 0 {
		return "change files (codex did not say which)"
	}
	var names []string
	for i, c := range cs {
		if i == 5 {
			names = append(names, fmt.Sprintf("and %d more", len(cs)-i))
			break
		}
		names = append(names, escape.Line(c.Kind)+" "+wholePath(c, moved[i], shownPath))
	}
	return strings.Join(names, ", ")
}

// ChangePaths returns the path of each change as people are shown it: with .. resolved and
// hidden characters as escapes.
func ChangePaths(r *protocol.Request) (paths []string) {
	for i, c := range r.Changes {
		moved := ""
		if r.Digested != nil {
			moved = r.Digested.Moved[i]
		}
		paths = append(paths, wholePath(c, moved, escape.Line))
	}
	return paths
}

// wholePath resolves .. in the path or the two paths of a change.
func wholePath(c protocol.Change, moved string, shown func(string) string) string {
	switch {
	case moved != "":
		from := strings.TrimSuffix(c.Path, protocol.Moving+moved)
		return protocol.MovedPath(cleanPath(from, shown), cleanPath(moved, shown))
	case strings.Contains(c.Path, protocol.Moving): // two paths, perhaps
		return shown(c.Path)
	}
	return cleanPath(c.Path, shown)
}

// cleanPath resolves .. in a path. One that has it is shown whole.
func cleanPath(p string, shown func(string) string) string {
	if !slices.Contains(strings.Split(p, "/"), "..") {
		return shown(p)
	}
	return escape.Line(path.Clean(p))
}

// shownPath shortens a long path, unless it has hidden characters.
func shownPath(p string) string {
	if line := escape.Line(p); line != p {
		return line
	}
	return quoteShort(p)
}

// quoteCommand returns the beginning of a command on a line. A line feed is an escape, because
// what follows it runs, too.
func quoteCommand(s string) string {
	s = strings.TrimSpace(s)
	short := wire.Excerpt(s, 120)
	if len(short) < len(s) {
		return escape.Line(short) + " …"
	}
	return escape.Line(short)
}

// quoteShort returns the beginning of s on a line, with hidden characters as escapes.
func quoteShort(s string) string {
	line, rest, more := strings.Cut(strings.TrimSpace(s), "\n")
	short := wire.Excerpt(line, 120)
	if len(short) < len(line) || more && strings.TrimSpace(rest) != "" {
		return escape.Text(short) + " …"
	}
	return escape.Text(short)
}
