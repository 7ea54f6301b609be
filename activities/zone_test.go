package activities

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// A clock is a host that gives the same answer to every command.
type clock struct {
	hostexec.Host
	says string
	err  error
}

func (c clock) Run(context.Context, hostexec.Command) (hostexec.Result, error) {
	return hostexec.Result{Stdout: []byte(c.says)}, c.err
}

func TestAHostSaysInWhichZoneItLives(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for says, want := range map[string]int{"+0000\n": 0, "+0530\n": 19800, "-0330\n": -12600} {
		l := hosts.ZoneOf(t.Context(), clock{says: says}, log)()
		if l == nil {
			t.Fatalf("%q is not understood", says)
		}
		if _, got := time.Unix(0, 0).In(l).Zone(); got != want {
			t.Errorf("%q is %d seconds, want %d", says, got, want)
		}
	}
	for _, c := range []clock{{says: "CET"}, {says: ""}, {err: hostexec.ErrUnreachable}} {
		if l := hosts.ZoneOf(t.Context(), c, log)(); l != nil {
			t.Errorf("%+v is in %s", c, l)
		}
	}
	pool := hostexec.NewPool(hostexec.PoolOptions{Logger: log})
	t.Cleanup(func() { _ = pool.Close() })
	here, err := pool.Host(protocol.HostSpec{Name: protocol.LocalHost})
	if err != nil {
		t.Fatal(err)
	}
	if l := hosts.ZoneOf(t.Context(), here, log)(); l == nil {
		t.Error("this machine has no zone")
	}
}
