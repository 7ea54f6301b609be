package workflows

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// asking returns a pump in which codex makes these requests. Their ids are those that asks
// gives.
func asking(reqs ...protocol.Request) pumpFunc {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := asks(make([]string, len(reqs))...)(ctx, in)
		for i, r := range reqs {
			was := out.Pump.Requests[i]
			r.RPC, r.Incarnation = was.RPC, was.Incarnation
			out.Pump.Requests[i] = r
		}
		return out, err
	}
}

// digestOf returns a string in the form of a digest, because the names of blobs of secret
// answers contain its beginning.
func digestOf(c string) string { return strings.Repeat(c, 64) }

// Requests of each kind, with everything that codex can offer for them.
var (
	askedCommand = protocol.Request{Kind: protocol.KindCommand, Method: "item/commandExecution/requestApproval", Command: "make", Summary: "run make",
		Digest: digestOf("a"), Amendment: []string{"allow make"}, Offered: []string{"accept", "accept_for_session", "decline", "cancel", "amend"}}
	askedPermissions = protocol.Request{Kind: protocol.KindPermissions, Method: "item/permissions/requestApproval", Summary: "more permissions", Digest: digestOf("b"),
		Permissions: json.RawMessage(`{"network":{"enabled":true},"fileSystem":{"read":["/srv/data"],"write":["/srv/out","/srv/log"]}}`),
		Offered:     []string{"accept", "accept_for_session", "grant", "decline"}}
	askedQuestions = protocol.Request{Kind: protocol.KindUserInput, Method: "item/tool/requestUserInput", Summary: "which one?", Digest: digestOf("c"),
		Questions: []protocol.Question{{ID: "colour", Text: "Which colour?", Options: []protocol.Choice{{Label: "red"}, {Label: "blue"}}},
			{ID: "tags", Text: "Which tags?", Options: []protocol.Choice{{Label: "x"}, {Label: "y"}}, Many: true, Optional: true}},
		Offered: []string{"answer", "decline"}}
	askedSecret = protocol.Request{Kind: protocol.KindUserInput, Method: "item/tool/requestUserInput", Summary: "the password?", Digest: digestOf("d"),
		Questions: []protocol.Question{{ID: "user", Text: "Who?"}, {ID: "password", Text: "Password?", Secret: true}},
		Offered:   []string{"answer", "decline"}}
	askedForm = protocol.Request{Kind: protocol.KindElicitation, Method: "mcpServer/elicitation/request", Server: "tickets", Summary: "a form", Digest: digestOf("e"),
		Questions: []protocol.Question{{ID: "count", Type: "integer"}}, Offered: []string{"answer", "decline", "cancel"}}
	askedURL = protocol.Request{Kind: protocol.KindElicitation, Method: "mcpServer/elicitation/request", Server: "tickets", Summary: "visit", Digest: digestOf("f"),
		URL: "https://tickets.example/login", Offered: []string{"accept", "decline", "cancel"}}
)

// blobOf returns a name of the form that the worker's API gives.
func blobOf(session string, r protocol.Request) string {
	return site.AnswersPrefix + session + "/" + r.Digest[:16] + "-" + strings.Repeat("0", 32)
}

// TestEveryAnswerThatFitsReachesCodexWhole checks that a decision is sent to codex
// unchanged, with all fields that its outcome needs.
func TestEveryAnswerThatFitsReachesCodexWhole(t *testing.T) {
	for name, c := range map[string]struct {
		r    protocol.Request
		d    protocol.Decide
		want conversation.Send
	}{
		"command, accepted":                 {askedCommand, protocol.Decide{Outcome: "accept", Reason: "why not"}, conversation.Send{Outcome: "accept", Reason: "why not"}},
		"command, for the session":          {askedCommand, protocol.Decide{Outcome: "accept", Scope: "session"}, conversation.Send{Outcome: "accept", ForSession: true}},
		"command, with its rule":            {askedCommand, protocol.Decide{Outcome: "amend"}, conversation.Send{Outcome: "amend"}},
		"command, cancelled":                {askedCommand, protocol.Decide{Outcome: "cancel"}, conversation.Send{Outcome: "cancel"}},
		"permissions, all":                  {askedPermissions, protocol.Decide{Outcome: "accept"}, conversation.Send{Outcome: "accept"}},
		"permissions, all, for the session": {askedPermissions, protocol.Decide{Outcome: "accept", Scope: "session"}, conversation.Send{Outcome: "accept", ForSession: true}},
		"permissions, some": {askedPermissions, protocol.Decide{Outcome: "grant", Grant: json.RawMessage(`{"fileSystem":{"write":["/srv/out/today"]}}`)},
			conversation.Send{Outcome: "grant", Grant: json.RawMessage(`{"fileSystem":{"write":["/srv/out/today"]}}`)}},
		"permissions, some, for the session": {askedPermissions, protocol.Decide{Outcome: "grant", Scope: "session", Grant: json.RawMessage(`{"network":{"enabled":true}}`)},
			conversation.Send{Outcome: "grant", ForSession: true, Grant: json.RawMessage(`{"network":{"enabled":true}}`)}},
		"permissions, none": {askedPermissions, protocol.Decide{Outcome: "decline", Reason: "not there"}, conversation.Send{Outcome: "decline", Reason: "not there"}},
		"questions, a text and a list": {askedQuestions, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":"red","tags":["x","y"]}`)},
			conversation.Send{Outcome: "answer", Answers: map[string][]string{"colour": {"red"}, "tags": {"x", "y"}}}},
		"questions, not the optional one": {askedQuestions, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":["blue"]}`)},
			conversation.Send{Outcome: "answer", Answers: map[string][]string{"colour": {"blue"}}}},
		"questions, declined": {askedQuestions, protocol.Decide{Outcome: "decline"}, conversation.Send{Outcome: "decline"}},
		"form, a number":      {askedForm, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"count":7}`)}, conversation.Send{Outcome: "answer", Answers: map[string][]string{"count": {"7"}}}},
		"form, cancelled":     {askedForm, protocol.Decide{Outcome: "cancel"}, conversation.Send{Outcome: "cancel"}},
		"address, visited":    {askedURL, protocol.Decide{Outcome: "accept"}, conversation.Send{Outcome: "accept"}},
		"secret": {askedSecret, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"user":"ann"}`), AnswersBlob: blobOf("s1", askedSecret)},
			conversation.Send{Outcome: "answer", Answers: map[string][]string{"user": {"ann"}}, AnswersBlob: blobOf("s1", askedSecret)}},
		"all of it secret": {askedSecret, protocol.Decide{Outcome: "answer", AnswersBlob: blobOf("s1", askedSecret)},
			conversation.Send{Outcome: "answer", AnswersBlob: blobOf("s1", askedSecret)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = append(w.fake.pumps, asking(c.r), endsTurn("completed", ""))
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			c.d.Approval, c.d.Digest, c.d.By = "s1.1", c.r.Digest, "bob"
			w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalDecide, c.d)) })
			w.at(3*time.Second, func() {
				a := w.approval("s1.1")
				if d := a.Decision; a.State != protocol.ApprovalAcknowledged || d.Outcome != c.d.Outcome || session.Shown(d.Answers) != session.Shown(c.want.Answers) || string(d.Grant) != string(c.want.Grant) || d.AnswersBlob != c.want.AnswersBlob {
					t.Errorf("the approval is %+v, decided as %+v", a, a.Decision)
				}
				w.send(protocol.SignalClose, protocol.Close{})
			})
			w.start(session.Options{})
			got := w.fake.ran[1].Pump.Sends[0]
			c.want.ID, c.want.Kind, c.want.Turn = "s1.a1", conversation.SendDecision, 1
			c.want.RPC, c.want.Incarnation, c.want.RequestKind, c.want.Method = json.RawMessage("0"), 1, c.r.Kind, c.r.Method
			if g, want := encodedText(got), encodedText(c.want); g != want {
				t.Errorf("codex was sent\n%s\nwant\n%s", g, want)
			}
		})
	}
}

func encodedText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// TestNoAnswerThatDoesNotFitIsTaken checks that each answer is refused with a reason and
// with the error type that decides ctl's exit code, and that the approval stays open.
func TestNoAnswerThatDoesNotFitIsTaken(t *testing.T) {
	long := `{"colour":"` + strings.Repeat("x", session.MaxGiven) + `"}`
	for name, c := range map[string]struct {
		r    protocol.Request
		d    protocol.Decide
		kind string
		says string
	}{
		"no such outcome":                      {askedCommand, protocol.Decide{Outcome: "perhaps"}, protocol.RefusedBadInput, "use one of accept, decline, cancel, answer, revise, grant, amend"},
		"no such scope":                        {askedCommand, protocol.Decide{Outcome: "accept", Scope: "ever"}, protocol.RefusedBadInput, "use once or session"},
		"a command answered":                   {askedCommand, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"a":"b"}`)}, protocol.RefusedBadInput, `a command is not answered with "answer"`},
		"a command granted":                    {askedCommand, protocol.Decide{Outcome: "grant", Grant: askedPermissions.Permissions}, protocol.RefusedBadInput, `not answered with "grant"`},
		"a command accepted with answers":      {askedCommand, protocol.Decide{Outcome: "accept", Answers: json.RawMessage(`{"a":"b"}`)}, protocol.RefusedBadInput, "takes no answers"},
		"a command accepted with secrets":      {askedCommand, protocol.Decide{Outcome: "accept", AnswersBlob: blobOf("s1", askedCommand)}, protocol.RefusedBadInput, "takes no answers"},
		"a command accepted with a grant":      {askedCommand, protocol.Decide{Outcome: "accept", Grant: askedPermissions.Permissions}, protocol.RefusedBadInput, "takes no grant"},
		"declined for the session":             {askedCommand, protocol.Decide{Outcome: "decline", Scope: "session"}, protocol.RefusedBadInput, "only an accept or a grant"},
		"a rule for the session":               {askedCommand, protocol.Decide{Outcome: "amend", Scope: "session"}, protocol.RefusedBadInput, "only an accept or a grant"},
		"a rule that is not offered":           {notOffering(askedCommand, "amend"), protocol.Decide{Outcome: "amend"}, protocol.RefusedState, "amend is not offered (accept, accept_for_session, decline, cancel are)"},
		"a rule for permissions":               {askedPermissions, protocol.Decide{Outcome: "amend"}, protocol.RefusedBadInput, `not answered with "amend"`},
		"permissions cancelled":                {askedPermissions, protocol.Decide{Outcome: "cancel"}, protocol.RefusedState, "cancel is not offered"},
		"a grant of nothing":                   {askedPermissions, protocol.Decide{Outcome: "grant"}, protocol.RefusedBadInput, "needs the field grant"},
		"a grant that gives nothing":           {askedPermissions, protocol.Decide{Outcome: "grant", Grant: json.RawMessage(`{"network":{"enabled":false}}`)}, protocol.RefusedBadInput, "gives nothing"},
		"a grant of more":                      {askedPermissions, protocol.Decide{Outcome: "grant", Grant: json.RawMessage(`{"fileSystem":{"write":["/etc"]}}`)}, protocol.RefusedBadInput, "lets /etc be written, which codex does not ask for"},
		"a grant beside it":                    {askedPermissions, protocol.Decide{Outcome: "grant", Grant: json.RawMessage(`{"fileSystem":{"write":["/srv/output"]}}`)}, protocol.RefusedBadInput, "/srv/output"},
		"a grant of writing for reading":       {askedPermissions, protocol.Decide{Outcome: "grant", Grant: json.RawMessage(`{"fileSystem":{"write":["/srv/data"]}}`)}, protocol.RefusedBadInput, "/srv/data"},
		"a grant in no shape":                  {askedPermissions, protocol.Decide{Outcome: "grant", Grant: json.RawMessage(`{"everything":true}`)}, protocol.RefusedBadInput, "everything"},
		"a grant for a session, not offered":   {notOffering(askedPermissions, "accept_for_session"), protocol.Decide{Outcome: "grant", Scope: "session", Grant: json.RawMessage(`{"network":{"enabled":true}}`)}, protocol.RefusedState, "accept_for_session is not offered"},
		"questions accepted":                   {askedQuestions, protocol.Decide{Outcome: "accept"}, protocol.RefusedBadInput, `a user_input is not answered with "accept"`},
		"questions not answered":               {askedQuestions, protocol.Decide{Outcome: "answer"}, protocol.RefusedBadInput, `"colour" is not answered (options: "red", "blue")`},
		"questions answered in a wrong way":    {askedQuestions, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":"green"}`)}, protocol.RefusedBadInput, "not one of its options"},
		"questions answered twice":             {askedQuestions, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":["red","blue"]}`)}, protocol.RefusedBadInput, "takes one answer, and has 2"},
		"questions that were not asked":        {askedQuestions, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":"red","size":"9"}`)}, protocol.RefusedBadInput, `"size" is not one of the questions`},
		"answers that are no object":           {askedQuestions, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`["red"]`)}, protocol.RefusedBadInput, "answers are an object"},
		"answers that are no texts":            {askedQuestions, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":{"is":"red"}}`)}, protocol.RefusedBadInput, "neither a text nor a list of texts"},
		"too long an answer":                   {askedQuestions, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(long)}, protocol.RefusedBadInput, "at most 32768"},
		"questions cancelled":                  {askedQuestions, protocol.Decide{Outcome: "cancel"}, protocol.RefusedState, "cancel is not offered (answer, decline are)"},
		"a form accepted":                      {askedForm, protocol.Decide{Outcome: "accept"}, protocol.RefusedState, "accept is not offered (answer, decline, cancel are)"},
		"a form with a word for a number":      {askedForm, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"count":"many"}`)}, protocol.RefusedBadInput, "takes a whole number"},
		"an address answered":                  {askedURL, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"a":"b"}`)}, protocol.RefusedBadInput, `not answered with "answer"`},
		"a secret in the message":              {askedSecret, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"user":"ann","password":"hunter2hunter2"}`)}, protocol.RefusedBadInput, "--secret password=-"},
		"a secret of another session":          {askedSecret, protocol.Decide{Outcome: "answer", AnswersBlob: blobOf("s2", askedSecret)}, protocol.RefusedBadInput, "not a key that the worker's API returned"},
		"a secret for another request":         {askedSecret, protocol.Decide{Outcome: "answer", AnswersBlob: blobOf("s1", askedQuestions)}, protocol.RefusedBadInput, "not a key that the worker's API returned"},
		"a blob that is none":                  {askedSecret, protocol.Decide{Outcome: "answer", AnswersBlob: "seeds/team/1"}, protocol.RefusedBadInput, "not a key that the worker's API returned"},
		"a blob that leads out of its folder":  {askedSecret, protocol.Decide{Outcome: "answer", AnswersBlob: site.AnswersPrefix + "s1/../../seeds/x"}, protocol.RefusedBadInput, "not a key that the worker's API returned"},
		"half of it secret, and half of it no": {askedSecret, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"nobody":"x"}`), AnswersBlob: blobOf("s1", askedSecret)}, protocol.RefusedBadInput, `"nobody" is not one of the questions`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = append(w.fake.pumps, asking(c.r), endsTurn("completed", ""))
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			c.d.Approval, c.d.Digest, c.d.By = "s1.1", c.r.Digest, "bob"

			w.at(2*time.Second, func() {
				u := w.send(protocol.SignalDecide, c.d)
				w.refuses(u, c.kind)
				w.SignalWorkflow(protocol.SignalDecide, c.d)
			})
			w.at(3*time.Second, func() {
				if a := w.approval("s1.1"); a.State != protocol.ApprovalOpen || a.Decision != nil {
					t.Errorf("the approval is %+v", a)
				}
				if v := w.view(); len(v.Refusals) != 1 || !strings.Contains(v.Refusals[0].Reason, c.says) || strings.Contains(v.Refusals[0].Reason, "hunter2") {
					t.Errorf("refused with %+v, want %q", v.Refusals, c.says)
				}
				w.send(protocol.SignalClose, protocol.Close{})
			})
			w.start(session.Options{})
		})
	}
}

func notOffering(r protocol.Request, word string) protocol.Request {
	var left []string
	for _, o := range r.Offered {
		if o != word {
			left = append(left, o)
		}
	}
	r.Offered = left
	return r
}
