package notify

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/slack-go/slack"
)

// slack posts a message to a member or a channel. Slack has no way to drop doubles: the
// message's metadata has its id, for whoever looks later.
func (s *Sender) slack(ctx context.Context, r *Rules, name string, p person, m Message) Outcome {
	c := r.file.Channels[name]
	token, err := r.secret(c.TokenFile)
	if err != nil {
		return unsent(err)
	}
	to := c.Channel
	if p.Name != "" {
		to = p.Slack
	}
	if to == "" {
		return failed("the rules do not say where in Slack it goes")
	}
	client, wire := r.watched()
	message := []slack.MsgOption{slack.MsgOptionText(m.Text(r.Inbox()), true), slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl(),
		slack.MsgOptionMetadata(slack.SlackMetadata{EventType: "fairlead_notice", EventPayload: map[string]any{"id": m.ID}})}
	blocks, decides := c.blocks(m)
	if len(blocks) > 0 {
		message = append(message, slack.MsgOptionBlocks(blocks...))
	}
	chat, ts, err := slack.New(token, c.options(client)...).PostMessageContext(ctx, to, message...)
	var limited *slack.RateLimitedError
	var code slack.StatusCodeError
	var answer slack.SlackErrorResponse
	switch {
	case err == nil && decides:
		e := m.Events[0]
		return Outcome{Result: Sent, Card: &Card{Channel: name, Chat: chat, TS: ts, Approval: e.Approval, Session: e.Session, Digest: e.Ask.Digest, Blocks: withoutButtons(blocks)}}
	case err == nil:
		return Outcome{Result: Sent}
	case errors.As(err, &limited):
		return Outcome{Result: Retry, Reason: "Slack asks to wait", After: min(limited.RetryAfter, longestAfter)}
	case errors.As(err, &code) && (code.Code == http.StatusInternalServerError || code.Code == http.StatusGatewayTimeout):
		return Outcome{Result: Unknown, Reason: status(code.Code, "").Reason}
	case errors.As(err, &code):
		return status(code.Code, "")
	case errors.As(err, &answer):
		return slackSaid(answer.Err)
	}
	return lost(err, wire.wrote.Load())
}

func (c channel) options(client *http.Client) []slack.Option {
	opts := []slack.Option{slack.OptionHTTPClient(client)}
	if c.API != "" {
		opts = append(opts, slack.OptionAPIURL(strings.TrimRight(c.API, "/")+"/"))
	}
	return opts
}

// slackSaid is the outcome of an error of the Web API. With some of them, a part may have been
// done.
func slackSaid(word string) Outcome {
	switch word {
	case "fatal_error", "internal_error", "request_timeout":
		return Outcome{Result: Unknown, Reason: "Slack answered " + word}
	case "ratelimited", "rate_limited", "service_unavailable", "team_added_to_org", "message_limit_exceeded":
		return Outcome{Result: Retry, Reason: "Slack answered " + word}
	}
	return failed("Slack refused it: %s", word)
}
