package start

import (
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// watchdogFlags are time limits for codex and the model. The config has the defaults.
type watchdogFlags struct {
	startup, request, silence, quiet, retry time.Duration
	onLimit                                 string
	given                                   func(flag string) bool // nil: all count as given
	turnBound                               bool                   // the budget limits a turn's time
}

func (f *watchdogFlags) add(c *cobra.Command) {
	fl, d := c.Flags(), config.Default().Timeouts
	f.given = fl.Changed
	fl.DurationVar(&f.startup, "startup-timeout", d.StartUp, "codex has to answer so soon after its start")
	fl.DurationVar(&f.request, "request-timeout", d.Request, "codex has to answer a request, or take a message, so soon")
	fl.DurationVar(&f.silence, "silence-timeout", d.Silence, "codex is asked for a sign of life after so long without a word")
	fl.DurationVar(&f.quiet, "quiet-timeout", d.Quiet, "the model has to go on so soon after a tool has ended; 0 is any time")
	fl.DurationVar(&f.retry, "retry-timeout", d.Retry, "how long a turn may make no progress while codex only retries its connection to the provider; 0 means no limit")
	fl.StringVar(&f.onLimit, "on-limit", "", "what to do when a turn fails at the account's quota or the provider's limit of requests: fail; wait (until the limit resets, at most 6h or as long as the policy says, then send the message again); or switch (if the quota is used up, go on with another healthy seed of --seed-pool; if there is none, wait); default: as the policy says, else fail")
}

func (f *watchdogFlags) set(opt *session.Options, conf config.Timeouts) error {
	if err := oneOf("--on-limit", f.onLimit, protocol.LimitFail, protocol.LimitWait, protocol.LimitSwitch); err != nil {
		return err
	}
	if f.onLimit == protocol.LimitSwitch && opt.SeedPool == "" {
		return core.Usage("--on-limit switch needs --seed-pool, a pool with more than one seed")
	}
	opt.OnLimit = f.onLimit
	for _, w := range []struct {
		flag     string
		is, conf time.Duration
		to       *time.Duration
	}{
		{"startup-timeout", f.startup, conf.StartUp, &opt.Watchdogs.StartUp},
		{"request-timeout", f.request, conf.Request, &opt.Watchdogs.Request},
		{"silence-timeout", f.silence, conf.Silence, &opt.Watchdogs.Silence},
		{"quiet-timeout", f.quiet, conf.Quiet, &opt.Watchdogs.Quiet},
		{"retry-timeout", f.retry, conf.Retry, &opt.Watchdogs.Retry},
	} {
		d := w.conf
		if f.given == nil || f.given(w.flag) {
			d = w.is
		}
		off := (w.flag == "quiet-timeout" || w.flag == "retry-timeout") && d == 0
		if !off && (d < protocol.LeastWatch || d > protocol.MostWatch) {
			return core.Usage("--%s %s is not between %s and %s", w.flag, d, protocol.LeastWatch, protocol.MostWatch)
		}
		if *w.to = d; off {
			*w.to = -1 // no limit
		}
	}
	if conf.Turn > 0 && f.given != nil && !f.given("turn-timeout") && !f.turnBound {
		opt.TurnTimeout = conf.Turn
	}
	return nil
}
