package authority

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/receivers"
	"fairlead.dev/fairlead/internal/protocol"
)

// chat is where the stack's approvals of sessions slack-… are told.
var chat *receivers.Slack

// openChat starts it, and returns the config of the workers.
func openChat(dir string) (config string, err error) {
	const bot, app = "xoxb-000000000000-test", "xapp-1-A0000000001-000000000000-test"
	chat = receivers.NewSlack(bot, app)
	rules := fmt.Sprintf(`console: https://fairlead.example.com
details: summary
allow_private: [127.0.0.0/8]
limit: {messages: 1000, per: 1s}
channels:
  chat: {kind: slack, token_file: bot.token, app_token_file: app.token, decide: true, channel: C0123456789, api: "%s/api/"}
rules:
  - {name: approvals, events: [approval.opened], sessions: {ids: ["slack-*"]}, to: ["channel:chat"]}
`, chat.URL)
	for name, text := range map[string]string{"bot.token": bot, "app.token": app, "notify.yaml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			return "", err
		}
	}
	return "notifications: " + filepath.Join(dir, "notify.yaml") + "\n", nil
}

// inSlack delivers something once a worker is connected, and waits for its answer.
func inSlack(t *testing.T, send func() (string, error)) (answer string) {
	t.Helper()
	envelope := ""
	e2e.Until(t, "a connection to Slack", func() (bool, error) {
		var err error
		envelope, err = send()
		return err == nil, nil
	})
	e2e.Until(t, "the answer of the app", func() (bool, error) {
		payload, ok := chat.Acked(envelope)
		answer = string(payload)
		return ok, nil
	})
	return answer
}

// In one channel, all see the same button. It works for a linked account of somebody who may decide
// at that moment, and each click is on record.
func TestAClickInSlackCountsForWhoMayDecideThen(t *testing.T) {
	const session = "slack-roles"
	account := func(id string) receivers.SlackUser { // nobody looks at the name
		return receivers.SlackUser{Team: "T0000000001", ID: id, Name: "bob"}
	}
	bob, nina, stranger := account("U0000000001"), account("U0000000002"), account("U0000000003")
	mustNot(t, "vera", "allows approval.decide", "notify", "link")
	for who, u := range map[string]receivers.SlackUser{"bob": bob, "nina": nina} {
		var code api.SlackCode
		if err := json.Unmarshal([]byte(mustDo(t, who, "notify", "link", "-o", "json")), &code); err != nil {
			t.Fatal(err)
		}
		if said := inSlack(t, func() (string, error) { return chat.Command(u, "link "+code.Code) }); !strings.Contains(said, "decides for "+who) {
			t.Fatalf("the app says %s", said)
		}
	}
	start(t, session)
	mustDo(t, "alice", "session", "send", session, "need a command", "--no-wait")
	ap := e2e.Open(t, session, 1)[0]
	var m receivers.SlackMessage
	e2e.Until(t, "the message", func() (bool, error) {
		all := chat.Messages()
		i := slices.IndexFunc(all, func(m receivers.SlackMessage) bool { return strings.Contains(m.Text, ap.ID) })
		if i >= 0 {
			m = all[i]
		}
		return i >= 0, nil
	})

	// nina was an approver when she linked her account. Now she may only look.
	was, err := os.ReadFile(filepath.Join(keys, "access.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := writeAccess(string(was)); err != nil {
			t.Error(err)
		}
	})
	if err := writeAccess(strings.Replace(string(was), "{name: nina decides, roles: [approver]", "{name: nina looks, roles: [viewer]", 1)); err != nil {
		t.Fatal(err)
	}
	e2e.Until(t, "nina's role to end", func() (bool, error) {
		return e2e.Lab.Ctl(e2e.Within(t), nil, "access", "why", "nina", "accept", ap.ID).Code == 6, nil
	})
	for _, no := range []struct {
		who  receivers.SlackUser
		says string
	}{{stranger, "not linked"}, {nina, "was not recorded"}} {
		inSlack(t, func() (string, error) { return chat.Click(no.who, m, "fairlead_accept") })
		e2e.Until(t, no.who.ID+" is told that it does not count", func() (bool, error) {
			return slices.ContainsFunc(chat.Whispers(no.who.ID), func(said string) bool { return strings.Contains(said, no.says) }), nil
		})
		if now := e2e.Open(t, session, 1)[0]; now.ID != ap.ID || now.Digest != ap.Digest {
			t.Errorf("after the click of %s, open is %+v", no.who.ID, now)
		}
	}

	inSlack(t, func() (string, error) { return chat.Click(bob, m, "fairlead_accept") })
	var now protocol.Approval
	e2e.Until(t, "the decision", func() (bool, error) {
		err := e2e.Lab.JSON(e2e.Within(t), &now, "approval", "show", ap.ID)
		return err == nil && now.State == protocol.ApprovalAcknowledged, nil
	})
	if d := now.Decision; d.By != "bob" || d.Outcome != "accept" || d.Reason != "decided in Slack by T0000000001/"+bob.ID {
		t.Errorf("the decision is %+v", d)
	}
	e2e.Idle(t, session)

	on := map[string]bool{} // what is on record
	e2e.Until(t, "the records of the clicks", func() (bool, error) {
		all, err := lab.Lines[audit.Record](e2e.Within(t), e2e.Lab, "audit", "list")
		for _, r := range all {
			switch {
			case r.Decision != nil && r.Decision.Approval == ap.ID && r.Evidence.Signature != "":
				on[r.Outcome+" "+r.Principal+", signed"] = true
			case r.Verb == audit.SlackDecide && r.Object == ap.ID:
				on[r.Outcome+" "+r.Principal+" in Slack"] = true
			}
		}
		for _, want := range []string{"accepted bob, signed", "accepted bob in Slack", "refused nina in Slack"} {
			if !on[want] {
				return false, fmt.Errorf("%q is not among %v (%v)", want, on, err)
			}
		}
		return true, nil
	})
	for what := range on {
		if strings.HasPrefix(what, "accepted") && !strings.HasPrefix(what, "accepted bob") {
			t.Errorf("on record is: %s", what)
		}
	}
	e2e.OK(t, "audit", "verify", "--session", session)
}
