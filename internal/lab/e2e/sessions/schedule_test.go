package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A scheduleView is the tested part of what `schedule show` prints.
type scheduleView struct {
	Name    string      `json:"name"`
	Paused  bool        `json:"paused"`
	Note    string      `json:"note"`
	When    []string    `json:"when"`
	TZ      string      `json:"tz"`
	Overlap string      `json:"overlap"`
	What    string      `json:"what"`
	Next    []time.Time `json:"next"`
	Running int         `json:"running"`
	Skipped int         `json:"skipped"`
	Recent  []struct {
		ID     string    `json:"id"`
		At     time.Time `json:"at"`
		State  string    `json:"state"`
		Status string    `json:"status"`
	} `json:"recent"`
}

func schedule(t *testing.T, name string, args ...string) scheduleView {
	t.Helper()
	var v scheduleView
	out := e2e.OK(t, append([]string{"-o", "json", "schedule", "create", name}, args...)...) // arguments after -- are for the sessions
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if r := e2e.Lab.Ctl(ctx, nil, "schedule", "delete", name, "--close"); r.Code != 0 && r.Code != 3 {
			t.Error(r)
		}
	})
	return v
}

func showSchedule(t *testing.T, name string) scheduleView {
	t.Helper()
	var v scheduleView
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "schedule", "show", name); err != nil {
		t.Fatal(err)
	}
	return v
}

func fire(t *testing.T, name string, flags ...string) string {
	t.Helper()
	var v struct {
		ID string `json:"id"`
	}
	if err := e2e.Lab.JSON(e2e.Within(t), &v, append([]string{"schedule", "trigger", name}, flags...)...); err != nil {
		t.Fatal(err)
	}
	return v.ID
}

func TestAScheduleBeginsSessionsThatAreFoundByItsName(t *testing.T) {
	v := schedule(t, "weeknights", "--cron", "30 22 * * 1-5", "--tz", "Europe/Berlin", "--pause", "--note", "for the release",
		"--", "--host", "web-1", "--seed", "team", "--file", filepath.Join(e2e.Repo, "go.mod"), "what is new?")
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	if !v.Paused || v.Note != "for the release" || v.TZ != "Europe/Berlin" || v.Overlap != "skip" || !slices.Equal(v.When, []string{"cron 30 22 * * 1-5"}) || v.What != "what is new?" || len(v.Next) == 0 {
		t.Fatalf("the schedule is %+v", v)
	}
	for _, at := range v.Next {
		if local := at.In(berlin); local.Hour() != 22 || local.Minute() != 30 || local.Weekday() == time.Saturday || local.Weekday() == time.Sunday {
			t.Errorf("it is to begin one at %s", local)
		}
	}
	first := fire(t, "weeknights")
	if s := e2e.HasClosed(t, first); s.State != protocol.Closed || s.Turn == nil || s.Turn.Status != "completed" || s.Origin != "schedule/weeknights" {
		t.Errorf("its session is %+v", s)
	}
	if said := e2e.Texts(e2e.Transcript(t, first), protocol.EntryAssistant); len(said) != 1 || !strings.Contains(said[0], "what is new?") {
		t.Errorf("codex said %q", said)
	}
	second := fire(t, "weeknights")
	e2e.HasClosed(t, second)
	list, err := lab.Lines[protocol.SessionView](e2e.Within(t), e2e.Lab, "session", "list", "--schedule", "weeknights")
	if err != nil || second == first || len(list) != 2 || list[0].ID != second || list[1].ID != first {
		t.Errorf("of its sessions are listed %+v, %v; there are %s and %s", list, err, first, second)
	}
	e2e.Until(t, "both to be told as completed", func() (bool, error) {
		r := showSchedule(t, "weeknights").Recent
		return len(r) == 2 && r[0].ID == second && r[0].State == "completed" && r[0].Status == "completed" && r[1].State == "completed", nil
	})
	all, err := lab.Lines[scheduleView](e2e.Within(t), e2e.Lab, "schedule", "list")
	if err != nil || !slices.ContainsFunc(all, func(v scheduleView) bool { return v.Name == "weeknights" }) {
		t.Errorf("there are the schedules %+v, %v", all, err)
	}
	e2e.Exits(t, 6, "schedule", "create", "weeknights", "--every", "1h", "--", "--host", "web-1", "--seed", "team", "hi")
	e2e.OK(t, "schedule", "delete", "weeknights")
	e2e.Exits(t, 3, "schedule", "show", "weeknights")
	e2e.Exits(t, 3, "schedule", "delete", "weeknights")
	if s := e2e.Show(t, first); s.State != protocol.Closed {
		t.Errorf("after the schedule was deleted its session is %s", s.State)
	}
}

func TestAScheduleFiresByItselfUntilItIsPaused(t *testing.T) {
	schedule(t, "often", "--every", "2s", "--", "--host", "web-1", "--seed", "team", "how is it going?")
	e2e.Until(t, "it to have begun one", func() (bool, error) { return len(showSchedule(t, "often").Recent) > 0, nil })
	e2e.OK(t, "schedule", "pause", "often", "--reason", "enough for now")
	if text := e2e.OK(t, "audit", "list", "--workflow", "schedule/often"); !strings.Contains(text, "schedule/often/pause-") || !strings.Contains(text, "pause: enough for now") {
		t.Errorf("on record is:\n%s", text)
	}
	v := showSchedule(t, "often")
	if !v.Paused || !strings.HasSuffix(v.Note, ": enough for now") {
		t.Errorf("paused it is %+v", v)
	}
	for _, f := range v.Recent {
		if s := e2e.HasClosed(t, f.ID); s.State != protocol.Closed || s.Turn == nil || s.Turn.Status != "completed" {
			t.Errorf("session %s is %+v", f.ID, s)
		}
	}
	e2e.OK(t, "schedule", "resume", "often")
	e2e.Until(t, "it to go on", func() (bool, error) { return showSchedule(t, "often").Recent[0].ID != v.Recent[0].ID, nil })
	e2e.OK(t, "schedule", "delete", "often", "--close")
	for _, f := range v.Recent {
		e2e.HasClosed(t, f.ID)
	}
	list, err := lab.Lines[protocol.SessionView](e2e.Within(t), e2e.Lab, "session", "list", "--schedule", "often")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		e2e.HasClosed(t, s.ID)
	}
}

func TestWhatStillRunsIsNotBegunAgainUnlessItIsSaid(t *testing.T) {
	schedule(t, "slow", "--every", "1000h", "--", "--host", "web-1", "--seed", "team", "take your time behind gate schedule-slow")
	first := fire(t, "slow")
	e2e.Until(t, "it to run", func() (bool, error) {
		r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "show", first)
		return r.Code == 0 && e2e.Show(t, first).State == protocol.Running, nil
	})
	if r := e2e.Exits(t, 6, "schedule", "trigger", "slow"); !strings.Contains(r.Stderr, "still runs") {
		t.Errorf("%v", r)
	}
	if v := showSchedule(t, "slow"); v.Running != 1 || v.Skipped != 1 {
		t.Errorf("the schedule is %+v", v)
	}
	if id := fire(t, "slow", "--overlap", "cancel-other"); id == first {
		t.Errorf("it began %q again", id)
	}
	if s := e2e.HasClosed(t, first); s.State != protocol.Closed || s.Turn == nil || s.Turn.Status != "interrupted" {
		t.Errorf("the cancelled one is %+v", s)
	}
	second := ""
	e2e.Until(t, "the next to run", func() (bool, error) {
		second = showSchedule(t, "slow").Recent[0].ID
		return second != first && e2e.Lab.Ctl(e2e.Within(t), nil, "session", "show", second).Code == 0, nil
	})
	e2e.OK(t, "schedule", "delete", "slow", "--close")
	e2e.HasClosed(t, second)
}

func TestPastTimesAreFilledIn(t *testing.T) {
	schedule(t, "past", "--calendar", "hour=3", "--tz", "Europe/Berlin", "--pause", "--", "--host", "web-1", "--seed", "team", "hello")
	var v struct {
		Times []time.Time `json:"times"`
	}
	// Both ends are included.
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "schedule", "backfill", "past", "--from", "2026-01-05T03:00", "--to", "2026-01-06T03:00"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(v.Times); got != "[2026-01-05 02:00:00 +0000 UTC 2026-01-06 02:00:00 +0000 UTC]" {
		t.Errorf("it fills in %s", got)
	}
	for _, id := range []string{"past-20260105t020000z", "past-20260106t020000z"} {
		if s := e2e.HasClosed(t, id); s.State != protocol.Closed || s.Turn == nil || s.Turn.Status != "completed" {
			t.Errorf("session %s is %+v", id, s)
		}
	}
	e2e.Exits(t, 2, "schedule", "backfill", "past", "--from", "2026-01-05T04:00", "--to", "2026-01-06T02:00")
	e2e.Exits(t, 2, "schedule", "backfill", "past", "--from", "2026-01-06", "--to", "2026-01-05")
	e2e.Exits(t, 2, "schedule", "backfill", "past", "--from", "2026-01-06", "--to", "2098-01-05")
	e2e.Exits(t, 2, "schedule", "backfill", "past", "--from", "yesterday", "--to", "2026-01-05")
	e2e.Exits(t, 2, "schedule", "backfill", "past", "--from", "2020-01-06", "--to", "2026-01-05")
	e2e.Exits(t, 3, "schedule", "backfill", "nothing", "--from", "2026-01-05", "--to", "2026-01-06")
}

// Each batch uses the file, and the files that it names, as they were when the
// schedule was made.
func TestAScheduleBeginsBatchesThatAreFoundByItsName(t *testing.T) {
	tree := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(tree, "kept.txt"), "as it was\n")
	file := batchFile(t, "id: fleet\nwindow: 2\nprompt: \"{{.item}}\"\ndefaults: {host: web-1, seed: team, upload: "+tree+"}\nitems: [hello, goodbye]\n")
	v := schedule(t, "fleet", "--every", "1000h", "--batch", file)
	if !strings.HasSuffix(v.What, "batch.yaml") || len(v.Next) == 0 {
		t.Errorf("the schedule is %+v", v)
	}
	write(filepath.Join(tree, "kept.txt"), "something else\n")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	first, second := fire(t, "fleet"), ""
	fire(t, "fleet", "--overlap", "buffer-one")
	e2e.Until(t, "both to have ended well", func() (bool, error) {
		r := showSchedule(t, "fleet").Recent
		if len(r) < 2 || r[0].State != "completed" || r[1].State != "completed" {
			return false, nil
		}
		second = r[0].ID
		return r[1].ID == first && r[1].Status == "2 of 2 done, 0 failed", nil
	})
	list, err := lab.Lines[protocol.BatchView](e2e.Within(t), e2e.Lab, "batch", "list", "--schedule", "fleet")
	if err != nil || second == first || len(list) != 2 || list[0].ID != second || list[1].ID != first || list[0].Origin != "schedule/fleet" || list[1].Done != 2 {
		t.Errorf("of its batches are listed %+v, %v; there are %s and %s", list, err, first, second)
	}
	for _, r := range batchResults(t, second) {
		s := e2e.Show(t, r.Session)
		if s.Origin != "batch/"+second || s.Turn == nil || s.Turn.Status != "completed" {
			t.Errorf("its session is %+v", s)
		}
	}
	// While it runs another firing is refused, and cancelling cancels
	// everything.
	e2e.OK(t, "schedule", "delete", "fleet")
	slow := batchFile(t, "window: 2\nprompt: take your time behind gate schedule-fleet\ndefaults: {host: web-1, seed: team}\nitems: [{id: a}, {id: b}]\n")
	schedule(t, "slow-fleet", "--every", "1000h", "--batch", slow)
	running := fire(t, "slow-fleet")
	becomesBatch(t, running, "its sessions run", func(v shownBatch) bool { return len(v.Sessions) > 0 })
	if r := e2e.Exits(t, 6, "schedule", "trigger", "slow-fleet"); !strings.Contains(r.Stderr, "ctl batch list --schedule slow-fleet") {
		t.Errorf("%v", r)
	}
	e2e.OK(t, "schedule", "delete", "slow-fleet", "--close")
	if v := becomesBatch(t, running, "it is cancelled", func(v shownBatch) bool { return protocol.BatchOver(v.State) }); v.State != protocol.BatchCancelled || v.Running != 0 {
		t.Errorf("its batch is %+v", v)
	}
}

// batchBegins waits until a batch exists: a backfill starts it after the
// command has returned.
func batchBegins(t *testing.T, id string) {
	t.Helper()
	e2e.Until(t, id+" to have begun", func() (bool, error) {
		return e2e.Lab.Ctl(e2e.Within(t), nil, "batch", "show", id, "-o", "json").Code != 3, nil
	})
}

func TestBatchesOfPastTimesRunInALineOrBesideEachOther(t *testing.T) {
	file := batchFile(t, "prompt: hello\ndefaults: {host: web-1, seed: team}\nitems: [{id: a}]\n")
	schedule(t, "past-fleet", "--calendar", "hour=3", "--tz", "Europe/Berlin", "--pause", "--batch", file)
	e2e.OK(t, "schedule", "backfill", "past-fleet", "--from", "2026-01-05T03:00", "--to", "2026-01-06T03:00")
	over := func(v shownBatch) bool { return protocol.BatchOver(v.State) }
	batchBegins(t, "past-fleet-20260105t020000z")
	first := becomesBatch(t, "past-fleet-20260105t020000z", "it is over", over)
	batchBegins(t, "past-fleet-20260106t020000z")
	second := becomesBatch(t, "past-fleet-20260106t020000z", "it is over", over)
	if first.Done != 1 || second.Done != 1 || first.EndedAt == nil || second.CreatedAt.Before(*first.EndedAt) {
		t.Errorf("one after the other they are %+v and %+v", first, second)
	}
	slow := batchFile(t, "prompt: take your time behind gate past-fleets\ndefaults: {host: web-1, seed: team}\nitems: [{id: a}]\n")
	schedule(t, "past-fleets", "--calendar", "hour=3", "--tz", "Europe/Berlin", "--pause", "--batch", slow)
	e2e.OK(t, "schedule", "backfill", "past-fleets", "--overlap", "allow-all", "--from", "2026-01-05T03:00", "--to", "2026-01-06T03:00")
	both := []string{"past-fleets-20260105t020000z", "past-fleets-20260106t020000z"}
	for _, id := range both { // neither ends by itself
		batchBegins(t, id)
		becomesBatch(t, id, "its session runs", func(v shownBatch) bool { return len(v.Sessions) > 0 && !over(v) })
	}
	e2e.OK(t, "schedule", "delete", "past-fleets", "--close")
	for _, id := range both {
		if v := becomesBatch(t, id, "it is over", over); v.State != protocol.BatchCancelled || v.Running != 0 {
			t.Errorf("closed, batch %s is %+v", id, v)
		}
	}
}

func TestABadScheduleIsToldAndNotMade(t *testing.T) {
	run := []string{"--", "--host", "web-1", "--seed", "team", "hello"}
	good := batchFile(t, "prompt: hi\ndefaults: {host: web-1, seed: team}\nitems: [{id: a}]\n")
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no time", run, 2, "no times"},
		{"bad cron", append([]string{"--cron", "61 * * * *"}, run...), 2, "minute 61 is not between 0 and 59"},
		{"too few fields", append([]string{"--cron", "0 3 * *"}, run...), 2, "4 fields"},
		{"no such day", append([]string{"--cron", "0 3 31 2 *"}, run...), 2, "no such day"},
		{"bad calendar", append([]string{"--calendar", "hour=25"}, run...), 2, "hour 25"},
		{"bad exception", append([]string{"--every", "1h", "--except", "day=0"}, run...), 2, "--except"},
		{"too often", append([]string{"--every", "10ms"}, run...), 2, "10ms"},
		{"time zone", append([]string{"--every", "1h", "--tz", "Mars/Base"}, run...), 2, "Mars/Base"},
		{"time zone, almost", append([]string{"--every", "1h", "--tz", "Europe/Berlim"}, run...), 2, "is Europe/Berlin meant?"},
		{"time zone without its continent", append([]string{"--every", "1h", "--tz", "Tokyo"}, run...), 2, "Asia/Tokyo"},
		{"overlap", append([]string{"--every", "1h", "--overlap", "both"}, run...), 2, "buffer-one"},
		{"past", append([]string{"--every", "1h", "--until", "2020-01-01"}, run...), 2, "--until"},
		{"never", append([]string{"--calendar", "year=2001"}, run...), 2, "none of its times is in the future"},
		{"zone of workers", []string{"--every", "1h", "--", "--zone", "moon", "--label", "a=b", "hello"}, 3, "there are default"},
		{"a batch and a prompt", append([]string{"--every", "1h", "--batch", good}, run...), 2, "the file describes all that is started"},
		{"no such file", []string{"--every", "1h", "--batch", "nowhere.yaml"}, 2, "nowhere.yaml"},
		{"a batch with mistakes", []string{"--every", "1h", "--batch", batchFile(t, "prompt: hi\nwindw: 2\nitems: [{id: a, polcy: x}]\n")}, 2, "line 3, column"},
		{"a batch in a zone there is not", []string{"--every", "1h", "--batch", batchFile(t, "prompt: hi\ndefaults: {zone: defalt}\nitems: [{id: a}]\n")}, 3, "is default meant?"},
		{"unknown host", []string{"--every", "1h", "--", "--host", "nowhere", "hello"}, 3, "nowhere"},
		{"unknown seed", []string{"--every", "1h", "--", "--host", "web-1", "--seed", "nothing", "hello"}, 3, "nothing"},
		{"no prompt", []string{"--every", "1h", "--", "--host", "web-1"}, 2, "prompt"},
		{"two prompts", []string{"--every", "1h", "--", "--host", "web-1", "a", "b"}, 2, "2 prompts"},
		{"an id", []string{"--every", "1h", "--", "--host", "web-1", "--id", "x", "hello"}, 2, "--id"},
		{"what runs have not", []string{"--every", "1h", "--", "--host", "web-1", "--keep", "hello"}, 2, "--keep"},
		{"no --", []string{"--every", "1h", "hello"}, 2, "--"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := e2e.Exits(t, c.code, append([]string{"schedule", "create", "bad"}, c.args...)...)
			if !strings.Contains(r.Stderr, c.says) {
				t.Errorf("it does not say %q: %v", c.says, r)
			}
		})
	}
	e2e.Exits(t, 2, append([]string{"schedule", "create", strings.Repeat("n", 41), "--every", "1h"}, run...)...)
	e2e.Exits(t, 2, append([]string{"schedule", "create", "Bad", "--every", "1h"}, run...)...)
	e2e.Exits(t, 3, "schedule", "show", "bad")
	for _, args := range [][]string{{"run", "--zone", "moon", "--seed", "team", "hello"}, {"batch", "run", batchFile(t, "prompt: hi\ndefaults: {zone: moon}\nitems: [{id: a}]\n")}} {
		if r := e2e.Exits(t, 3, args...); !strings.Contains(r.Stderr, "zone \"moon\"") || !strings.Contains(r.Stderr, "default") {
			t.Errorf("of a zone there is not: %v", r)
		}
	}
	for _, verb := range []string{"pause", "resume", "trigger"} {
		e2e.Exits(t, 3, "schedule", verb, "bad")
	}
}
