package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// typed returns an asking at which a person types these lines. It also returns the asking's
// output, and the lines that were read as secret.
func typed(ap protocol.Approval, lines ...string) (q *asking, out *bytes.Buffer, unseen *[]string) {
	out, unseen = &bytes.Buffer{}, &[]string{}
	q = &asking{p: core.NewPrinter(out, false), ap: ap,
		line: func(prompt string, secret bool) (string, error) {
			out.WriteString(prompt + " ")
			if len(lines) == 0 {
				return "", io.EOF
			}
			s := lines[0]
			lines = lines[1:]
			if secret {
				*unseen = append(*unseen, s)
			}
			return s, nil
		}}
	return q, out, unseen
}

var (
	colours  = protocol.Question{ID: "colour", Text: "Which colour?", Options: []protocol.Choice{{Label: "red"}, {Label: "Blue", Description: "like the sky"}}}
	asksTwo  = protocol.Approval{ID: "s.1", Kind: "user_input", Offered: []string{"answer", "decline", "cancel"}, Questions: []protocol.Question{colours, {ID: "name", Text: "Its name?"}}}
	asksThat = protocol.Approval{ID: "s.2", Kind: "permissions", Offered: []string{"accept", "accept_for_session", "grant", "decline"},
		Permissions: json.RawMessage(`{"network":{"enabled":true},"fileSystem":{"read":["/srv/data"],"write":["/srv/out"],"entries":[{"access":"write","path":{"type":"path","path":"/srv/out"}}]}}`)}
)

func TestQuestionsAreAskedAtTheTerminalUntilTheyFit(t *testing.T) {
	q, out, unseen := typed(asksTwo, "green", "2", "", "mine")
	d, g, err := q.decide()
	if err != nil || d.Outcome != "answer" || !reflect.DeepEqual(g.plain, map[string][]string{"colour": {"Blue"}, "name": {"mine"}}) || len(g.secret) != 0 {
		t.Errorf("decided %+v with %+v (%v)", d, g, err)
	}
	for _, want := range []string{"Which colour?", "1) red", "2) Blue – like the sky", "not one of its options", `"name" is not answered`, "/decline · /cancel"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q was not said:\n%s", want, out)
		}
	}
	if len(*unseen) != 0 {
		t.Errorf("%q were hidden", *unseen)
	}
}

func TestAnAnswerMayBeToDeclineOrToCancel(t *testing.T) {
	for _, word := range []string{"decline", "cancel"} {
		q, _, _ := typed(asksTwo, "1", "/"+word)
		if d, _, err := q.decide(); err != nil || d.Outcome != word {
			t.Errorf("%s: decided %+v (%v)", word, d, err)
		}
	}
}

func TestSecretsAreTypedUnseen(t *testing.T) {
	ap := asksTwo
	ap.Questions = []protocol.Question{{ID: "who", Default: "ci"}, {ID: "password", Secret: true}}
	q, out, unseen := typed(ap, "", " with a blank ")
	d, g, err := q.decide()
	if err != nil || d.Outcome != "answer" || len(g.plain) != 0 || !reflect.DeepEqual(g.secret, map[string][]string{"password": {" with a blank "}}) {
		t.Errorf("decided %+v with %+v (%v)", d, g, err)
	}
	if len(*unseen) != 1 || strings.Contains(out.String(), "with a blank") {
		t.Errorf("%d lines were hidden; shown:\n%s", len(*unseen), out)
	}
}

func TestPermissionsAreGivenOneByOneAtTheTerminal(t *testing.T) {
	q, out, _ := typed(asksThat, "z", "s", "n", "y", "perhaps", "n", "y")
	d, _, err := q.decide()
	if err != nil || d.Outcome != "grant" || d.Scope != "session" {
		t.Errorf("decided %+v (%v)\n%s", d, err, out)
	}
	var words []string
	if words = activities.PermissionWords(d.Grant); !reflect.DeepEqual(words, []string{"read /srv/data"}) {
		t.Errorf("given is %q", words)
	}
	if err := activities.Within(d.Grant, asksThat.Permissions); err != nil {
		t.Error(err)
	}
	if n := strings.Count(out.String(), "write /srv/out?"); n != 2 { // the question is repeated once
		t.Errorf("asked %d times to write:\n%s", n, out)
	}
	q, _, _ = typed(asksThat, "s", "n", "n", "n", "a")
	if d, _, err := q.decide(); err != nil || d.Outcome != "accept" || d.Scope != "session" {
		t.Errorf("after nothing was given, decided %+v (%v)", d, err)
	}
}

func TestOnlyWhatIsOfferedCanBeChosen(t *testing.T) {
	ap := protocol.Approval{ID: "s.3", Kind: "command", Command: "make", Offered: []string{"accept", "amend"}}
	q, out, _ := typed(ap, "a", "c", "r")
	if d, _, err := q.decide(); err != nil || d.Outcome != "amend" {
		t.Errorf("decided %+v (%v)", d, err)
	}
	if n := strings.Count(out.String(), "one of y, n, r, v, d, x, ?"); n != 2 {
		t.Errorf("it was said %d times what can be chosen:\n%s", n, out)
	}
	q, _, _ = typed(ap)
	if _, _, err := q.decide(); !errors.Is(err, io.EOF) {
		t.Errorf("without a person: %v", err)
	}
}

func TestAnOptionIsMeantByItsLabelOrItsNumber(t *testing.T) {
	digits := protocol.Question{ID: "n", Options: []protocol.Choice{{Label: "3"}, {Label: "one"}, {Label: "two"}}}
	for said, want := range map[string]string{"3": "3", "2": "one", " ONE ": "one", "4": "4", "0": "0", "else": "else"} {
		if got := choose(digits, said); got != want {
			t.Errorf("%q is %q, want %q", said, got, want)
		}
	}
	g := given{questions: []protocol.Question{colours}, plain: map[string][]string{}}
	for _, arg := range []string{"1", "colour=2", "a=b"} {
		if err := g.take(arg); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"red", "Blue", "a=b"}; !reflect.DeepEqual(g.plain["colour"], want) {
		t.Errorf("answers are %q", g.plain)
	}
	g = given{questions: asksTwo.Questions, plain: map[string][]string{}}
	if err := g.take("red"); err == nil || !strings.Contains(err.Error(), "colour, name") {
		t.Errorf("without a key: %v", err)
	}
	g = given{questions: []protocol.Question{{ID: "p", Secret: true}}, plain: map[string][]string{}}
	if err := g.take("p=hunter2"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret on the command line: %v", err)
	}
}
