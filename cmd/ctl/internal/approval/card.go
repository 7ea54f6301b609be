package approval

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/shellwords"
)

// A place says where a session works.
type place struct{ host, sandbox, work string } // each empty if it is not known

func placeOf(d protocol.SessionDetail) place {
	at := place{sandbox: d.View.Options["sandbox"], work: d.Layout.WorkDir, host: d.View.Host}
	if at.sandbox == protocol.ByProfile {
		at.sandbox = "profile " + d.View.Options["profile"]
	}
	return at
}

// A card is an approval as whoever decides it sees it.
type card struct {
	ap protocol.Approval
	at place
}

// headline says what is asked in a few words.
func (c card) headline() string {
	ap := c.ap
	what := map[string]string{"command": "to run a command", "permissions": "for permissions", "user_input": "a question", "elicitation": "on behalf of an MCP server", "deliverable": "for a verdict on a file"}[ap.Kind]
	switch {
	case ap.Kind == "file_change" && len(ap.Changes) == 1:
		what = "to change a file"
	case ap.Kind == "file_change":
		what = fmt.Sprintf("to change %d files", len(ap.Changes))
	case ap.Network != "":
		what = "to reach " + ap.Network
	case ap.Kind == "budget":
		return "the session asks for a higher budget"
	case what == "":
		what = ap.Kind
	}
	return "codex asks " + what
}

// asked returns what a yes would allow: the command, the diff of each file, and the rest.
func (c card) asked() (all []term.Line) {
	ap := c.ap
	add := func(style core.Style, margin, text string) { all = append(all, term.Lines(style, margin, text)...) }
	if ap.Digested != nil && ap.Digested.Action != "" {
		add(core.Yellow, "", "to "+ap.Digested.Action+", not to run it:")
	}
	if n := networkText(ap); n != "" {
		add(core.Yellow, "", "to reach "+n+", for")
	}
	if ap.Command != "" {
		command, by := c.command()
		for i, line := range strings.Split(strings.TrimRight(command, "\n"), "\n") {
			add(core.Cyan, []string{"$ ", "  "}[min(i, 1)], line)
		}
		if by != "" {
			add(core.Dim, "", "  (run by "+by+"; d shows the whole command)")
		}
	}
	if ap.Kind != "command" && ap.Kind != "file_change" && ap.Kind != "user_input" && ap.Summary != "" {
		add("", "", ap.Summary)
	}
	if ap.GrantRoot != "" {
		add(core.Yellow, "", "and to change whatever lies under "+ap.GrantRoot)
	}
	if ap.Args != "" {
		add("", "  ", "with "+ap.Args)
	}
	if ap.URL != "" {
		add(core.Cyan, "  ", "visit "+ap.URL)
	}
	for _, words := range activities.PermissionWords(ap.Permissions) {
		add(core.Yellow, "· ", words)
	}
	return append(all, c.changes()...)
}

// changes returns the files with their diffs.
func (c card) changes() (all []term.Line) {
	paths := activities.ChangePaths(c.ap.Request())
	for i, change := range c.ap.Changes {
		path, outside := c.path(i, paths[i])
		line := change.Kind + " " + path
		style := core.Blue
		if outside {
			line, style = line+"  (outside the work folder)", core.Yellow
		}
		all = append(all, term.Line{Style: style, Text: line})
		if paths[i] != change.Path {
			all = append(all, term.Line{Style: core.Dim, Text: "  codex wrote " + strconv.Quote(change.Path)})
		}
		for _, l := range term.Change(change.Kind, change.Diff) {
			all = append(all, term.Line{Style: l.Style, Text: "  " + l.Text})
		}
	}
	if c.ap.Truncated {
		all = append(all, term.Line{Style: core.Yellow, Text: "(cut: no worker is up to read the rest)"})
	}
	return all
}

// questions returns what codex wants to know.
func (c card) questions() (all []term.Line) {
	for _, q := range c.ap.Questions {
		lines := core.Styled(false, func(p *core.Printer) { showQuestion(p, q) })
		for _, line := range lines {
			all = append(all, term.Line{Text: line})
		}
	}
	return all
}

// path returns the path of a change, relative to the work folder if it lies in there. whole
// is as people are shown it.
func (c card) path(i int, whole string) (path string, outside bool) {
	work := strings.TrimSuffix(escape.Line(c.at.work), "/") + "/"
	if work == "/" {
		return whole, false
	}
	var parts []string
	if c.ap.Digested != nil && c.ap.Digested.Moved[i] != "" {
		parts = strings.SplitN(whole, protocol.Moving, 2)
	} else if strings.Contains(whole, protocol.Moving) {
		return whole, false // perhaps two paths: nobody can tell
	} else {
		parts = []string{whole}
	}
	for n, part := range parts {
		below, ok := strings.CutPrefix(part, work)
		if !ok || below == "" {
			outside = true
			continue
		}
		parts[n] = below
	}
	return strings.Join(parts, protocol.Moving), outside
}

// command returns the command without the shell that codex puts around it; by names that shell.
// It returns the whole command if its quotes could be read in two ways.
func (c card) command() (command, by string) {
	script, ok := shellwords.Script(c.ap.Command)
	if !ok || strings.TrimSpace(script) == "" {
		return c.ap.Command, ""
	}
	words := strings.Fields(c.ap.Command)
	n := 2
	if len(words) > 2 && words[1] == "-l" && words[2] == "-c" {
		n = 3
	}
	return script, strings.Join(words[:n], " ")
}

// facts returns what else a person should know, in lines of a name and a text.
func (c card) facts(now time.Time) (all []term.Line) {
	ap := c.ap
	add := func(style core.Style, name, text string) {
		if text != "" {
			all = append(all, term.Line{Style: style, Text: fmt.Sprintf("%-8s %s", name, core.OneLine(text, 400))})
		}
	}
	in := c.at.work
	if ap.CWD != "" {
		in = ap.CWD
	}
	if c.at.host != "" {
		in = strings.TrimPrefix(in+" on "+c.at.host, " on ")
	}
	if c.at.sandbox != "" {
		in += ", sandbox " + c.at.sandbox
	}
	add("", "in", in)
	if ap.Agent != "" {
		add("", "asks", "the sub-agent "+core.OneLine(ap.Agent, 100))
	}
	from := ap.Server
	if ap.Tool != "" {
		from = strings.TrimPrefix(from+" "+ap.Tool, " ")
	}
	add("", "from", from)
	if ap.Reason != "" && ap.Kind != "elicitation" { // there it is what is asked, and the digest covers it
		add("", "claims", core.OneLine(strconv.Quote(strings.Join(strings.Fields(ap.Reason), " ")), 300)+" (the model's words, not checked)")
	} else {
		add("", "says", ap.Reason)
	}
	add("", "policy", rulingText(ap))
	add(core.Yellow, "sign", signedText(ap))
	add(core.Yellow, "earlier", show.EarlierText(ap.Earlier))
	for _, rule := range ap.Amendment {
		add("", "rule", "r would allow for good: "+rule)
	}
	if ap.State == protocol.ApprovalOpen {
		add(timeColour(ap.ExpiresAt.Sub(now)), "expires", timeLeft(ap, now))
	}
	return all
}

func timeLeft(ap protocol.Approval, now time.Time) string {
	if ap.ExpiresAt.IsZero() {
		return ""
	}
	left := ap.ExpiresAt.Sub(now)
	if left <= 0 {
		return "now: it counts as declined"
	}
	return "in " + core.Short(left) + ", then it counts as declined"
}

func timeColour(left time.Duration) core.Style {
	if left < 5*time.Minute {
		return core.Red
	}
	return core.Dim
}

// details returns ids, digest and what that covers.
func (c card) details() (all []term.Line) {
	ap := c.ap
	add := func(name, text string) {
		if text != "" {
			all = append(all, term.Line{Text: fmt.Sprintf("%-9s %s", name, core.Clean(text))})
		}
	}
	add("approval", fmt.Sprintf("%s, turn %d of session %s, asked %s", ap.ID, ap.Turn, ap.Session, ap.AskedAt.UTC().Format("2006-01-02 15:04:05 MST")))
	check := map[protocol.DigestCheck]string{protocol.DigestGiven: "what is shown gives it", protocol.DigestOther: "what is shown gives another one: decide nothing"}[Checked(ap).DigestCheck]
	if check == "" {
		check = "it cannot be checked: " + uncheckedWhy(ap)
	}
	add("digest", ap.Digest)
	add("", check)
	add("covers", covers(ap))
	if _, by := c.command(); by != "" {
		add("command", ap.Command)
	}
	for i, path := range activities.ChangePaths(ap.Request()) {
		add([]string{"files", ""}[min(i, 1)], path)
	}
	add("folder", ap.CWD)
	add("offered", strings.Join(ap.Offered, ", "))
	return all
}

func uncheckedWhy(ap protocol.Approval) string {
	if err := activities.Verify(ap.Request()); err != nil {
		return err.Error()
	}
	return ""
}

// covers says which parts of what is shown the digest covers.
func covers(ap protocol.Approval) string {
	var parts []string
	for _, part := range []struct {
		is    bool
		words string
	}{
		{ap.Command != "", "the whole command"}, {ap.CWD != "", "its folder"}, {ap.Kind == "file_change", "the whole path and the diff of each file"},
		{ap.GrantRoot != "", "the folder to write in"}, {ap.Network != "", "the network target"}, {len(ap.Permissions) > 0, "the permissions"},
		{len(ap.Questions) > 0, "the questions"}, {ap.Server != "" || ap.Tool != "", "server and tool"}, {ap.Args != "", "the arguments"},
		{ap.URL != "", "the address"}, {ap.Kind == "elicitation" && ap.Reason != "", "the server's words"}, {len(ap.Amendment) > 0, "the rule"},
	} {
		if part.is {
			parts = append(parts, part.words)
		}
	}
	text := strings.Join(parts, ", ")
	if ap.Kind != "elicitation" && ap.Reason != "" {
		text += "; not the model's claim"
	}
	return text
}

// whole returns all of it, for a pager.
func (c card) whole() []term.Line {
	return slices.Concat(c.asked(), c.questions(), []term.Line{{}}, c.facts(time.Now()), []term.Line{{}}, c.details())
}
