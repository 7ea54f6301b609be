// Package slack has the end-to-end tests of decisions in Slack.
package slack

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/receivers"
)

var chat *receivers.Slack

const (
	botToken = "xoxb-000000000000-test"
	appToken = "xapp-1-A0000000001-000000000000-test"
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "end-to-end:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("/var/tmp", "fairlead-slack-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	chat = receivers.NewSlack(botToken, appToken)
	defer chat.Close()
	rules := fmt.Sprintf(`console: https://fairlead.example.com
details: summary
limit: {messages: 1000, per: 1s}
allow_private: [127.0.0.0/8]
channels:
  chat: {kind: slack, token_file: bot.token, app_token_file: app.token, decide: true, channel: C0123456789, api: "%s/api/"}
people:
  - {name: ann, slack: U0123456789}
rules:
  - {name: approvals, events: [approval.opened], sessions: {ids: ["s-*"]}, to: [ann], by: [chat]}
`, chat.URL)
	for name, text := range map[string]string{"bot.token": botToken, "app.token": appToken, "rules.yaml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			return 1, err
		}
	}
	return e2e.MainWith(m, "notifications: "+filepath.Join(dir, "rules.yaml")+"\n", nil), nil
}
