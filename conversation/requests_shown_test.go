package conversation

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
)

// sent returns a request as it arrives where it is shown.
func sent(t *testing.T, r protocol.Request) *protocol.Request {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var out protocol.Request
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestWhatIsShownOfEveryFamilyGivesItsDigest(t *testing.T) {
	for _, f := range askedFamilies {
		_, result := f.ask(t, Options{})
		r := sent(t, result.Requests[0])
		if r.Digested == nil || r.Digested.Hidden {
			t.Errorf("%s: digested is %+v", f.name, r.Digested)
		}
		was := *r
		r.Summary = "a lie"
		if err := Verify(r); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
		if r.Summary != was.Summary || r.Network != was.Network || strings.Join(r.Amendment, ",") != strings.Join(was.Amendment, ",") {
			t.Errorf("%s: it is shown as %q, %q, %q, and was as %q, %q, %q", f.name, r.Summary, r.Network, r.Amendment, was.Summary, was.Network, was.Amendment)
		}
		r.Digest = strings.Repeat("0", 64)
		if err := Verify(r); !errors.Is(err, protocol.ErrOtherContent) {
			t.Errorf("%s: with another digest: %v", f.name, err)
		}
	}
}

// Whoever answers for a session may change any part of what is shown.
func TestNoPartOfWhatIsShownCanBeChangedUnseen(t *testing.T) {
	a := &asked{Kind: protocol.KindFileChange, GrantRoot: "/srv", Changes: []wire.Change{{Path: "/w/a", Diff: "+x"}, {Path: "/w/b", Diff: "+y"}}}
	a.Changes[1].Kind.MovePath = "/w/c"
	command := &asked{Kind: protocol.KindCommand, Action: "writeStdin", Command: "curl a.example", CWD: "/w", Network: json.RawMessage(`{"host":"a.example","protocol":"https"}`),
		Amendment: json.RawMessage(`{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["curl"]}}`)}
	form := &asked{Kind: protocol.KindElicitation, Server: "desk", Message: "For whom?", reason: "For whom?", Schema: json.RawMessage(`{"type":"object"}`), Questions: []protocol.Question{{ID: "name", Text: "Name"}}}
	for what, c := range map[string]struct {
		of     *asked
		change func(*protocol.Request)
	}{
		"a diff":             {a, func(r *protocol.Request) { r.Changes[0].Diff = "" }},
		"a path":             {a, func(r *protocol.Request) { r.Changes[0].Path = "/w/z" }},
		"the old path":       {a, func(r *protocol.Request) { r.Changes[1].Path = "/w/z -> /w/c" }},
		"the new path":       {a, func(r *protocol.Request) { r.Changes[1].Path = "/w/b -> /w/z" }},
		"both new paths":     {a, func(r *protocol.Request) { r.Changes[1].Path, r.Digested.Moved[1] = "/w/b -> /w/z", "/w/z" }},
		"a kind":             {a, func(r *protocol.Request) { r.Changes[0].Kind = "delete" }},
		"a change":           {a, func(r *protocol.Request) { r.Changes = r.Changes[:1] }},
		"the folder":         {a, func(r *protocol.Request) { r.GrantRoot = "" }},
		"the command":        {command, func(r *protocol.Request) { r.Command = "ls" }},
		"where it runs":      {command, func(r *protocol.Request) { r.CWD = "/" }},
		"the action":         {command, func(r *protocol.Request) { r.Digested.Action = "" }},
		"the host":           {command, func(r *protocol.Request) { r.Network = "b.example" }},
		"the network":        {command, func(r *protocol.Request) { r.Network, r.Digested.Network = "", nil }},
		"that a rule is set": {command, func(r *protocol.Request) { r.Amendment = nil }},
		"the rule":           {command, func(r *protocol.Request) { r.Digested.Amendment = json.RawMessage(`{}`) }},
		"permissions":        {command, func(r *protocol.Request) { r.Permissions = json.RawMessage(`{"network":{"enabled":true}}`) }},
		"the message":        {form, func(r *protocol.Request) { r.Reason = "For what?" }},
		"a question":         {form, func(r *protocol.Request) { r.Questions[0].Text = "Password" }},
		"the form":           {form, func(r *protocol.Request) { r.Digested.Form = nil }},
		"the server":         {form, func(r *protocol.Request) { r.Server = "disk" }},
		"the kind":           {form, func(r *protocol.Request) { r.Kind = protocol.KindUserInput }},
		"the digest":         {form, func(r *protocol.Request) { r.Digest = "" }},
	} {
		r := sent(t, *describe(c.of, NewRedactor()))
		if err := Verify(r); err != nil {
			t.Errorf("%s: unchanged: %v", what, err)
		}
		r = sent(t, *describe(c.of, NewRedactor()))
		if c.change(r); !errors.Is(Verify(r), protocol.ErrOtherContent) {
			t.Errorf("%s: %v", what, Verify(r))
		}
	}
	r := describe(command, NewRedactor())
	r.Amendment = []string{"run whatever begins with: ls"}
	if err := Verify(r); err != nil || r.Amendment[0] != "run whatever begins with: curl" {
		t.Errorf("other words for the rule are kept: %q (%v)", r.Amendment, err)
	}
}

func TestItIsSaidWhyADigestCannotBeChecked(t *testing.T) {
	a := &asked{Kind: protocol.KindCommand, Command: "curl -H top-secret-token x", CWD: "/w", Network: json.RawMessage(`{"host":"x"}`)}
	if err := Verify(sent(t, *describe(a, NewRedactor("top-secret-token")))); !errors.Is(err, protocol.ErrHidden) {
		t.Errorf("a secret is hidden: %v", err)
	}
	whole := describe(a, NewRedactor())
	cut := cutRequest(whole, 10)
	if err := Verify(sent(t, cut)); !errors.Is(err, protocol.ErrCut) {
		t.Errorf("it is cut: %v", err)
	}
	earlier := *whole
	earlier.Digested = nil
	if err := Verify(sent(t, earlier)); !errors.Is(err, protocol.ErrEarlier) {
		t.Errorf("an earlier version does not show the network's protocol: %v", err)
	}
	// It showed all of a plain command.
	a.Network = nil
	earlier = *describe(a, NewRedactor())
	earlier.Digested = nil
	if err := Verify(sent(t, earlier)); err != nil {
		t.Errorf("of an earlier version: %v", err)
	}
}

// What is digested may be long. Then only the whole request has it.
func TestALongFormIsCutToo(t *testing.T) {
	a := &asked{Kind: protocol.KindElicitation, Server: "desk", Message: "m", reason: "m", Schema: json.RawMessage(`{"title":"` + strings.Repeat("x", 5000) + `"}`)}
	whole := describe(a, NewRedactor())
	cut := cutRequest(whole, 4000)
	if n := len(canonical(cut)); n > 5000 || !cut.Truncated || !errors.Is(Verify(sent(t, cut)), protocol.ErrCut) {
		t.Errorf("it takes %d bytes, truncated: %v", n, cut.Truncated)
	}
	if err := Verify(sent(t, *cut.Whole)); err != nil {
		t.Errorf("the whole: %v", err)
	}
}

func TestAPathThatMisleadsIsShownWhole(t *testing.T) {
	long := strings.Repeat("/deep", 40)
	for path, want := range map[string]string{
		"/w/a":                                 "add /w/a",
		"/w/src/../../etc/passwd":              "add /etc/passwd",
		"src/../../outside":                    "add ../outside",
		"/w/harmless\n/../../../etc/passwd":    "add /etc/passwd",
		"/w/a\u202egnp.exe":                    `add /w/a\u202egnp.exe`,
		"/w/a\nb":                              `add /w/a\nb`,
		"/w" + long + "/\u2066x":               "add /w" + long + `/\u2066x`,
		"/w/.." + long + "/x":                  "add " + long + "/x",
		"../.." + long + "/x":                  "add ../.." + long + "/x",
		"/w/" + strings.Repeat("x", 200) + "y": "add /w/" + strings.Repeat("x", 117) + " …",
	} {
		a := &asked{Kind: protocol.KindFileChange, Changes: []wire.Change{{Path: path}}}
		a.Changes[0].Kind.Type = "add"
		r := describe(a, NewRedactor())
		if r.Summary != want {
			t.Errorf("%q is summed up as %q, want %q", path, r.Summary, want)
		}
		if shown := ChangePaths(r); !strings.HasPrefix("add "+shown[0], strings.TrimSuffix(want, " …")) || escape.Line(shown[0]) != shown[0] {
			t.Errorf("%q is shown as %q", path, shown)
		}
		if err := Verify(sent(t, *r)); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	a := &asked{Kind: protocol.KindFileChange, Changes: []wire.Change{{Path: "/w/a"}}}
	a.Changes[0].Kind.Type, a.Changes[0].Kind.MovePath = "update", "/w/../etc/\u202ea"
	if got, want := describe(a, NewRedactor()).Summary, `update /w/a -> /etc/\u202ea`; got != want {
		t.Errorf("a move is summed up as %q, want %q", got, want)
	}
}

// Every text that people are shown of a request or a conversation follows one rule.
func TestSummariesAndMarkdownHaveVisibleEscapes(t *testing.T) {
	const evil = "a\x1b[2J\u202eb\u2066c\U000e0041\u009b\x7f\r"
	q := []protocol.Question{{ID: evil, Text: evil}}
	for what, a := range map[string]*asked{
		"command":     {Kind: protocol.KindCommand, Command: evil, Action: evil},
		"network":     {Kind: protocol.KindCommand, Command: evil, Network: canonical(map[string]string{"host": evil})},
		"permissions": {Kind: protocol.KindPermissions, Permissions: canonical(map[string]any{"fileSystem": map[string]any{"read": []string{evil}}})},
		"change":      {Kind: protocol.KindFileChange, Changes: []wire.Change{{Path: evil}}, GrantRoot: evil},
		"questions":   {Kind: protocol.KindUserInput, Questions: q},
		"tool":        {Kind: protocol.KindElicitation, Server: evil, Tool: evil},
		"page":        {Kind: protocol.KindElicitation, Server: evil, URL: evil, reason: evil, Message: evil},
	} {
		got := describe(a, NewRedactor()).Summary
		if strings.ContainsFunc(got, escape.Hidden) || !strings.Contains(got, `\x1b[2J\u202eb\u2066c\U000e0041\u009b\x7f`) {
			t.Errorf("%s: %q", what, got)
		}
	}
	var entries []protocol.Entry
	for _, kind := range []protocol.EntryType{protocol.EntryUser, protocol.EntryAssistant, protocol.EntryCommand, protocol.EntryFileChange, protocol.EntryError} {
		entries = append(entries, protocol.Entry{Type: kind, Text: evil, Command: evil, Data: map[string]string{evil: evil},
			Changes: []protocol.Change{{Path: evil, Kind: evil, Diff: evil}}})
	}
	got := string(Markdown(evil, entries))
	if strings.ContainsFunc(got, escape.Hidden) || strings.Count(got, `\u202e`) < 9 {
		t.Errorf("%q", got)
	}
}
