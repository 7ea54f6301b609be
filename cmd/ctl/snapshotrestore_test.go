package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows"
)

// Whoever goes on from a snapshot gives codex no more than it had, unless a
// person says so: not where the snapshot is one of a session that took none, and
// so does not say how it was set up.
func TestWhatGoesOnMayDoNoMoreThanWhatWas(t *testing.T) {
	readOnly := workflows.SessionView{Options: map[string]string{"sandbox": "read-only", "approval_policy": "never"}}
	for _, c := range []struct {
		name   string
		facts  snapshots.Facts
		former workflows.SessionView
		given  []string
		want   [2]string // empty: it is refused
	}{
		{"as the snapshot says", snapshots.Facts{Sandbox: "read-only", ApprovalPolicy: "untrusted"}, workflows.SessionView{}, nil, [2]string{"read-only", "untrusted"}},
		{"the snapshot, not the session as it is now", snapshots.Facts{Sandbox: "danger-full-access", ApprovalPolicy: "untrusted"}, readOnly, nil, [2]string{"danger-full-access", "untrusted"}},
		{"as the session says", snapshots.Facts{Left: true}, readOnly, nil, [2]string{"read-only", "never"}},
		{"as a person says", snapshots.Facts{}, readOnly, []string{"sandbox", "approval-policy"}, [2]string{"workspace-write", "on-request"}},
		{"nobody says it", snapshots.Facts{}, workflows.SessionView{}, nil, [2]string{}},
		{"half of it is not said", snapshots.Facts{}, workflows.SessionView{}, []string{"sandbox"}, [2]string{}},
	} {
		opt := workflows.SessionOptions{Sandbox: "workspace-write", ApprovalPolicy: "on-request"} // the flags' defaults
		m := snapshots.Manifest{ID: "s1.snap-x", Session: "s1", Facts: c.facts}
		err := asItWas(&opt, m, c.former, func(flag string) bool { return slices.Contains(c.given, flag) })
		if c.want[0] == "" {
			if exitOf(err) != exitUsage || !strings.Contains(err.Error(), "s1") {
				t.Errorf("%s: %+v, %v", c.name, opt, err)
			}
			continue
		}
		if got := [2]string{opt.Sandbox, opt.ApprovalPolicy}; err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

// Ids of sessions come again: who goes on from a snapshot of an earlier one gets
// nothing of what a later one of the same id may do or spend.
func TestALaterSessionOfTheSameIDIsAnotherOne(t *testing.T) {
	began := time.Unix(1_800_000_000, 500_000_000)
	now := workflows.SessionView{ID: "s1", ThreadID: "thread-2", CreatedAt: began}
	young := workflows.SessionView{ID: "s1", CreatedAt: began} // its thread is not its own yet
	for name, c := range map[string]struct {
		facts snapshots.Facts
		v     workflows.SessionView
		want  bool
	}{
		"its thread":                       {snapshots.Facts{ThreadID: "thread-2", Generation: began.Unix() + 3}, now, true},
		"its thread, found on a host":      {snapshots.Facts{ThreadID: "thread-2", Left: true}, now, true},
		"before it had forked its own":     {snapshots.Facts{ThreadID: "thread-1", Generation: began.Unix()}, now, true},
		"of a fork that has not begun":     {snapshots.Facts{ThreadID: "thread-1", Generation: began.Unix() + 3}, young, true},
		"of an earlier one":                {snapshots.Facts{ThreadID: "thread-1", Generation: began.Unix() - 1}, now, false},
		"of an earlier one, without both":  {snapshots.Facts{}, young, false},
		"found on a host, without thread":  {snapshots.Facts{Generation: began.Unix() + 3, Left: true}, now, false},
		"found on a host, another thread":  {snapshots.Facts{ThreadID: "thread-1", Generation: began.Unix() + 3, Left: true}, now, false},
		"what it was itself restored from": {snapshots.Facts{ThreadID: "thread-1", Generation: began.Unix() - 99}, young, false},
	} {
		if got := isOf(snapshots.Manifest{ID: "s1.snap-x", Session: "s1", Facts: c.facts}, c.v); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
