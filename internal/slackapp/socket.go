package slackapp

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"math/rand/v2"
	"time"

	"github.com/gorilla/websocket"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"fairlead.dev/fairlead/internal/notify"
)

const (
	// pingWait is after how long without a ping of Slack a connection counts as dead. It is looked
	// at as often, so that a silent death is noticed within twice the time.
	pingWait = 30 * time.Second
	// longestPause bounds the pause before another try to connect. The library's own would grow to
	// 5 minutes.
	longestPause = 20 * time.Second
	// mostAtOnce bounds the clicks that are handled at a time.
	mostAtOnce = 16
	// ackWithin is when Slack is told that a click has arrived, if it is not done by then. Slack
	// waits for 3 s.
	ackWithin = 2 * time.Second
	// clickWait bounds what becomes of one click. A decision takes up to 40 s when nothing answers.
	clickWait = time.Minute
	// stopWait bounds how long a worker that ends waits for clicks that are under way.
	stopWait = 20 * time.Second
	// maxEnvelope bounds a message of Slack, in bytes.
	maxEnvelope = 1 << 20
)

// serve keeps a connection of one app until ctx ends.
func (a *App) serve(ctx context.Context, app notify.SlackApp) {
	log := a.log.With("channel", app.Channel)
	for told := false; ctx.Err() == nil; {
		connected, err := a.connection(ctx, app)
		if ctx.Err() != nil {
			return
		}
		if connected {
			told = false
		}
		if !told {
			log.Warn("no connection to Slack: nobody can decide there until there is one again", "err", err)
			told = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(longestPause/4 + rand.N(3*longestPause/4)):
		}
	}
}

// connection runs until the library gives up, or waits too long for its next try. It reports whether
// there was a connection.
func (a *App) connection(ctx context.Context, app notify.SlackApp) (connected bool, err error) {
	client := app.Client()
	socket := socketmode.New(client, socketmode.OptionPingInterval(pingWait), socketmode.OptionReadLimit(maxEnvelope), socketmode.OptionLog(log.New(io.Discard, "", 0)),
		socketmode.OptionDialer(&websocket.Dialer{NetDialContext: app.Dial, HandshakeTimeout: 20 * time.Second, WriteBufferSize: 32 << 10, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	heard := make(chan bool, 1)
	go func() {
		was := false
		defer func() { heard <- was }()
		slots := make(chan struct{}, mostAtOnce)
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-socket.Events:
				switch data := e.Data.(type) {
				case *socketmode.ConnectedEvent:
					was = true
					a.log.Info("connected to Slack", "channel", app.Channel)
				case *slack.ConnectionErrorEvent:
					if data.Backoff > longestPause {
						cancel(data.ErrorObj)
						return
					}
				case slack.InteractionCallback, slack.SlashCommand:
					select {
					case slots <- struct{}{}:
						a.takes.Go(func() {
							defer func() { <-slots }()
							a.take(context.WithoutCancel(ctx), socket, client, app, e)
						})
					case <-ctx.Done():
						return
					}
				default:
					if e.Request != nil && e.Request.EnvelopeID != "" {
						ack(ctx, socket, e.Request.EnvelopeID, nil)
					}
				}
			}
		}
	}()
	err = socket.RunContext(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	return <-heard, err
}

// stillWorking is said when Slack is told that a click has arrived before it is known what comes of
// it. If this worker dies now, Slack shows no warning.
const stillWorking = "Fairlead works on it. If no answer comes within two minutes, click again: the same click counts once."

// take handles one click or command, and tells Slack that it has arrived.
func (a *App) take(ctx context.Context, socket *socketmode.Client, client *slack.Client, app notify.SlackApp, e socketmode.Event) {
	done := make(chan any, 1)
	go func() {
		cctx, cancel := context.WithTimeout(ctx, clickWait)
		defer cancel()
		switch data := e.Data.(type) {
		case slack.InteractionCallback:
			done <- a.clicked(cctx, client, app.Channel, apiOf(app.API), data)
		case slack.SlashCommand:
			done <- map[string]string{"response_type": "ephemeral", "text": a.commanded(cctx, apiOf(app.API), data)}
		}
	}()
	select {
	case answer := <-done:
		ack(ctx, socket, e.Request.EnvelopeID, answer)
		return
	case <-time.After(ackWithin):
	}
	ack(ctx, socket, e.Request.EnvelopeID, nil)
	if data, is := e.Data.(slack.InteractionCallback); is {
		a.whisper(ctx, client, chatOf(data), data.User.ID, stillWorking)
	}
	if answer, is := (<-done).(map[string]string); is { // it is too late for the answer of a command
		if data, is := e.Data.(slack.SlashCommand); is {
			a.whisper(ctx, client, data.ChannelID, data.UserID, answer["text"])
		}
	}
}

// ack answers an envelope. If that fails, Slack tells the person that the click had no answer; what
// it did stays.
func ack(ctx context.Context, socket *socketmode.Client, envelope string, answer any) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = socket.AckCtx(ctx, envelope, answer)
}
