// Package notify has the end-to-end tests of notifications.
package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/receivers"
	"fairlead.dev/fairlead/internal/notify"
)

// What people are told goes to these.
var (
	dir    string
	hook   *receivers.HTTP
	slack  *receivers.Slack
	mail   *receivers.Mail
	device *receivers.Device
)

const (
	hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	slackToken = "xoxb-000000000000-test"
)

func TestMain(m *testing.M) {
	code, err := receive(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "end-to-end:", err)
		code = 1
	}
	os.Exit(code)
}

func receive(m *testing.M) (code int, err error) {
	if dir, err = os.MkdirTemp("/var/tmp", "fairlead-notify-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	hook, slack = receivers.NewWebhook(), receivers.NewSlack(slackToken, "xapp-unused")
	defer hook.Close()
	defer slack.Close()
	if mail, err = receivers.NewMail(); err != nil {
		return 1, err
	}
	defer mail.Close()
	if device, err = receivers.NewDevice(); err != nil {
		return 1, err
	}
	defer device.Service.Close()
	private, _, err := notify.NewPushKey()
	if err != nil {
		return 1, err
	}
	devices, err := json.Marshal([]json.RawMessage{device.Subscription()})
	if err != nil {
		return 1, err
	}
	for name, text := range map[string]string{"hook.secret": hookSecret, "slack.token": slackToken, "push.key": private, "ann.push": string(devices), "rules.yaml": rules("")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			return 1, err
		}
	}
	return e2e.MainWith(m, "notifications: "+filepath.Join(dir, "rules.yaml")+"\n", nil), nil
}

// ownerName is the stack's owner, as who starts its sessions.
func ownerName() string {
	machine, err := os.Hostname()
	u, uerr := user.Current()
	if err = errors.Join(err, uerr); err != nil {
		panic(err)
	}
	return u.Username + "@" + machine
}

// rules are those of the stack, with more at the end. Unless that has a limit, no message waits for an
// earlier one of another test.
func rules(more string) string {
	if !strings.Contains(more, "limit: ") {
		more += "limit: {messages: 100, per: 10s}\n"
	}
	return fmt.Sprintf(`console: https://fairlead.example.com
allow_private: [127.0.0.0/8]
channels:
  hook: {kind: webhook, url: "%s/hook", secret_file: hook.secret}
  chat: {kind: slack, token_file: slack.token, api: "%s/api/"}
  post: {kind: mail, server: "%s", tls: none, from: fairlead@example.com}
  push: {kind: push, key_file: push.key, contact: "mailto:ops@example.com"}
people:
  - {name: ann, mail: ann@example.com, slack: U0123456789, push_file: ann.push}
  - {name: bob, mail: bob@example.com}
  - {name: "%s", mail: owner@example.com}
rules:
  - {name: approvals, events: [approval.opened], sessions: {ids: ["all-*"]}, to: ["channel:hook", ann]}
  - {name: by-hook, events: [approval.opened, turn.ended, session.ended, session.failed], sessions: {ids: ["hook-*"]}, to: ["channel:hook"]}
  - {name: by-mail, events: [approval.opened], sessions: {ids: ["mail-*"]}, to: [bob]}
  - {name: by-chat, events: [approval.opened], sessions: {ids: ["chat-*"]}, to: [ann], by: [chat]}
  - {name: escalate, events: [approval.expiring], before: 2h, sessions: {ids: ["soon-*"]}, to: [bob], urgent: true}
  - {name: seen, events: [approval.opened], sessions: {ids: ["seen-*"]}, to: [owner, bob]}
%s`, hook.URL, slack.URL, mail.Address, ownerName(), more)
}
