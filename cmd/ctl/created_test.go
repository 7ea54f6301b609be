package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	temporalsdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// A session that continued as new is listed once, with the creation time of its first run.
func TestAListShowsASessionOnceAndWhenItWasCreated(t *testing.T) {
	atHome(t)
	created := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	state := temporalsdk.NewSearchAttributeKeyKeyword("FairleadState")
	address := serve(t, func(ctx workflow.Context) error {
		if workflow.GetInfo(ctx).ContinuedExecutionRunID != "" {
			if err := workflow.UpsertTypedSearchAttributes(ctx, state.ValueSet("idle")); err != nil {
				return err
			}
			return workflow.Await(ctx, func() bool { return false })
		}
		if err := workflow.UpsertMemo(ctx, map[string]any{protocol.MemoCreated: created}); err != nil {
			return err
		}
		return workflow.NewContinueAsNewError(ctx, protocol.TypeSession)
	})
	var lines []string
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var out, errs bytes.Buffer
		if code := run([]string{"--address", address, "-o", "json", "session", "list"}, strings.NewReader(""), &out, &errs); code != 0 {
			t.Fatalf("exit %d: %s", code, errs.String())
		}
		if lines = strings.Split(strings.TrimSpace(out.String()), "\n"); strings.Contains(out.String(), `"idle"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the second run is not listed: %s", out.String())
		}
	}
	if len(lines) != 1 {
		t.Fatalf("one session is listed as %d: %v", len(lines), lines)
	}
	var v protocol.SessionView
	if err := json.Unmarshal([]byte(lines[0]), &v); err != nil {
		t.Fatal(err)
	}
	if v.ID != "s1" || !v.CreatedAt.Equal(created) {
		t.Errorf("session %s is listed as created at %s, not %s", v.ID, v.CreatedAt, created)
	}
}
