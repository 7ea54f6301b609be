package start

import (
	"testing"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestWatchdogsAreAsTheFlagsSayOrElseTheConfig(t *testing.T) {
	conf := config.Default().Timeouts
	conf.Silence, conf.Turn, conf.Quiet = 5*time.Minute, time.Hour, 0
	for name, c := range map[string]struct {
		args []string
		want protocol.Watchdogs
		turn time.Duration
		bad  bool
	}{
		"nothing":                  {nil, protocol.Watchdogs{StartUp: time.Minute, Request: time.Minute, Silence: 5 * time.Minute, Quiet: -1, Retry: 30 * time.Minute}, time.Hour, false},
		"each":                     {[]string{"--startup-timeout", "2m", "--request-timeout", "3m", "--silence-timeout", "4m", "--quiet-timeout", "1h", "--retry-timeout", "5m"}, protocol.Watchdogs{StartUp: 2 * time.Minute, Request: 3 * time.Minute, Silence: 4 * time.Minute, Quiet: time.Hour, Retry: 5 * time.Minute}, time.Hour, false},
		"off":                      {[]string{"--quiet-timeout", "0", "--retry-timeout", "0", "--turn-timeout", "2h"}, protocol.Watchdogs{StartUp: time.Minute, Request: time.Minute, Silence: 5 * time.Minute, Quiet: -1, Retry: -1}, 2 * time.Hour, false},
		"a budget of other things": {[]string{"--budget", "tokens=5"}, protocol.Watchdogs{StartUp: time.Minute, Request: time.Minute, Silence: 5 * time.Minute, Quiet: -1, Retry: 30 * time.Minute}, time.Hour, false},
		"a budget of a turn":       {[]string{"--budget", "turn=3h"}, protocol.Watchdogs{StartUp: time.Minute, Request: time.Minute, Silence: 5 * time.Minute, Quiet: -1, Retry: 30 * time.Minute}, 3 * time.Hour, false},
		"too short":                {[]string{"--silence-timeout", "1ms"}, protocol.Watchdogs{}, 0, true},
		"too long":                 {[]string{"--startup-timeout", "999h"}, protocol.Watchdogs{}, 0, true},
		"none":                     {[]string{"--request-timeout", "0"}, protocol.Watchdogs{}, 0, true},
		"on limit":                 {[]string{"--on-limit", "hope"}, protocol.Watchdogs{}, 0, true},
	} {
		var f Flags
		cmd := &cobra.Command{}
		f.Add(cmd, "")
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(name, err)
		}
		opt, err := f.options()
		if err == nil {
			err = f.watch.set(&opt, conf)
		}
		if c.bad {
			if core.ExitCode(err) != core.ExitUsage {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || opt.Watchdogs != c.want || opt.TurnTimeout != c.turn {
			t.Errorf("%s: %+v, a turn %s, %v", name, opt.Watchdogs, opt.TurnTimeout, err)
		}
	}
}
