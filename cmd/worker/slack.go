package main

import (
	"context"
	"log/slog"

	"fairlead.dev/fairlead/cmd/internal/apiflows"
	"fairlead.dev/fairlead/cmd/internal/inbox"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/slackapp"
	"fairlead.dev/fairlead/internal/store"
)

// chat is the app by which people decide in Slack; nil if there are no notification rules.
type chat struct{ app *slackapp.App }

// slackOf makes the API link accounts of Slack, if there are notification rules.
func slackOf(opts *api.Options, rules *notify.Keeper, programs *apiflows.Backend, open *inbox.Inbox, blobs *store.Store, log *slog.Logger) *chat {
	if rules == nil {
		return nil
	}
	app := slackapp.New(slackapp.Options{Rules: rules.Current, Store: blobs, Asks: programs.Asks, Waiting: programs.Waiting, Logger: log})
	open.Tell(app.Stir)
	opts.Slack = app
	return &chat{app}
}

// run hears of clicks until ctx ends. The returned function ends it, too.
func (c *chat) run(ctx context.Context, server *api.Server) func() {
	if c == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.app.Run(ctx, api.Insiders(server))
	}()
	return func() {
		cancel()
		<-done
	}
}

// posted returns what is told of messages with buttons.
func (c *chat) posted() func(context.Context, notify.Card) {
	if c == nil {
		return nil
	}
	return c.app.Posted
}
