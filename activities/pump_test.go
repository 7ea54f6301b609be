package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestTurnIsOnRecordWhenThePumpReturns(t *testing.T) {
	model := scriptedmodel.Serve(t, `
rules:
  - when: {turn: 1}
    reply: Pleased to meet you.
  - when: {turn: 2}
    reply: "Before that you said {{ .FirstUser }}"
`)
	k := handMade(t, "talk", model)
	k.start()
	out := k.pump(conversation.TurnEnded, k.message("I am Ada"))
	if out.Pump.Turn.FinalText != "Pleased to meet you." {
		t.Errorf("turn %+v", out.Pump.Turn)
	}
	entries := readAll(t, k.store, "talk", 1)
	if int64(len(entries)) != out.Pump.State.Seq {
		t.Errorf("%d entries in the store, the pump says %d", len(entries), out.Pump.State.Seq)
	}
	if n := len(k.live.of(records.SessionTopic("talk"), records.LiveEntry)); n != len(entries) {
		t.Errorf("%d entries were shown, %d stored", n, len(entries))
	}
	out = k.pump(conversation.TurnEnded, k.message("And now?"))
	if out.Pump.Turn.FinalText != "Before that you said I am Ada" {
		t.Errorf("second turn %+v", out.Pump.Turn)
	}
	if got := readAll(t, k.store, "talk", 1); int64(len(got)) != out.Pump.State.Seq {
		t.Errorf("%d entries in the store, the pump says %d", len(got), out.Pump.State.Seq)
	}
}

// slowly is a script whose first answer stops in the middle of its stream until the
// gate is released.
const slowly = `
rules:
  - when: {turn: 1}
    steps:
      - - think: Let me see.
        - shell: echo first > first; echo done
      - - say: {text: "one two three four five six seven eight nine ten", pace: 5ms}
        - wait: gate
        - say: and the end
  - when: {turn: 2}
    reply: "Again: {{ .FirstUser }}"
`

type pumping struct {
	out pumps.RunPumpResult
	err error
}

func (k *talk) pumpBeside(ctx context.Context, b *bed, in pumps.RunPumpInput, a pumps.Attempt) <-chan pumping {
	done := make(chan pumping, 1)
	go func() {
		out, err := pumps.RunPump(ctx, b.set.Pump.Site, in, a)
		done <- pumping{out, err}
	}()
	return done
}

// await polls until ok holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func appError(t *testing.T, err error) *temporal.ApplicationError {
	t.Helper()
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		t.Fatalf("error %v (%T) is no application error", err, err)
	}
	var p protocol.Problem
	if err := app.Details(&p); err != nil || p.Kind != app.Type() || p.Message == "" {
		t.Errorf("details of %v: %+v, %v", app, p, err)
	}
	return app
}

// shownIsStored checks that all viewers saw the entries that are stored.
func (k *talk) shownIsStored(beds ...*bed) {
	k.t.Helper()
	stored := map[int64]string{}
	for _, e := range readAll(k.t, k.store, k.claim.Session, 1) {
		stored[e.Seq] = e.ID
	}
	if int64(len(stored)) != k.state.Seq {
		k.t.Errorf("%d entries are on record, the pump says %d", len(stored), k.state.Seq)
	}
	for _, b := range beds {
		for _, ev := range b.live.of(records.SessionTopic(k.claim.Session), records.LiveEntry) {
			var e protocol.Entry
			if err := json.Unmarshal(ev.Data, &e); err != nil {
				k.t.Fatal(err)
			}
			if stored[e.Seq] != e.ID || ev.Seq != e.Seq {
				k.t.Errorf("shown as %d was %s, on record is %s", e.Seq, e.ID, stored[e.Seq])
			}
		}
	}
}

func TestLostAttemptIsContinuedWithTheSameTranscript(t *testing.T) {
	model := scriptedmodel.Serve(t, slowly)
	k := handMade(t, "lost", model)
	k.start()
	first := k.another()
	in := k.input(k.message("I am Ada"))
	done := k.pumpBeside(t.Context(), first, in, quiet(1))
	await(t, "the stream to begin", func() bool { return len(first.live.of(records.SessionTopic("lost"), records.LiveDelta)) > 3 })
	if err := first.pool.Close(); err != nil { // every connection is gone
		t.Fatal(err)
	}
	app := appError(t, (<-done).err)
	if app.Type() != protocol.ErrTypeWireLost || app.NonRetryable() || app.NextRetryDelay() > time.Second {
		t.Errorf("a lost wire is %s, non-retryable %v, again in %v", app.Type(), app.NonRetryable(), app.NextRetryDelay())
	}
	model.Release("gate")
	out, err := pumps.RunPump(t.Context(), k.set.Pump.Site, in, quiet(2))
	if err != nil {
		t.Fatal(err)
	}
	k.took(out, conversation.TurnEnded)
	if out.Pump.Turn.Status != "completed" || !strings.HasSuffix(out.Pump.Turn.FinalText, "and the end") {
		t.Errorf("turn %+v", out.Pump.Turn)
	}
	k.shownIsStored(first, k.bed)
	n := 0
	for _, e := range readAll(t, k.store, "lost", 1) {
		if e.Type == protocol.EntryUser {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the message is there %d times", n)
	}
}

func TestOvertakenAttemptEndsAndLeavesTheTurnToTheNewer(t *testing.T) {
	model := scriptedmodel.Serve(t, slowly)
	k := handMade(t, "overtaken", model)
	k.start()
	first := k.another()
	in := k.input(k.message("I am Ada"))
	old := k.pumpBeside(t.Context(), first, in, quiet(1))
	await(t, "the stream to begin", func() bool { return len(first.live.of(records.SessionTopic("overtaken"), records.LiveDelta)) > 3 })
	newer := k.pumpBeside(t.Context(), k.bed, in, quiet(2))
	if app := appError(t, (<-old).err); app.NonRetryable() {
		t.Errorf("the older attempt ended as %v, which would end the pump", app)
	}
	model.Release("gate")
	got := <-newer
	if got.err != nil {
		t.Fatal(got.err)
	}
	k.took(got.out, conversation.TurnEnded)
	k.shownIsStored(first, k.bed)
	_, err := pumps.RunPump(t.Context(), first.set.Pump.Site, in, quiet(1))
	if app := appError(t, err); app.Type() != protocol.ErrTypeFenced || app.NonRetryable() {
		t.Errorf("an older attempt of the same pump is refused as %v", app)
	}
	old1 := in
	old1.Claim.Pump--
	_, err = pumps.RunPump(t.Context(), first.set.Pump.Site, old1, quiet(7))
	if app := appError(t, err); app.Type() != protocol.ErrTypeFenced || !app.NonRetryable() {
		t.Errorf("an older pump is refused as %v", app)
	}
}

func TestStoppingWorkerHandsOver(t *testing.T) {
	model := scriptedmodel.Serve(t, slowly)
	k := handMade(t, "handover", model)
	k.start()
	first := k.another()
	in := k.input(k.message("I am Ada"))
	stop := make(chan struct{})
	a := quiet(9) // eight attempts before this one were stopped in the same way
	a.Stop = stop
	done := k.pumpBeside(t.Context(), first, in, a)
	await(t, "the stream to begin", func() bool { return len(first.live.of(records.SessionTopic("handover"), records.LiveDelta)) > 3 })
	close(stop)
	app := appError(t, (<-done).err)
	if app.Type() != protocol.ErrTypeWireLost || app.NonRetryable() || app.NextRetryDelay() <= 0 || app.NextRetryDelay() > time.Second {
		t.Errorf("handed over as %s, non-retryable %v, again in %v", app.Type(), app.NonRetryable(), app.NextRetryDelay())
	}
	model.Release("gate")
	out, err := pumps.RunPump(t.Context(), k.set.Pump.Site, in, quiet(10))
	if err != nil {
		t.Fatal(err)
	}
	k.took(out, conversation.TurnEnded)
	k.shownIsStored(first, k.bed)
}

func TestCalledBackPumpReturnsANormalResult(t *testing.T) {
	model := scriptedmodel.Serve(t, slowly)
	k := handMade(t, "callback", model)
	k.start()
	ctx, cancel := context.WithCancel(t.Context())
	done := k.pumpBeside(ctx, k.bed, k.input(k.message("I am Ada")), quiet(1))
	await(t, "the stream to begin", func() bool { return len(k.live.of(records.SessionTopic("callback"), records.LiveDelta)) > 3 })
	cancel()
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	k.took(got.out, conversation.PumpCancelled)
	if d := got.out.Pump.Deliveries; len(d) != 1 || d[0].State != protocol.Acknowledged {
		t.Errorf("deliveries %+v", d)
	}
	model.Release("gate")
	out := k.pump(conversation.TurnEnded)
	if out.Pump.Turn.Status != "completed" {
		t.Errorf("turn %+v", out.Pump.Turn)
	}
	k.shownIsStored(k.bed)
}

func TestEndOfTheProcessIsTold(t *testing.T) {
	model := scriptedmodel.Serve(t, slowly)
	k := handMade(t, "gone", model)
	k.start()
	done := k.pumpBeside(t.Context(), k.bed, k.input(k.message("I am Ada")), quiet(1))
	await(t, "the stream to begin", func() bool { return len(k.live.of(records.SessionTopic("gone"), records.LiveDelta)) > 3 })
	st, err := process.Inspect(t.Context(), k.host(), folder.ServerDir(k.layout, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	k.took(got.out, conversation.ProcessEnded)
	if p := got.out.Process; p == nil || p.State != "exited" || p.Code != 137 {
		t.Errorf("process %+v", p)
	}
	// A later pump returns the same.
	out := k.pump(conversation.ProcessEnded)
	if p := out.Process; p == nil || p.State != "exited" || p.Code != 137 {
		t.Errorf("process %+v", p)
	}
	// A new process goes on with the thread.
	k.resume, k.turn = true, 1
	k.start()
	out = k.pump(conversation.TurnEnded, k.message("And now?"))
	if out.Pump.Turn.FinalText != "Again: I am Ada" {
		t.Errorf("turn %+v", out.Pump.Turn)
	}
	k.shownIsStored(k.bed)
}

func TestMissingJournalIsAProcessThatIsGone(t *testing.T) {
	k := handMade(t, "absent", scriptedmodel.Serve(t, `rules: []`))
	k.state.Cursor = protocol.Cursor{Incarnation: 1, Offset: 100}
	k.state.Rewind = 40
	in := k.input()
	in.Pump.Notes = []conversation.Note{{ID: "n1", Type: "state", Text: "noted"}}
	out, err := pumps.RunPump(t.Context(), k.set.Pump.Site, in, quiet(1))
	if err != nil {
		t.Fatal(err)
	}
	k.took(out, conversation.ProcessEnded)
	if out.Process == nil || out.Process.State != "absent" {
		t.Errorf("process %+v", out.Process)
	}
	if got := readAll(t, k.store, "absent", 1); len(got) == 0 || got[0].ID != "n1" {
		t.Errorf("the note is not on record: %+v", got)
	}
}

func TestLongMessageComesFromTheStore(t *testing.T) {
	model := scriptedmodel.Serve(t, `rules: [{reply: "{{ len .LastUser }} bytes"}]`)
	k := handMade(t, "long", model)
	k.start()
	text := strings.Repeat("long words ", 40_000)
	key, err := k.store.PutContent(t.Context(), owned.In(aFolder, owned.Messages), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m := k.message("")
	m.Blob = key
	out := k.pump(conversation.TurnEnded, m)
	// codex may trim spaces of a message.
	if want := fmt.Sprint(len(strings.TrimSpace(text)), " bytes"); out.Pump.Turn.FinalText != want && out.Pump.Turn.FinalText != fmt.Sprint(len(text), " bytes") {
		t.Errorf("the model saw %s, want %s", out.Pump.Turn.FinalText, want)
	}
	if data, err := json.Marshal(out); err != nil || len(data) > 6<<10 {
		t.Errorf("the result takes %d bytes of history, %v", len(data), err)
	}
}

func TestHeartbeatNamesTheAttachedWorker(t *testing.T) {
	model := scriptedmodel.Serve(t, `rules: [{reply: hello}]`)
	k := handMade(t, "beat", model)
	k.start()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(patience)
	k.set.Register(env)
	var beats []pumps.PumpBeat
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var b pumps.PumpBeat
		if err := details.Get(&b); err != nil {
			t.Error(err)
		}
		beats = append(beats, b)
	})
	val, err := env.ExecuteActivity(k.set.Pump.RunPump, k.input(k.message("hi")))
	if err != nil {
		t.Fatal(err)
	}
	var out pumps.RunPumpResult
	if err := val.Get(&out); err != nil || out.Pump.Turn == nil || out.Pump.Turn.FinalText != "hello" {
		t.Errorf("result %+v, %v", out, err)
	}
	if len(beats) == 0 || beats[0].API != "unix:///worker.sock" {
		t.Errorf("heartbeats %+v", beats)
	}
}

// states returns the states of a session's pump that viewers saw.
func (b *bed) states(session string) (all []protocol.SessionLive) {
	b.t.Helper()
	for _, ev := range b.live.of(records.SessionTopic(session), records.LiveState) {
		var s protocol.SessionLive
		if err := json.Unmarshal(ev.Data, &s); err != nil {
			b.t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

func TestViewersAreToldWhereThePumpIs(t *testing.T) {
	model := scriptedmodel.Serve(t, slowly)
	k := handMade(t, "place", model)
	k.start()
	done := k.pumpBeside(t.Context(), k.bed, k.input(k.message("I am Ada")), quiet(1))
	var at protocol.SessionLive
	await(t, "thread, turn and message to be shown", func() bool {
		all := k.states("place")
		if len(all) > 0 {
			at = all[len(all)-1]
		}
		return at.ThreadID != "" && at.TurnID != "" && len(at.Acknowledged) == 1 && at.Seq > 1
	})
	if !at.Attached || at.Offset <= 0 || at.Acknowledged[0] != "m-1" {
		t.Errorf("shown %+v", at)
	}
	model.Release("gate")
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	k.took(got.out, conversation.TurnEnded)
	if got.out.Pump.State.ThreadID != at.ThreadID || got.out.Pump.Turn.ID != at.TurnID {
		t.Errorf("shown %+v, was %+v", at, got.out.Pump)
	}
	all := k.states("place")
	if last := all[len(all)-1]; last.Attached || last.Reason != string(conversation.TurnEnded) || last.Seq != k.state.Seq {
		t.Errorf("at the end: %+v", last)
	}
}

func TestOnlyMessagesAreReadFromTheStoreAsMessages(t *testing.T) {
	k := handMade(t, "prefix", scriptedmodel.Serve(t, `rules: []`))
	for _, dir := range []string{"seeds", "requests", owned.In(aFolder, owned.Inputs)} {
		key, err := k.store.PutContent(t.Context(), dir, []byte("not for the model"))
		if err != nil {
			t.Fatal(err)
		}
		for _, blob := range []string{key, owned.In(aFolder, owned.Messages) + "/../" + key} {
			sends := []conversation.Send{{ID: "m", Kind: conversation.SendTurn, Blob: blob}}
			if err := pumps.FillTexts(t.Context(), k.set.Pump.Site, sends); err == nil || sends[0].Text != "" {
				t.Errorf("%s was read as a message: %v, %q", blob, err, sends[0].Text)
			}
		}
	}
}
