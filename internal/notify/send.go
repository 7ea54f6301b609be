package notify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"
)

// A Result is what came of an attempt.
type Result string

// Results of an attempt.
const (
	Sent    Result = "sent"
	Failed  Result = "failed"
	Retry   Result = "retry" // the server did not take it
	Unknown Result = "unknown"
)

// An Outcome is the result of an attempt. After is how long the server asks to wait. Card is
// what was posted in Slack, if people can decide there.
type Outcome struct {
	Result Result
	Reason string
	After  time.Duration
	Card   *Card
}

// A Sender sends messages.
type Sender struct {
	// Now is the clock of signatures.
	Now func() time.Time
}

// Send makes one attempt. The error says that the rules do not have the channel or the person.
func (s *Sender) Send(ctx context.Context, r *Rules, name string, m Message) (Outcome, error) {
	c, ok := r.file.Channels[name]
	if !ok {
		return Outcome{}, fmt.Errorf("the rules have no channel %s any more", name)
	}
	p, ok := r.person(m.Person)
	if m.Person != "" && !ok {
		return Outcome{}, fmt.Errorf("the rules have no person %s any more", m.Person)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	var out Outcome
	switch c.Kind {
	case Webhook:
		out = s.webhook(ctx, r, c, m)
	case Slack:
		out = s.slack(ctx, r, name, p, m)
	case Mail:
		out = s.mail(ctx, r, c, p, m)
	case Push:
		out = s.push(ctx, r, c, p, m)
	case Shoutrrr:
		out = s.shoutrrr(ctx, r, c, m)
	}
	out.Reason = plain(out.Reason, 500)
	return out, nil
}

func failed(format string, args ...any) Outcome {
	return Outcome{Result: Failed, Reason: fmt.Sprintf(format, args...)}
}

// unsent is a problem on our side: the message waits until somebody mends it.
func unsent(err error) Outcome { return Outcome{Result: Retry, Reason: err.Error()} }

// lost is the outcome of a connection that failed. wrote says that the message may have reached
// the server.
func lost(err error, wrote bool) Outcome {
	if errors.Is(err, errPrivate) {
		return failed("%v", errPrivate)
	}
	if wrote {
		return Outcome{Result: Unknown, Reason: "the connection was lost before the server answered (" + cause(err) + ")"}
	}
	return Outcome{Result: Retry, Reason: "the server cannot be reached (" + cause(err) + ")"}
}

// cause returns an error's text without addresses, which may hold secrets.
func cause(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "its name is not found: " + dns.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "the worker stops"
	}
	return err.Error()
}

// status is the outcome of an HTTP status.
func status(code int, after string) Outcome {
	switch {
	case code >= 200 && code < 300:
		return Outcome{Result: Sent}
	case code == 408, code == 425, code == 429, code >= 500:
		return Outcome{Result: Retry, Reason: fmt.Sprintf("the server answered with status %d", code), After: retryAfter(after)}
	case code >= 300 && code < 400:
		return failed("the server sends elsewhere (status %d), and redirects are not followed", code)
	}
	return failed("the server refused it with status %d", code)
}

// longestAfter bounds a Retry-After.
const longestAfter = time.Hour

func retryAfter(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(min(n, 1<<20))*time.Second, longestAfter)
}
