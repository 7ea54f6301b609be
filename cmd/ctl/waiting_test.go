package main

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/workflows"
)

func TestWhoWaitsForASlotHearsWhatMayHelp(t *testing.T) {
	full := waitingText("a slot: host local has all 4 slots in use; nobody waits before it")
	if !strings.HasPrefix(full, "waiting for a slot: host local has all 4 slots in use; nobody waits before it (") || !strings.Contains(full, "ctl session park") {
		t.Errorf("told %s", full)
	}
	if other := waitingText("a slot: host web-1 is cordoned; 1 waits before it"); other != "waiting for a slot: host web-1 is cordoned; 1 waits before it" {
		t.Errorf("told %s", other)
	}
}

func TestAHostThatIsAwaySaysWhySinceWhenAndWhatEndsIt(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	got := healthText("web-9", &workflows.HostHealth{State: workflows.HealthQuarantined, Reason: "no route to host", Since: at, NextAt: at.Add(time.Minute)})
	want := "quarantined since 2026-01-02 03:04:05: no route to host; a probe that finds it well ends that: the next is at 03:05:05, `ctl host check web-9` is one now"
	if got != want {
		t.Errorf("shown %s, want %s", got, want)
	}
}
