package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/browser"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// TestAHostIsDrainedFromItsPage, after a question, and takes sessions again after another one. The
// page of its session's seed says who holds it.
func TestAHostIsDrainedFromItsPage(t *testing.T) {
	id := "guest"
	b := open(t, 1440, 900)
	e2e.Session(t, id)
	e2e.Turn(t, id, "hello")
	b.Submit(`nav a[href="/hosts"]`)
	b.Sees("Hosts", "Zones", "web-1", "1 of 4", "Slots used, and sessions that wait for one")
	if drawn := browser.Eval[string](b, `document.querySelector(".slots svg").getAttribute("aria-label")`); !strings.HasPrefix(drawn, "slots from") {
		t.Errorf("the picture of the slots says %q", drawn)
	}
	b.Shoot("console-hosts")
	b.HasNoBarriers("hosts")
	b.Submit(`tbody a[href^="/hosts/web-1"]`)
	b.Sees("Host web-1", "Sessions here", id)
	b.HasNoBarriers("host")
	b.Shoot("console-host")
	for tries := 0; !b.Has(`.checks`); tries++ { // a page does not wait for a check for ever
		if tries == 10 {
			t.Fatalf("the check does not end:\n%s", b.Text())
		}
		b.Submit(`a[href^="/hosts/web-1/check"]`)
		b.Submit(`[data-confirm]`)
		b.Until("an answer", func() bool { return b.Has(`.checks`) || b.Has(`[role=alert]`) })
	}
	b.Sees("The check", "ok")
	b.HasNoBarriers("check of a host")
	b.Submit(`nav a[href="/hosts"]`)
	b.Submit(`tbody a[href^="/hosts/web-1"]`)
	b.Sees("Host web-1", "ready")
	b.Submit(`a[href^="/hosts/web-1/drain"]`)
	b.Sees("Drain host web-1", "1 session has a slot here", "No new session comes onto it")
	b.HasNoBarriers("question")
	b.Shoot("console-question")
	b.Submit(`[data-confirm]`)
	b.Sees("Host web-1", "drained")
	e2e.Until(t, "the session to park", func() (bool, error) { return e2e.Show(t, id).State == protocol.Parked, nil })
	b.Sees("Let sessions onto it")
	b.Submit(`a[href^="/hosts/web-1/undrain"]`)
	b.Submit(`[data-confirm]`)
	b.Sees("Host web-1", "ready", "Drain it")

	e2e.Turn(t, id, "hello again") // it comes back to the host
	b.Submit(`nav a[href="/seeds"]`)
	b.Sees("Seeds", "team", id)
	b.HasNoBarriers("seeds")
	b.Shoot("console-seeds")
	b.Submit(`a[href="/seeds/team"]`)
	b.Sees("Seed team", "Held by", id+" on web-1")
	b.HasNoBarriers("seed")
	b.Shoot("console-seed")
}

// TestABatchIsFollowedAndCancelled: its page grows while its items end, leads to the item that
// waits for a person, and cancels the rest after a question.
func TestABatchIsFollowedAndCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "batch.yaml")
	if err := os.WriteFile(path, []byte(`id: crowd
window: 2
prompt: "{{.item}}"
defaults: {host: web-1, seed: team}
items:
  - one
  - {id: asks, vars: {item: need a command}}
  - two
`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, 1440, 900)
	e2e.OK(t, "batch", "run", path, "--detach")
	b.GoTo("/batches")
	b.Sees("crowd")
	b.HasNoBarriers("batches")
	b.Shoot("console-batches")
	b.Submit(`a[href="/batches/crowd"]`)
	b.Sees("Batch crowd", "2 done", "Wait for a person", "crowd-asks: 1 open", "You said: one", "You said: two")
	b.Shoot("console-batch")
	b.HasNoBarriers("batch")
	b.Submit(`a[href="/batches/crowd/cancel"]`)
	b.Sees("Cancel batch crowd", "1 session runs, and is closed.")
	b.Submit(`[data-confirm]`)
	b.Sees("Batch crowd", "2 done", "1 cancelled")
	e2e.HasClosed(t, "crowd-asks")
}

// TestAScheduleIsPausedTriggeredAndDeleted from its page.
func TestAScheduleIsPausedTriggeredAndDeleted(t *testing.T) {
	e2e.OK(t, "schedule", "create", "leapday", "--cron", "0 4 29 2 *", "--", "--host", "web-1", "--seed", "team", "hello")
	b := open(t, 1440, 900)
	b.GoTo("/schedules")
	b.Sees("leapday", "0 4 29 2 *")
	b.HasNoBarriers("schedules")
	b.Shoot("console-schedules")
	b.Submit(`a[href="/schedules/leapday"]`)
	b.Sees("Schedule leapday", "It has begun nothing yet.")
	b.Submit(`a[href$="/pause"]`)
	b.Types(`input[name=reason]`, "holidays")
	b.Submit(`[data-confirm]`)
	b.Sees("paused", "holidays")
	b.Submit(`a[href$="/resume"]`)
	b.Submit(`[data-confirm]`)
	b.Sees("Pause it")
	b.Submit(`a[href$="/trigger"]`)
	b.Submit(`[data-confirm]`)
	b.Until("its session", func() bool { return b.Has(`a[href^="/sessions/leapday-"]`) })
	b.HasNoBarriers("schedule")
	b.Shoot("console-schedule")
	b.Submit(`a[href^="/sessions/leapday-"]`)
	b.Sees("You said: hello", "closed")
	b.GoTo("/schedules/leapday")
	b.Submit(`a[href$="/delete"]`)
	b.HasNoBarriers("question about a schedule")
	b.Submit(`[data-confirm]`)
	b.Until("the list without it", func() bool { return b.Has(`table`) && !b.Has(`a[href="/schedules/leapday"]`) })
}

// TestABatchAndAScheduleAreMadeInTheBrowser: their forms alone begin them. A mistake is said, and
// nothing that was typed is lost.
func TestABatchAndAScheduleAreMadeInTheBrowser(t *testing.T) {
	b := open(t, 1440, 900)
	b.GoTo("/batches")
	b.Submit(`a[href="/batches/new"]`)
	b.Sees("New batch", "Items, one a line")
	b.Types(`textarea[name=text]`, "say something about {{item}}")
	b.Types(`textarea[name=items]`, "apples\npears\n")
	b.Types(`input[name=id]`, "fruit")
	b.Types(`input[name=host]`, "web-1")
	b.Types(`input[name=seed]`, "team")
	b.Shoot("console-new-batch")
	b.HasNoBarriers("new batch")
	b.Types(`textarea[name=text]`, "say something about it")
	b.Submit(`form.start button.accept`)
	b.Sees("would do the same", "New batch")
	b.HasNoBarriers("new batch with a mistake")
	b.Types(`textarea[name=text]`, "say something about {{item}}")
	b.Submit(`form.start button.accept`)
	b.Sees("Batch fruit", "2 done", "You said: say something about apples", "You said: say something about pears")

	b.GoTo("/schedules")
	b.Submit(`a[href="/schedules/new"]`)
	b.Sees("New schedule")
	b.HasNoBarriers("new schedule")
	b.Types(`input[name=name]`, "leapyear")
	b.Types(`input[name=when]`, "0 4 29 2 *")
	b.Types(`textarea[name=text]`, "hello")
	b.Types(`input[name=host]`, "web-1")
	b.Types(`input[name=seed]`, "team")
	b.Shoot("console-new-schedule")
	b.Submit(`form.start button.accept`)
	b.Sees("Schedule leapyear", "0 4 29 2 *", "It has begun nothing yet.")
	b.Submit(`a[href$="/trigger"]`)
	b.Submit(`[data-confirm]`)
	b.Until("its session", func() bool { return b.Has(`a[href^="/sessions/leapyear-"]`) })
	b.Submit(`a[href^="/sessions/leapyear-"]`)
	b.Sees("You said: hello", "closed")
	e2e.OK(t, "schedule", "delete", "leapyear")
}
