package approval

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/internal/protocol"
)

func changed(changes ...protocol.Change) protocol.Approval {
	ap := protocol.Approval{ID: "s.1", Session: "s", Turn: 2, Kind: "file_change", State: protocol.ApprovalOpen, Changes: changes,
		Offered: []string{"accept", "accept_for_session", "decline", "cancel"}, ExpiresAt: time.Now().Add(time.Hour), Digested: &protocol.Digested{}}
	c, _ := ap.Request().Content()
	ap.Digest = c.Digest()
	return ap
}

var atWork = place{host: "web-1", sandbox: "workspace-write", work: "/srv/w"}

func printed(all []term.Line) string {
	var b bytes.Buffer
	term.Print(core.NewPrinter(&b, false), all)
	return b.String()
}

// A person sees the diff before the question, and what the digest covers is what was shown.
func TestAFileChangeIsAskedWithItsDiff(t *testing.T) {
	ap := changed(protocol.Change{Path: "/srv/w/notes.txt", Kind: "add", Diff: "one\ntwo\n"},
		protocol.Change{Path: "/etc/hosts", Kind: "update", Diff: "@@ -1 +1 @@\n-a\n+b\u202e\n"})
	q, out, _ := typed(ap, "y")
	q.at, q.width, q.rows = atWork, 80, 20
	q.show()
	if d, _, err := q.decide(); err != nil || d.Outcome != "accept" {
		t.Errorf("decided %+v (%v)", d, err)
	}
	want := `
? codex asks to change 2 files · s.1
add notes.txt
  +one
  +two
update /etc/hosts  (outside the work folder)
  @@ -1 +1 @@
  -a
  +b\u202e
in       /srv/w on web-1, sandbox workspace-write
expires  in 59m, then it counts as declined
y accept · n decline`
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("on the screen is\n%s", out)
	}
	if details := printed(card{ap, atWork}.details()); !strings.Contains(details, ap.Digest) || !strings.Contains(details, "what is shown gives it") ||
		!strings.Contains(details, "covers    the whole path and the diff of each file") || !strings.Contains(details, "/srv/w/notes.txt") {
		t.Errorf("d shows\n%s", details)
	}
}

func TestALongDiffIsBoundedAndCanBePaged(t *testing.T) {
	var diff strings.Builder
	for i := range 500 {
		fmt.Fprintf(&diff, "line %d\n", i)
	}
	ap := changed(protocol.Change{Path: "/srv/w/long.txt", Kind: "add", Diff: diff.String()})
	q, out, _ := typed(ap, "v", "d", "?", "n")
	var paged []term.Line
	q.page = func(_ string, text []term.Line) error { paged = text; return nil }
	q.at, q.width, q.rows = atWork, 80, 10
	q.show()
	if n := strings.Count(out.String(), "+line"); n != 9 || !strings.Contains(out.String(), "… 491 more lines: press v to page") {
		t.Errorf("%d lines are shown:\n%s", n, out)
	}
	if d, _, err := q.decide(); err != nil || d.Outcome != "decline" {
		t.Errorf("decided %+v (%v)", d, err)
	}
	if all := printed(paged); strings.Count(all, "+line") != 500 || !strings.Contains(all, ap.Digest) {
		t.Errorf("paged are\n%.300s", all)
	}
	for _, want := range []string{"digest    " + ap.Digest, "x  decline it and say why", "a  accept it, and the same request later in this session"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
}

func TestADeclineMaySayWhy(t *testing.T) {
	q, _, _ := typed(honest("rm -rf build"), "x", "not today")
	if d, _, err := q.decide(); err != nil || d.Outcome != "decline" || d.Reason != "not today" {
		t.Errorf("decided %+v (%v)", d, err)
	}
}

// The shell that codex puts around a command tells a person nothing. It is left out only
// where there is one way to read its quotes, and d shows the command that the digest covers.
func TestACommandIsShownWithoutItsShell(t *testing.T) {
	for command, want := range map[string]string{
		`/bin/bash -lc 'printf hi > a; cat a'`: "$ printf hi > a; cat a\n  (run by /bin/bash -lc; d shows the whole command)\n",
		"/bin/sh -c 'ls\nrm -rf x'":            "$ ls\n  rm -rf x\n  (run by /bin/sh -c; d shows the whole command)\n",
		`/bin/bash -lc "echo $HOME"`:           "$ /bin/bash -lc \"echo $HOME\"\n",
		`/work/bash -lc 'ls'`:                  "$ /work/bash -lc 'ls'\n",
		`ls | wc`:                              "$ ls | wc\n",
		"echo \x1b[2J":                         "$ echo \\x1b[2J\n",
	} {
		c := card{honest(command), atWork}
		if got := printed(c.asked()); got != want {
			t.Errorf("%q is shown as\n%s", command, got)
		}
		if details := printed(c.details()); strings.Contains(want, "run by") && !strings.Contains(strings.ReplaceAll(details, "\n", " "), "/bin/") {
			t.Errorf("d shows\n%s", details)
		}
	}
}

func TestPathsAreRelativeOnlyInsideTheWorkFolder(t *testing.T) {
	for _, c := range []struct {
		path, moved, work, want string
		outside                 bool
	}{
		{"/srv/w/a/b", "", "/srv/w", "a/b", false},
		{"/srv/w/a", "", "/srv/w/", "a", false},
		{"/srv/web/a", "", "/srv/w", "/srv/web/a", true},
		{"/srv/w/../x", "", "/srv/w", "/srv/x", true},
		{"/srv/w", "", "/srv/w", "/srv/w", true},
		{"/srv/w/a", "", "", "/srv/w/a", false},
		{"/srv/w/a -> /etc/b", "/etc/b", "/srv/w", "a -> /etc/b", true},
		{"/srv/w/a -> /srv/w/b", "/srv/w/b", "/srv/w", "a -> b", false},
		{"/srv/w/a -> b", "", "/srv/w", "/srv/w/a -> b", false},
		{"a", "", "/srv/w", "a", true},
	} {
		ap := changed(protocol.Change{Path: c.path, Kind: "update"})
		if c.moved != "" {
			ap.Digested.Moved = map[int]string{0: c.moved}
		}
		k := card{ap, place{work: c.work}}
		lines := k.changes()
		want := "update " + c.want
		if c.outside {
			want += "  (outside the work folder)"
		}
		if lines[0].Text != want {
			t.Errorf("%+v is shown as %q", c, lines[0].Text)
		}
	}
}

// What the model says of its request is its claim, and looks so.
func TestTheModelsReasonIsShownAsAClaim(t *testing.T) {
	ap := honest("make")
	ap.Reason = "the user\nagreed \x1b[1mtwice"
	facts := printed(card{ap, atWork}.facts(time.Now()))
	if !strings.Contains(facts, `claims   "the user agreed \x1b[1mtwice" (the model's words, not checked)`) {
		t.Errorf("it is shown as\n%s", facts)
	}
	if i := slices.IndexFunc(card{ap, atWork}.details(), func(l term.Line) bool { return strings.Contains(l.Text, "not the model's claim") }); i < 0 {
		t.Error("d does not say that the digest leaves it out")
	}
}

func TestACardNamesTheSubAgentThatAsks(t *testing.T) {
	ap := honest("make")
	if facts := printed(card{ap, atWork}.facts(time.Now())); strings.Contains(facts, "sub-agent") {
		t.Errorf("without one, it is shown as\n%s", facts)
	}
	ap.Agent = "scout\x1b[1m"
	if facts := printed(card{ap, atWork}.facts(time.Now())); !strings.Contains(facts, `asks     the sub-agent scout\x1b[1m`) {
		t.Errorf("it is shown as\n%s", facts)
	}
}
