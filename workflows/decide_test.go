package workflows

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// asking returns a pump in which codex makes these requests, with ids as asks gives
// them.
func asking(reqs ...protocol.Request) pumpFunc {
	return func(ctx context.Context, in activities.RunPumpInput) (activities.RunPumpResult, error) {
		out, err := asks(make([]string, len(reqs))...)(ctx, in)
		for i, r := range reqs {
			was := out.Pump.Requests[i]
			r.RPC, r.Incarnation = was.RPC, was.Incarnation
			out.Pump.Requests[i] = r
		}
		return out, err
	}
}

// digestOf returns a string of the form of a digest, because secret answers are
// stored under it.
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
	return activities.AnswersPrefix + session + "/" + r.Digest[:16] + "-" + strings.Repeat("0", 32)
}

// TestEveryAnswerThatFitsReachesCodexWhole checks that what is sent is what was
// decided, with all that its shape needs.
func TestEveryAnswerThatFitsReachesCodexWhole(t *testing.T) {
	for name, c := range map[string]struct {
		r    protocol.Request
		d    Decide
		want conversation.Send
	}{
		"command, accepted":                 {askedCommand, Decide{Outcome: "accept", Reason: "why not"}, conversation.Send{Outcome: "accept", Reason: "why not"}},
		"command, for the session":          {askedCommand, Decide{Outcome: "accept", Scope: "session"}, conversation.Send{Outcome: "accept", ForSession: true}},
		"command, with its rule":            {askedCommand, Decide{Outcome: "amend"}, conversation.Send{Outcome: "amend"}},
		"command, cancelled":                {askedCommand, Decide{Outcome: "cancel"}, conversation.Send{Outcome: "cancel"}},
		"permissions, all":                  {askedPermissions, Decide{Outcome: "accept"}, conversation.Send{Outcome: "accept"}},
		"permissions, all, for the session": {askedPermissions, Decide{Outcome: "accept", Scope: "session"}, conversation.Send{Outcome: "accept", ForSession: true}},
		"permissions, some": {askedPermissions, Decide{Outcome: "grant", Grant: json.RawMessage(`{"fileSystem":{"write":["/srv/out/today"]}}`)},
			conversation.Send{Outcome: "grant", Grant: json.RawMessage(`{"fileSystem":{"write":["/srv/out/today"]}}`)}},
		"permissions, some, for the session": {askedPermissions, Decide{Outcome: "grant", Scope: "session", Grant: json.RawMessage(`{"network":{"enabled":true}}`)},
			conversation.Send{Outcome: "grant", ForSession: true, Grant: json.RawMessage(`{"network":{"enabled":true}}`)}},
		"permissions, none": {askedPermissions, Decide{Outcome: "decline", Reason: "not there"}, conversation.Send{Outcome: "decline", Reason: "not there"}},
		"questions, a text and a list": {askedQuestions, Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":"red","tags":["x","y"]}`)},
			conversation.Send{Outcome: "answer", Answers: map[string][]string{"colour": {"red"}, "tags": {"x", "y"}}}},
		"questions, not the optional one": {askedQuestions, Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":["blue"]}`)},
			conversation.Send{Outcome: "answer", Answers: map[string][]string{"colour": {"blue"}}}},
		"questions, declined": {askedQuestions, Decide{Outcome: "decline"}, conversation.Send{Outcome: "decline"}},
		"form, a number":      {askedForm, Decide{Outcome: "answer", Answers: json.RawMessage(`{"count":7}`)}, conversation.Send{Outcome: "answer", Answers: map[string][]string{"count": {"7"}}}},
		"form, cancelled":     {askedForm, Decide{Outcome: "cancel"}, conversation.Send{Outcome: "cancel"}},
		"address, visited":    {askedURL, Decide{Outcome: "accept"}, conversation.Send{Outcome: "accept"}},
		"secret": {askedSecret, Decide{Outcome: "answer", Answers: json.RawMessage(`{"user":"ann"}`), AnswersBlob: blobOf("s1", askedSecret)},
			conversation.Send{Outcome: "answer", Answers: map[string][]string{"user": {"ann"}}, AnswersBlob: blobOf("s1", askedSecret)}},
		"all of it secret": {askedSecret, Decide{Outcome: "answer", AnswersBlob: blobOf("s1", askedSecret)},
			conversation.Send{Outcome: "answer", AnswersBlob: blobOf("s1", askedSecret)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = append(w.fake.pumps, asking(c.r), endsTurn("completed", ""))
			w.at(time.Second, func() { w.send(SignalMessage, hello("m1")) })
			c.d.Approval, c.d.Digest, c.d.By = "s1.1", c.r.Digest, "bob"
			w.at(2*time.Second, func() { w.takes(w.send(SignalDecide, c.d)) })
			w.at(3*time.Second, func() {
				a := w.approval("s1.1")
				if d := a.Decision; a.State != ApprovalAcknowledged || d.Outcome != c.d.Outcome || shown(d.Answers) != shown(c.want.Answers) || string(d.Grant) != string(c.want.Grant) || d.AnswersBlob != c.want.AnswersBlob {
					t.Errorf("the approval is %+v, decided as %+v", a, a.Decision)
				}
				w.send(SignalClose, Close{})
			})
			w.start(SessionOptions{})
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

// TestNoAnswerThatDoesNotFitIsTaken checks that each answer is refused with the
// error type that ctl exits by and with a reason, and leaves the approval open.
func TestNoAnswerThatDoesNotFitIsTaken(t *testing.T) {
	long := `{"colour":"` + strings.Repeat("x", maxGiven) + `"}`
	for name, c := range map[string]struct {
		r    protocol.Request
		d    Decide
		kind string
		says string
	}{
		"no such outcome":                      {askedCommand, Decide{Outcome: "perhaps"}, RefusedBadInput, "none of accept, decline, cancel, answer, grant, amend"},
		"no such scope":                        {askedCommand, Decide{Outcome: "accept", Scope: "ever"}, RefusedBadInput, "none of once, session"},
		"a command answered":                   {askedCommand, Decide{Outcome: "answer", Answers: json.RawMessage(`{"a":"b"}`)}, RefusedBadInput, `a command is not answered with "answer"`},
		"a command granted":                    {askedCommand, Decide{Outcome: "grant", Grant: askedPermissions.Permissions}, RefusedBadInput, `not answered with "grant"`},
		"a command accepted with answers":      {askedCommand, Decide{Outcome: "accept", Answers: json.RawMessage(`{"a":"b"}`)}, RefusedBadInput, "takes no answers"},
		"a command accepted with secrets":      {askedCommand, Decide{Outcome: "accept", AnswersBlob: blobOf("s1", askedCommand)}, RefusedBadInput, "takes no answers"},
		"a command accepted with a grant":      {askedCommand, Decide{Outcome: "accept", Grant: askedPermissions.Permissions}, RefusedBadInput, "takes no grant"},
		"declined for the session":             {askedCommand, Decide{Outcome: "decline", Scope: "session"}, RefusedBadInput, "only an accept or a grant"},
		"a rule for the session":               {askedCommand, Decide{Outcome: "amend", Scope: "session"}, RefusedBadInput, "only an accept or a grant"},
		"a rule that is not offered":           {notOffering(askedCommand, "amend"), Decide{Outcome: "amend"}, RefusedState, "amend is not offered (accept, accept_for_session, decline, cancel are)"},
		"a rule for permissions":               {askedPermissions, Decide{Outcome: "amend"}, RefusedBadInput, `not answered with "amend"`},
		"permissions cancelled":                {askedPermissions, Decide{Outcome: "cancel"}, RefusedState, "cancel is not offered"},
		"a grant of nothing":                   {askedPermissions, Decide{Outcome: "grant"}, RefusedBadInput, "says what is given"},
		"a grant that gives nothing":           {askedPermissions, Decide{Outcome: "grant", Grant: json.RawMessage(`{"network":{"enabled":false}}`)}, RefusedBadInput, "gives nothing"},
		"a grant of more":                      {askedPermissions, Decide{Outcome: "grant", Grant: json.RawMessage(`{"fileSystem":{"write":["/etc"]}}`)}, RefusedBadInput, "lets /etc be written, which codex does not ask for"},
		"a grant beside it":                    {askedPermissions, Decide{Outcome: "grant", Grant: json.RawMessage(`{"fileSystem":{"write":["/srv/output"]}}`)}, RefusedBadInput, "/srv/output"},
		"a grant of writing for reading":       {askedPermissions, Decide{Outcome: "grant", Grant: json.RawMessage(`{"fileSystem":{"write":["/srv/data"]}}`)}, RefusedBadInput, "/srv/data"},
		"a grant in no shape":                  {askedPermissions, Decide{Outcome: "grant", Grant: json.RawMessage(`{"everything":true}`)}, RefusedBadInput, "everything"},
		"a grant for a session, not offered":   {notOffering(askedPermissions, "accept_for_session"), Decide{Outcome: "grant", Scope: "session", Grant: json.RawMessage(`{"network":{"enabled":true}}`)}, RefusedState, "accept_for_session is not offered"},
		"questions accepted":                   {askedQuestions, Decide{Outcome: "accept"}, RefusedBadInput, `a user_input is not answered with "accept"`},
		"questions not answered":               {askedQuestions, Decide{Outcome: "answer"}, RefusedBadInput, `"colour" is not answered (options: "red", "blue")`},
		"questions answered in a wrong way":    {askedQuestions, Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":"green"}`)}, RefusedBadInput, "none of its options"},
		"questions answered twice":             {askedQuestions, Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":["red","blue"]}`)}, RefusedBadInput, "takes one answer, and has 2"},
		"questions that were not asked":        {askedQuestions, Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":"red","size":"9"}`)}, RefusedBadInput, `"size" is no question of these`},
		"answers that are no object":           {askedQuestions, Decide{Outcome: "answer", Answers: json.RawMessage(`["red"]`)}, RefusedBadInput, "answers are an object"},
		"answers that are no texts":            {askedQuestions, Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":{"is":"red"}}`)}, RefusedBadInput, "neither a text nor a list of texts"},
		"too long an answer":                   {askedQuestions, Decide{Outcome: "answer", Answers: json.RawMessage(long)}, RefusedBadInput, "at most 32768"},
		"questions cancelled":                  {askedQuestions, Decide{Outcome: "cancel"}, RefusedState, "cancel is not offered (answer, decline are)"},
		"a form accepted":                      {askedForm, Decide{Outcome: "accept"}, RefusedState, "accept is not offered (answer, decline, cancel are)"},
		"a form with a word for a number":      {askedForm, Decide{Outcome: "answer", Answers: json.RawMessage(`{"count":"many"}`)}, RefusedBadInput, "takes a whole number"},
		"an address answered":                  {askedURL, Decide{Outcome: "answer", Answers: json.RawMessage(`{"a":"b"}`)}, RefusedBadInput, `not answered with "answer"`},
		"a secret in the message":              {askedSecret, Decide{Outcome: "answer", Answers: json.RawMessage(`{"user":"ann","password":"hunter2hunter2"}`)}, RefusedBadInput, "--secret password=-"},
		"a secret of another session":          {askedSecret, Decide{Outcome: "answer", AnswersBlob: blobOf("s2", askedSecret)}, RefusedBadInput, "none that the worker's API gave"},
		"a secret for another request":         {askedSecret, Decide{Outcome: "answer", AnswersBlob: blobOf("s1", askedQuestions)}, RefusedBadInput, "none that the worker's API gave"},
		"a blob that is none":                  {askedSecret, Decide{Outcome: "answer", AnswersBlob: "seeds/team/1"}, RefusedBadInput, "none that the worker's API gave"},
		"a blob that leads out of its folder":  {askedSecret, Decide{Outcome: "answer", AnswersBlob: activities.AnswersPrefix + "s1/../../seeds/x"}, RefusedBadInput, "none that the worker's API gave"},
		"half of it secret, and half of it no": {askedSecret, Decide{Outcome: "answer", Answers: json.RawMessage(`{"nobody":"x"}`), AnswersBlob: blobOf("s1", askedSecret)}, RefusedBadInput, `"nobody" is no question`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = append(w.fake.pumps, asking(c.r), endsTurn("completed", ""))
			w.at(time.Second, func() { w.send(SignalMessage, hello("m1")) })
			c.d.Approval, c.d.Digest, c.d.By = "s1.1", c.r.Digest, "bob"

			w.at(2*time.Second, func() {
				u := w.send(SignalDecide, c.d)
				w.refuses(u, c.kind)
				w.SignalWorkflow(SignalDecide, c.d)
			})
			w.at(3*time.Second, func() {
				if a := w.approval("s1.1"); a.State != ApprovalOpen || a.Decision != nil {
					t.Errorf("the approval is %+v", a)
				}
				if v := w.view(); len(v.Refusals) != 1 || !strings.Contains(v.Refusals[0].Reason, c.says) || strings.Contains(v.Refusals[0].Reason, "hunter2") {
					t.Errorf("refused with %+v, want %q", v.Refusals, c.says)
				}
				w.send(SignalClose, Close{})
			})
			w.start(SessionOptions{})
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
