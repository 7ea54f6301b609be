package start

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// goOnFlags are for snapshots, idle sessions, and lost hosts.
type goOnFlags struct {
	Work, when, hostLost             string
	exclude                          []string
	every, parkAfter, lostAfter, ttl time.Duration
	startTimeout                     time.Duration
	given                            func(flag string) bool // nil: none was given
}

func (f *goOnFlags) add(c *cobra.Command) {
	fl := c.Flags()
	f.given = fl.Changed
	fl.StringVar(&f.Work, "snapshot", "", "what snapshots hold beside the conversation: full (the work folder, the default), git (of it, what git does not have upstream) or none")
	fl.StringArrayVar(&f.exclude, "snapshot-exclude", nil, "leave out of snapshots what this gitignore `PATTERN` matches; repeatable")
	fl.StringVar(&f.when, "snapshot-when", "", "turn (after each turn, the default), close (when it parks or closes) or off (it cannot park or move; what is there is kept as it closes)")
	fl.DurationVar(&f.every, "snapshot-every", 0, "also so often within long turns; 0 is not")
	fl.DurationVar(&f.ttl, "ttl", 0, "how long the session may live: then it closes, after the turn that runs (15 minutes later at the latest); 0 is for ever")
	fl.DurationVar(&f.startTimeout, "start-timeout", protocol.StartTimeout, "how long the session may take until its first turn can begin, whatever keeps it from that (a host, a worker, the line for a slot): then it fails and says what it waited for; 0 is any time")
	fl.DurationVar(&f.parkAfter, "park-after", parkByDefault, "a session that stays gives back host and credentials after so long without a message, and the next one brings it up again; 0 is never")
	fl.StringVar(&f.hostLost, "on-host-lost", "", "when the host is lost: wait (for it, the default) or move (go on elsewhere from the newest snapshot)")
	fl.DurationVar(&f.lostAfter, "lost-after", 0, "a host that cannot be reached for so long is lost (default 5m)")
}

const parkByDefault = 30 * time.Minute

const (
	leastEvery   = time.Minute
	leastPark    = time.Second
	leastLost    = 10 * time.Second
	leastTTL     = time.Second
	leastStart   = time.Second
	mostExcludes = 4 << 10 // bytes of all patterns
)

func (f *goOnFlags) set(opt *session.Options) error {
	if err := f.check(); err != nil {
		return err
	}
	opt.Snapshot = protocol.SnapshotOptions{Work: f.Work, Exclude: f.exclude, When: f.when, Every: f.every}
	if f.when == protocol.SnapshotOff {
		f.parkAfter = 0 // check has refused --park-after here
	}
	opt.TTL = f.ttl
	if f.given != nil && f.given("start-timeout") {
		opt.StartTimeout = &f.startTimeout
	}
	opt.ParkAfter, opt.OnHostLost, opt.LostAfter = f.parkAfter, f.hostLost, f.lostAfter
	return nil
}

func (f *goOnFlags) check() error {
	for _, w := range []struct {
		flag, is string
		words    []string
	}{
		{"--snapshot", f.Work, []string{protocol.WorkNone, protocol.WorkGit, protocol.WorkFull}},
		{"--snapshot-when", f.when, []string{protocol.SnapshotTurn, protocol.SnapshotClose, protocol.SnapshotOff}},
		{"--on-host-lost", f.hostLost, []string{protocol.HostLostWait, protocol.HostLostMove}},
	} {
		if err := oneOf(w.flag, w.is, w.words...); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		flag      string
		is, least time.Duration
	}{{"--snapshot-every", f.every, leastEvery}, {"--park-after", f.parkAfter, leastPark}, {"--lost-after", f.lostAfter, leastLost}, {"--ttl", f.ttl, leastTTL}, {"--start-timeout", f.startTimeout, leastStart}} {
		if d.is != 0 && d.is < d.least {
			return core.Usage("%s %s is too short: at least %s", d.flag, d.is, d.least)
		}
	}
	if f.when == protocol.SnapshotOff {
		switch {
		case f.every > 0:
			return core.Usage("--snapshot-when off and --snapshot-every: give one of them")
		case f.hostLost == protocol.HostLostMove:
			return core.Usage("--on-host-lost move needs snapshots, and --snapshot-when is off")
		case f.parkAfter > 0 && f.given != nil && f.given("park-after"):
			return core.Usage("--park-after needs snapshots, and --snapshot-when is off")
		}
	}
	return f.checkExcludes()
}

func (f *goOnFlags) checkExcludes() error {
	if n := len(strings.Join(f.exclude, "\n")); n > mostExcludes {
		return core.Usage("--snapshot-exclude: the patterns take %d bytes, at most %d", n, mostExcludes).Hinted("a pattern may have * and ** in it, as in .gitignore")
	}
	if len(f.exclude) > 0 && f.Work == protocol.WorkNone {
		return core.Usage("--snapshot-exclude has no effect with --snapshot none, which keeps nothing of the work folder")
	}
	for _, p := range f.exclude {
		switch {
		case strings.TrimSpace(p) == "":
			return core.Usage("--snapshot-exclude: an empty pattern leaves out nothing")
		case !utf8.ValidString(p) || strings.ContainsAny(p, "\n\x00"):
			return core.Usage("--snapshot-exclude %q is not a pattern of one line", p)
		}
	}
	return nil
}

func oneOf(flag, is string, words ...string) error {
	if is == "" {
		return nil
	}
	for _, w := range words {
		if is == w {
			return nil
		}
	}
	return core.Usage("%s %q is not one of %s", flag, is, strings.Join(words, ", "))
}
