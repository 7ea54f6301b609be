package slackapp

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
)

// Options configure an App.
type Options struct {
	// Rules returns the notification rules in force.
	Rules func() *notify.Rules
	Store Blobs
	// Asks returns the approvals of a session.
	Asks func(ctx context.Context, session string) ([]protocol.Approval, error)
	// Waiting lists the sessions with open approvals. The text of a session changes when the list
	// shows a change of the session.
	Waiting func(ctx context.Context) (looks map[string]string, err error)
	// Now is the clock; default time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// An App lets people decide in Slack.
type App struct {
	opts  Options
	api   API
	log   *slog.Logger
	links *links
	cards *cards
	takes sync.WaitGroup // clicks that are under way
}

// New returns an App, which begins with Run.
func New(o Options) *App {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &App{opts: o, log: o.Logger, links: &links{blobs: o.Store, now: o.Now}, cards: newCards(o.Store, o.Now)}
}

const (
	// reread is how often the rules and tokens are looked at.
	reread = 2 * time.Second
	// repeat is how often the log says again that tokens cannot be used.
	repeat = time.Hour
)

// Run hears of clicks, and takes buttons away, until ctx ends. in answers the requests that clicks
// become.
func (a *App) Run(ctx context.Context, in API) {
	a.api = in
	var all sync.WaitGroup
	all.Go(func() { a.strip(ctx) })
	all.Go(func() { a.connect(ctx) })
	all.Wait()
	ended := make(chan struct{})
	go func() {
		a.takes.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(stopWait):
		a.log.Warn("the worker ends while clicks in Slack are under way")
	}
}

// connect keeps one connection for each app of the rules. Rules or tokens that change bring new
// connections.
func (a *App) connect(ctx context.Context) {
	type running struct {
		stop context.CancelFunc
		done chan struct{}
	}
	runs := map[string]running{}
	told := map[string]time.Time{}
	defer func() {
		for _, r := range runs {
			r.stop()
			<-r.done
		}
	}()
	for ctx.Err() == nil {
		apps, problems := a.opts.Rules().SlackApps()
		for _, err := range problems {
			if text := err.Error(); time.Since(told[text]) > repeat {
				a.log.Error("nobody can decide in Slack by this channel", "err", err)
				told[text] = time.Now()
			}
		}
		wanted := map[string]bool{}
		seen := map[string]bool{} // apps: one connection for each
		for _, app := range apps {
			if seen[app.API+"\n"+app.App] {
				continue
			}
			seen[app.API+"\n"+app.App] = true
			key := hash("app", app.Channel, app.API, app.Bot, app.App, app.Rules())
			wanted[key] = true
			if _, is := runs[key]; is {
				continue
			}
			cctx, stop := context.WithCancel(ctx)
			r := running{stop, make(chan struct{})}
			runs[key] = r
			go func() {
				defer close(r.done)
				a.serve(cctx, app)
			}()
		}
		for key, r := range runs {
			if !wanted[key] {
				r.stop()
				<-r.done
				delete(runs, key)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(reread):
		}
	}
}

// appOf returns the app of a channel of the rules.
func (a *App) appOf(channel string) (notify.SlackApp, bool) {
	apps, _ := a.opts.Rules().SlackApps()
	for _, app := range apps {
		if app.Channel == channel {
			return app, true
		}
	}
	return notify.SlackApp{}, false
}
