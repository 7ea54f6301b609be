package console

import (
	"os"
	"path/filepath"
	"testing"

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
	b.Sees("Hosts", "Zones", "web-1", "1 of 4")
	b.Shoot("console-hosts")
	b.HasNoBarriers("hosts")
	b.Submit(`tbody a[href^="/hosts/web-1"]`)
	b.Sees("Host web-1", "Sessions here", id)
	b.HasNoBarriers("host")
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
	b.Submit(`a[href="/seeds/team"]`)
	b.Sees("Seed team", "Held by", id+" on web-1")
	b.HasNoBarriers("seed")
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
	b.Submit(`a[href^="/sessions/leapday-"]`)
	b.Sees("You said: hello", "closed")
	b.GoTo("/schedules/leapday")
	b.Submit(`a[href$="/delete"]`)
	b.HasNoBarriers("question about a schedule")
	b.Submit(`[data-confirm]`)
	b.Until("the list without it", func() bool { return b.Has(`table`) && !b.Has(`a[href="/schedules/leapday"]`) })
}
