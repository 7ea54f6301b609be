package main

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/payload"
)

func TestTheInputsOfOlderSchedulesAreBoundAndOthersAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	address := temporalIn(t, dir)
	older, err := client.NewLazyClient(client.Options{HostPort: address})
	if err != nil {
		t.Fatal(err)
	}
	defer older.Close()
	create := func(id string) {
		t.Helper()
		wait(t, "the schedule "+id+" is made", func() bool {
			_, err := older.ScheduleClient().Create(t.Context(), client.ScheduleOptions{ID: id, Paused: true,
				Action: &client.ScheduleWorkflowAction{ID: id, Workflow: "any", Args: []any{"input"}, TaskQueue: "none", StaticSummary: "old"}})
			return err == nil
		})
	}
	create("before")
	key, err := payload.GenerateKey(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	var since time.Time
	wait(t, "Temporal has noted when the schedule was made", func() bool {
		d, err := older.ScheduleClient().GetHandle(t.Context(), "before").Describe(t.Context())
		if err != nil || d.Info.CreatedAt.Unix() <= 0 {
			return false
		}
		since = d.Info.CreatedAt.Add(time.Second)
		return true
	})
	wait(t, "the upgrade", func() bool { return time.Now().After(since) })
	create("after")
	codec := payload.NewCodec("default", key).Since(since)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	opts := client.Options{HostPort: address}
	codec.Use(&opts)
	c, err := client.NewLazyClient(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	input := func(id string) *commonpb.Payload {
		t.Helper()
		d, err := c.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d.Schedule.Action.(*client.ScheduleWorkflowAction).Args[0].(*commonpb.Payload)
	}
	wait(t, "the older schedule is bound", func() bool {
		// The list of schedules lags behind.
		if err := rebindSchedules(t.Context(), c, codec, log); err != nil {
			t.Fatal(err)
		}
		return !payload.Older(input("before"))
	})
	if err := codec.Accepts("before-2026-11-27T03:00:00Z", time.Now(), input("before")); err != nil {
		t.Errorf("what it starts refuses its input: %v", err)
	}
	if err := rebindSchedules(t.Context(), c, codec, log); err != nil || !payload.Older(input("after")) {
		t.Errorf("what somebody put in after the upgrade was encrypted (%v)", err)
	}
}
