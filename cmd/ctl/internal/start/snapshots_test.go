package start

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

func TestWhatIsChosenReachesTheSession(t *testing.T) {
	f := goOnFlags{Work: protocol.WorkGit, exclude: []string{"node_modules/", "!keep"}, when: protocol.SnapshotClose, every: 2 * time.Minute,
		parkAfter: time.Hour, hostLost: protocol.HostLostMove, lostAfter: time.Minute}
	var opt session.Options
	if err := f.set(&opt); err != nil {
		t.Fatal(err)
	}
	s := opt.Snapshot
	if s.Work != "git" || !slices.Equal(s.Exclude, f.exclude) || s.When != "close" || s.Every != 2*time.Minute ||
		opt.ParkAfter != time.Hour || opt.OnHostLost != "move" || opt.LostAfter != time.Minute {
		t.Errorf("%+v", opt)
	}
	for name, bad := range map[string]goOnFlags{
		"many patterns": {exclude: []string{strings.Repeat("x", 4<<10+1)}},
		"two lines":     {exclude: []string{"a\nb"}},
		"no text":       {exclude: []string{"a\xff"}},
	} {
		if err := bad.check(); core.ExitCode(err) != core.ExitUsage || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
