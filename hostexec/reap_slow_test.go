package hostexec_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
)

// A busyHost takes long for every script, by the test's fake clock. Its process ends only when it was killed, and is
// seen once more in the round that kills it.
type busyHost struct {
	hostexec.Host
	takes   time.Duration
	killed  bool
	signals []string
}

func (h *busyHost) Name() string { return "busy" }

func (h *busyHost) Run(_ context.Context, c hostexec.Command) (hostexec.Result, error) {
	time.Sleep(h.takes)
	h.signals = append(h.signals, c.Args[2])
	if h.killed {
		return hostexec.Result{}, nil
	}
	h.killed = c.Args[2] == "KILL" && c.Args[3] == "y"
	return hostexec.Result{Stdout: []byte("p 4711 stubborn\n")}, nil
}

// A host that is so slow that the time for reaping is over after one look is given the
// rounds that it needs to see that all have ended.
func TestReapLooksAgainAfterTheKillOnASlowHost(t *testing.T) {
	for _, takes := range []time.Duration{time.Millisecond, 9 * time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h := &busyHost{takes: takes}
			found, err := process.Reap(t.Context(), h, "/srv/s-1", "", hostexec.Fence{Dir: "/srv/s-1"})
			if err != nil || len(found) != 1 || found[0].PID != 4711 {
				t.Errorf("looks of %s: %+v, %v, after %s", takes, found, err, strings.Join(h.signals, " "))
			}
		})
	}
}
