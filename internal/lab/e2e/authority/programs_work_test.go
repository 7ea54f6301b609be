package authority

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// repository makes a bare git repository with one commit, on the machine that web-1 is.
func repository(t *testing.T) (bare string) {
	t.Helper()
	dir := t.TempDir()
	script := `set -e; cd "$0"; git -c init.defaultBranch=main init -q src; echo ours >src/README
git -C src add -A; git -C src -c user.name=n -c user.email=n@example.com commit -qm first; git clone -q --bare src app.git`
	if out, err := exec.CommandContext(e2e.Within(t), "sh", "-c", script, dir).CombinedOutput(); err != nil {
		t.Fatalf("make a repository: %v: %s", err, out)
	}
	return filepath.Join(dir, "app.git")
}

// turnOf waits until the newest turn of a session is the one that a message began, and has ended.
func (p *program) turnOf(session, message string) (turn protocol.TurnView) {
	p.Helper()
	at := "/v1/sessions/" + session
	e2e.Until(p.T, "the end of the turn of "+message, func() (bool, error) {
		var v protocol.SessionView
		if p.must(http.StatusOK, &v, "GET", at, ""); v.Turn == nil {
			return false, nil
		}
		turn = protocol.TurnView{}
		p.must(http.StatusOK, &turn, "GET", fmt.Sprintf("%s/turns/%d", at, v.Turn.N), "")
		return turn.MessageID == message && turn.Done(), nil
	})
	return turn
}

// A program takes a message back, shortens the thread, has codex review its work, and pushes that.
// Each is done once for a key, and a viewer is refused.
func TestAProgramTakesAMessageBackCompactsReviewsAndPushes(t *testing.T) {
	operator, viewer := newProgram(t, "work-operator", "operator"), newProgram(t, "work-viewer", "viewer")
	const id = "work-1"
	const at = "/v1/sessions/" + id
	bare := repository(t)
	var started httpapi.Started
	operator.must(http.StatusCreated, &started, "POST", "/v1/sessions", fmt.Sprintf(`{"id":%q,"host":"web-1","seed":"team","repo":{"url":%q},"message":{"text":"need a command"}}`, id, bare), "Idempotency-Key", "work-start")
	t.Cleanup(func() {
		if r := e2e.Lab.Ctl(context.Background(), nil, "session", "close", id); r.Code != 0 && r.Code != 6 {
			t.Errorf("close: %v", r)
		}
	})
	ap := e2e.Open(t, id, 1)[0] // so the next message waits
	var queued protocol.MessageAccepted
	operator.must(http.StatusAccepted, &queued, "POST", at+"/messages", `{"text":"hello"}`, "Idempotency-Key", "work-message")
	var told httpapi.Problem
	taking := `{"message":"` + queued.MessageID + `"}`
	viewer.must(http.StatusForbidden, &told, "POST", at+"/unsend", taking)
	for range 2 {
		var v protocol.SessionView
		operator.must(http.StatusAccepted, &v, "POST", at+"/unsend", taking, "Idempotency-Key", "work-unsend")
		if v.Queue != 0 {
			t.Errorf("%d messages are queued", v.Queue)
		}
	}
	mustDo(t, "bob", "approval", "accept", ap.ID)
	turn := operator.turnOf(id, started.MessageID)
	if turn.Status != "completed" {
		t.Errorf("the first turn is %+v", turn)
	}
	for _, act := range []struct{ name, body string }{{"compact", ""}, {"review", `{"instructions":"hello, look at it"}`}} {
		path := at + "/" + act.name
		viewer.must(http.StatusForbidden, &told, "POST", path, act.body)
		var first, again protocol.MessageAccepted
		operator.must(http.StatusAccepted, &first, "POST", path, act.body, "Idempotency-Key", "work-"+act.name)
		turn = operator.turnOf(id, first.MessageID)
		if turn.Act != act.name || turn.Status != "completed" {
			t.Errorf("%s: the turn is %+v", act.name, turn)
		}
		operator.must(http.StatusAccepted, &again, "POST", path, act.body, "Idempotency-Key", "work-"+act.name)
		if again.MessageID != first.MessageID {
			t.Errorf("%s was answered with %+v, and repeated with %+v", act.name, first, again)
		}
	}
	e2e.Idle(t, id)
	if v := e2e.Show(t, id); v.Turn == nil || v.Turn.N != turn.N || v.Queue != 0 {
		t.Errorf("after turn %d, the session is %+v", turn.N, v)
	}
	pushing := `{"branch":"next","message":"What codex did"}`
	viewer.must(http.StatusForbidden, &told, "POST", at+"/push", pushing)
	var first, again httpapi.Pushed
	operator.must(http.StatusOK, &first, "POST", at+"/push", pushing, "Idempotency-Key", "work-push")
	operator.must(http.StatusOK, &again, "POST", at+"/push", pushing, "Idempotency-Key", "work-push")
	if first.Branch != "next" || first.Already || again.Commit != first.Commit {
		t.Errorf("pushed %+v, again %+v", first, again)
	}
	out, err := exec.CommandContext(e2e.Within(t), "git", "-C", bare, "log", "-1", "--format=%H %s", "next", "--", "ran.txt").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != first.Commit+" What codex did" {
		t.Errorf("branch next has %q (%v), want %s", out, err, first.Commit)
	}
}

// A program widens the window of a batch while it runs, and has a schedule make up for a time that it
// missed. A late repetition changes nothing of what was done since.
func TestAProgramWidensABatchAndBackfillsASchedule(t *testing.T) {
	operator, viewer := newProgram(t, "change-operator", "operator"), newProgram(t, "change-viewer", "viewer")
	const at = "/v1/batches/http-window"
	var told httpapi.Problem
	operator.must(http.StatusCreated, new(httpapi.StartedBatch), "POST", at, `{"window":1,"defaults":{"host":"web-1","seed":"team"},"items":[{"id":"one","message":{"text":"need a command"}},{"id":"two","message":{"text":"need a command"}}]}`, "Idempotency-Key", "window-start")
	t.Cleanup(func() { // the test's end has cancelled what a program asks
		if r := e2e.Lab.Ctl(context.Background(), nil, "batch", "cancel", "http-window", "--discard"); r.Code != 0 && r.Code != 6 {
			t.Errorf("cancel: %v", r)
		}
	})
	viewer.must(http.StatusForbidden, &told, "POST", at+"/settings", `{"window":2}`)
	window := func(n int, key string) {
		t.Helper()
		operator.must(http.StatusAccepted, new(protocol.BatchView), "POST", at+"/settings", fmt.Sprintf(`{"window":%d}`, n), "Idempotency-Key", key)
	}
	var v protocol.BatchShown
	becomes := func(what string, cond func() bool) {
		t.Helper()
		e2e.Until(t, what, func() (bool, error) {
			v = protocol.BatchShown{}
			viewer.must(http.StatusOK, &v, "GET", at, "")
			return cond(), nil
		})
	}
	window(2, "window-two")
	becomes("both items to run", func() bool { return v.Running == 2 })
	window(3, "window-three")
	becomes("the window to be changed", func() bool { return v.Window == 3 })
	window(2, "window-two")
	if becomes("the batch", func() bool { return true }); v.Window != 3 {
		t.Errorf("the first request, repeated, sets the window to %d", v.Window)
	}
	operator.must(http.StatusAccepted, new(protocol.BatchView), "POST", at+"/cancel", `{"discard":true}`, "Idempotency-Key", "window-cancel")
	becomes("the end of the batch", func() bool { return protocol.BatchOver(v.State) })

	const clock = "/v1/schedules/http-missed"
	operator.must(http.StatusCreated, new(protocol.ScheduleView), "POST", clock, `{"cron":["0 4 29 2 *"],"session":{"host":"web-1","seed":"team","message":{"text":"hello"}}}`, "Idempotency-Key", "missed-create")
	t.Cleanup(func() {
		if r := e2e.Lab.Ctl(context.Background(), nil, "schedule", "delete", "http-missed"); r.Code != 0 && r.Code != 3 {
			t.Errorf("delete: %v", r)
		}
	})
	const missed = `{"from":"2024-02-28T00:00","to":"2024-03-01T00:00"}`
	viewer.must(http.StatusForbidden, &told, "POST", clock+"/backfill", missed)
	var times httpapi.Backfilled
	operator.must(http.StatusOK, &times, "POST", clock+"/backfill", missed, "Idempotency-Key", "missed")
	if len(times.Times) != 1 || times.Times[0].UTC().Format("2006-01-02 15:04") != "2024-02-29 04:00" {
		t.Errorf("it begins something for %v", times.Times)
	}
	if operator.must(http.StatusConflict, &told, "POST", clock+"/backfill", missed, "Idempotency-Key", "missed"); told.Kind != "refused" {
		t.Errorf("repeated: %+v", told)
	}
	e2e.Until(t, "what was missed to be done", func() (bool, error) {
		var s protocol.ScheduleView
		viewer.must(http.StatusOK, &s, "GET", clock, "")
		return len(s.Recent) == 1 && s.Recent[0].State == "completed", nil
	})
	operator.must(http.StatusOK, new(protocol.ScheduleDeleted), "DELETE", clock, "")
}

// A program says who may have a seed, has it verified, and takes a suspicion back.
func TestAProgramLooksAfterASeed(t *testing.T) {
	keeper, viewer := newProgram(t, "seed-keeper", "seed-admin"), newProgram(t, "seed-viewer", "viewer")
	const at = "/v1/seeds/team"
	var told httpapi.Problem
	show := func() (v protocol.SeedView) {
		t.Helper()
		viewer.must(http.StatusOK, &v, "GET", at, "")
		return v
	}
	was := show()
	for _, act := range []struct{ path, body string }{{"/settings", `{"pools":["http"]}`}, {"/verify", ""}, {"/revive", ""}} {
		viewer.must(http.StatusForbidden, &told, "POST", at+act.path, act.body)
	}
	t.Cleanup(func() {
		if r := e2e.Lab.Ctl(context.Background(), nil, "seed", "set", "team", "--pool", ""); r.Code != 0 {
			t.Errorf("take it out of the pool: %v", r)
		}
	})
	for range 2 {
		var v protocol.SeedView
		keeper.must(http.StatusOK, &v, "POST", at+"/settings", `{"pools":["http"]}`, "Idempotency-Key", "seed-pools")
		if !slices.Equal(v.Pools, []string{"http"}) || v.Share != was.Share || v.Generation != was.Generation {
			t.Errorf("the seed is %+v, was %+v", v, was)
		}
	}
	var list httpapi.Page[protocol.SeedView]
	if viewer.must(http.StatusOK, &list, "GET", "/v1/seeds?pool=http", ""); len(list.Items) != 1 || list.Items[0].Name != "team" {
		t.Errorf("the seeds of the pool are %+v", list.Items)
	}
	keeper.must(http.StatusOK, new(protocol.SeedView), "POST", at+"/settings", `{"pools":[]}`, "Idempotency-Key", "seed-no-pools")
	keeper.must(http.StatusOK, new(protocol.SeedView), "POST", at+"/settings", `{"pools":["http"]}`, "Idempotency-Key", "seed-pools")
	if v := show(); len(v.Pools) > 0 {
		t.Errorf("the first request, repeated, puts the seed into %v", v.Pools)
	}
	var v protocol.SeedView
	keeper.must(http.StatusOK, &v, "POST", at+"/verify", "", "Idempotency-Key", "seed-verify")
	if v.Check == nil || v.Check.Verdict == "" || v.Check.By != "token:seed-keeper" {
		t.Errorf("verified: %+v", v.Check)
	}
	keeper.must(http.StatusOK, new(protocol.SeedView), "POST", at+"/verify", "", "Idempotency-Key", "seed-verify")
	for range 2 {
		v = protocol.SeedView{}
		if keeper.must(http.StatusOK, &v, "POST", at+"/revive", "", "Idempotency-Key", "seed-revive"); v.Health == protocol.Suspect || v.Generation != was.Generation {
			t.Errorf("revived: %+v", v)
		}
	}
}
