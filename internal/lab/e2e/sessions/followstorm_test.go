package sessions

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/stack"
)

// A killer kills the worker of a stack in the midst of activities: in each one more often than
// Temporal may try it again.
type killer struct {
	t *testing.T
	l *lab.Lab
	c client.Client
	// attempts has the newest attempt that was killed of each activity, and kills how often
	// activities of each type were.
	attempts map[string]int32
	kills    map[string]int32
	// beyond are types whose limit of attempts was passed in one activity.
	beyond map[string]bool
}

func newKiller(t *testing.T, l *lab.Lab) *killer {
	t.Helper()
	c, err := l.Outsider(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &killer{t: t, l: l, c: c, attempts: map[string]int32{}, kills: map[string]int32{}, beyond: map[string]bool{}}
}

// unlimited is how often an activity is killed whose attempts have no limit.
const unlimited = 2

// strike kills the worker if an activity of the session runs that was not killed enough.
func (k *killer) strike(session string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	d, err := k.c.DescribeWorkflowExecution(ctx, protocol.SessionID(session), "")
	if err != nil {
		return // it has not begun
	}
	for _, a := range d.GetPendingActivities() {
		kind := a.GetActivityType().GetName()
		key := session + " " + kind + " " + a.GetActivityId()
		enough := a.GetMaximumAttempts()
		if enough == 0 || enough > 10 {
			enough = unlimited
		}
		if a.GetState() != enums.PENDING_ACTIVITY_STATE_STARTED || a.GetAttempt() <= k.attempts[key] || k.kills[session+" "+kind] > enough {
			continue
		}
		k.attempts[key] = a.GetAttempt()
		k.kills[session+" "+kind]++
		if m := a.GetMaximumAttempts(); m > 0 && a.GetAttempt() >= m {
			k.beyond[kind] = true
		}
		k.kill()
		return
	}
}

func (k *killer) kill() {
	k.t.Helper()
	info, err := stack.Read(k.l.State) // faster than asking, so that the activity still runs
	if err != nil {
		k.t.Fatal(err)
	}
	for _, w := range info.Workers {
		if err := syscall.Kill(w.PID, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			k.t.Fatal(err)
		}
	}
}

// A follow-up happens once, and its result is attached, although the worker is killed in each
// activity of both sessions around its fork, its start and its end, and more often than
// activities are tried again.
func TestAFollowUpHappensOnceUnderAStormOfKills(t *testing.T) {
	l, run := e2e.Own(t, "limits: {watch: 1s}\n")
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("follow_ups:\n  - name: review\n    after: {turns: 1}\n    prompt: what was first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.ImportSeed(e2e.Within(t), "other"); err != nil {
		t.Fatal(err)
	}
	run("session", "start", "--host", "web-1", "--seed", "team", "--id", "stormy", "--follow-up", rules)
	k := newKiller(t, l)
	shown := func(id string) (v protocol.SessionView, ok bool) {
		err := l.JSON(e2e.Within(t), &v, "session", "show", id)
		return v, err == nil
	}
	run("session", "send", "stormy", "--no-wait", "the first words")
	second := ""
	e2e.Until(t, "the follow-up has ended, and its result is attached", func() (bool, error) {
		for shown := time.Now(); time.Since(shown) < 2*time.Second; { // showing takes longer than striking
			k.strike("stormy")
			if second != "" {
				k.strike(second)
			}
		}
		v, ok := shown("stormy")
		if ok && len(v.FollowUps) > 0 && second == "" {
			second = v.FollowUps[0].Session
			k.kill() // just after its start
		}
		if ok && len(v.FollowUps) > 0 && v.FollowUps[0].State != protocol.FollowUpStarted {
			return true, nil
		}
		return false, nil
	})
	k.kill() // just after its end was noted
	t.Logf("killed were %v; beyond the limit of attempts: %v", k.kills, k.beyond)
	total := int32(0)
	for _, n := range k.kills {
		total += n
	}
	if total < 10 || len(k.beyond) == 0 {
		t.Errorf("the worker was killed %d times in activities, beyond a limit in %v: that is no storm", total, k.beyond)
	}
	var v protocol.SessionView
	e2e.Until(t, "both sessions are shown", func() (bool, error) {
		var ok bool
		if v, ok = shown("stormy"); !ok {
			return false, nil
		}
		_, ok = shown(second)
		return ok, nil
	})
	if len(v.FollowUps) != 1 {
		t.Fatalf("follow-ups are %+v", v.FollowUps)
	}
	got := v.FollowUps[0]
	if got.Error == nil && (got.State != "closed" || got.Status != "completed" || !strings.Contains(got.Text, "The first was: the first words")) {
		t.Errorf("the follow-up is shown as %+v, neither with its result nor with its failure", got)
	}
	its, _ := shown(second)
	if len(its.FollowUps) > 0 || its.Origin != protocol.OriginSession("stormy") {
		t.Errorf("the follow-up is %+v", its)
	}
	list := run("session", "list", "--follow-ups-of", "stormy", "-o", "json")
	if n := strings.Count(list, fmt.Sprintf(`"id":%q`, second)); n != 1 || strings.Count(list, `"id":"stormy-`) != 1 {
		t.Errorf("follow-ups of the session are %s", list)
	}
	entries, err := lab.Lines[protocol.Entry](e2e.Within(t), l, "transcript", second)
	if err != nil {
		t.Fatal(err)
	}
	if asked := e2e.Texts(entries, protocol.EntryUser); got.Error == nil && len(asked) > 0 && strings.Count(strings.Join(asked, "\n"), "what was first") != 1 {
		t.Errorf("the follow-up was asked %q", asked)
	}
	run("session", "close", "stormy")
}

// The result of a follow-up is attached once, although the worker is killed again and again while
// the follow-up's turn runs, and while its end is told to the first session.
func TestTheResultOfAFollowUpIsAttachedOnceThoughItsPumpIsKilled(t *testing.T) {
	l, run := e2e.Own(t, "limits: {watch: 1s}\n")
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("follow_ups:\n  - name: review\n    after: {turns: 1}\n    prompt: wait at the gate review\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.ImportSeed(e2e.Within(t), "other"); err != nil {
		t.Fatal(err)
	}
	run("session", "start", "--host", "web-1", "--seed", "team", "--id", "reviewed", "--follow-up", rules)
	k := newKiller(t, l)
	run("session", "send", "reviewed", "the first words")
	if _, err := l.Model.AwaitWaiting(e2e.Within(t), "review"); err != nil {
		t.Fatal(err)
	}
	shown := func(id string) (v protocol.SessionView, ok bool) {
		err := l.JSON(e2e.Within(t), &v, "session", "show", id)
		return v, err == nil
	}
	second := ""
	e2e.Until(t, "the follow-up is shown", func() (bool, error) {
		v, ok := shown("reviewed")
		if ok && len(v.FollowUps) == 1 {
			second = v.FollowUps[0].Session
		}
		return second != "", nil
	})
	last := int32(0)
	for range kills {
		e2e.Until(t, "the follow-up's pump runs again", func() (bool, error) {
			n := k.running(second, "RunPump")
			if n <= last {
				return false, nil
			}
			last = n
			return true, nil
		})
		k.kill()
	}
	l.Model.Release("review")
	// From now on the result is on its way: from the pump to the follow-up, from there to the
	// first session, and into its transcript.
	for n := range 3 {
		e2e.Until(t, "a worker is back", func() (bool, error) {
			_, ok := shown(second)
			return ok, nil
		})
		if n < 2 {
			k.kill()
		}
	}
	var v protocol.SessionView
	e2e.Until(t, "the result is attached", func() (bool, error) {
		var ok bool
		v, ok = shown("reviewed")
		return ok && len(v.FollowUps) > 0 && v.FollowUps[0].State != protocol.FollowUpStarted, nil
	})
	if len(v.FollowUps) != 1 || v.FollowUps[0].State != "closed" || v.FollowUps[0].Status != "completed" || v.FollowUps[0].Text != "passed the gate" {
		t.Errorf("follow-ups are %+v", v.FollowUps)
	}
	run("session", "close", "reviewed")
	entries, err := lab.Lines[protocol.Entry](e2e.Within(t), l, "transcript", "reviewed")
	if err != nil {
		t.Fatal(err)
	}
	attached := 0
	for _, text := range e2e.Texts(entries, protocol.EntryState) {
		if strings.Contains(text, "follow-up review of turn 1 ended") {
			attached++
		}
	}
	if attached != 1 {
		t.Errorf("the result is in the transcript %d times: %q", attached, e2e.Texts(entries, protocol.EntryState))
	}
	its, err := lab.Lines[protocol.Entry](e2e.Within(t), l, "transcript", second)
	if err != nil {
		t.Fatal(err)
	}
	if said := e2e.Texts(its, protocol.EntryAssistant); strings.Count(strings.Join(said, "\n"), "passed the gate") != 1 {
		t.Errorf("the follow-up said %q", said)
	}
}

// running returns the newest attempt of a session's activity that a worker has; 0 if none has it.
func (k *killer) running(session, kind string) int32 {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	d, err := k.c.DescribeWorkflowExecution(ctx, protocol.SessionID(session), "")
	if err != nil {
		return 0
	}
	for _, a := range d.GetPendingActivities() {
		if a.GetActivityType().GetName() == kind && a.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED {
			return a.GetAttempt()
		}
	}
	return 0
}
