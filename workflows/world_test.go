package workflows

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

// world is a test environment with a session whose leases are granted at once.
type world struct {
	amend   bool              // the seed allows amendments
	bounds  *protocol.Ceiling // of the seed
	judges  string            // the seed's policy
	way     string            // the seed's default of credentials
	kind    string            // of the granted seed
	seedNow *protocol.SeedRef // the seed that is granted instead, if set
	*environment
	t        *testing.T
	fake     *fakeSessions
	released []string
	back     []lease.Release // the releases themselves
	looks    []lease.Granted // a pool's answers to who looks for another seed
	reports  []lease.Report  // reports to the seed
	ended    []protocol.SessionEnded
	tokens   bookOf                 // API tokens
	ledger   fakeLedger             // of all workflows but sessions
	foreign  map[string]bool        // ids of sessions that are somebody else's
	access   string                 // digest of the access file of guard
	keeper   *authority.Keeper      // of guard
	used     map[string]string      // nonces of signed starts, and the runs that claimed them
	reads    []*protocol.StartReads // what starts wanted to read
	held     []lease.Holds          // the session's answers to a pool's roll call
	asked    []lease.Acquire        // requests to pools and seeds
	left     *lease.LeftBehind      // reported to the pool
	refuse   *protocol.Failure      // the pool's answer instead of a grant
	mute     bool                   // the pool does not answer at all
	seedSays []poolAnswer           // the seed's answers in order, instead of grants; a zero answer is a grant
	answers  []poolAnswer           // the pool's first answers, instead of grants
	hosts    []string               // hosts that are granted, in this order; the last one repeats
	checks   []func()               // checks that run at the end of the test
	steps    int                    // steps that at registered and that did not run yet
	sent     int                    // updates sent
	every    time.Duration          // how often conditions are polled, by the environment's clock

	onAcquire func(to string) // called with the workflow that is asked for a lease
	children  []session.Input // sessions that the session started
}

// poolAnswer is what a pool answers to a request, or the error if the pool cannot
// be asked.
type poolAnswer struct {
	lease.Granted
	err error
}

// takes and refuses check, at the end, how an update was answered.
func (w *world) takes(u *updated) {
	w.checks = append(w.checks, func() {
		if !u.accepted || u.rejected != nil || u.err != nil {
			w.t.Errorf("update %.200v was answered %.300v, want it taken", u.arg, u)
		}
	})
}

func (w *world) refuses(u *updated, kind string) {
	w.checks = append(w.checks, func() {
		var app *temporal.ApplicationError
		if u.accepted || !errors.As(u.rejected, &app) || app.Type() != kind {
			w.t.Errorf("update %.200v was answered %.300v, want a refusal of type %s", u.arg, u.rejected, kind)
		}
	})
}

func (w *world) verify() {
	if w.steps > 0 {
		w.t.Errorf("the workflow ended (%v) before %d steps of the test", w.GetWorkflowError(), w.steps)
	}
	for _, c := range w.checks {
		c()
	}
}

func newWorld(t *testing.T) *world { return newWorldWith(t, kit.Usual) }

func newWorldWith(t *testing.T, every kit.Intervals) *world {
	w := &world{environment: newEnvironment(), t: t, fake: &fakeSessions{t: t}}
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.SessionID("s1")})
	w.RegisterActivity(w.fake)
	run := session.Run(every)
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, in session.Input) (protocol.SessionView, error) {
		if workflow.GetInfo(ctx).ParentWorkflowExecution != nil {
			w.children = append(w.children, in)
			return protocol.SessionView{ID: in.ID}, nil
		}
		return run(ctx, in)
	}, workflow.RegisterOptions{Name: protocol.TypeSession})
	answer := func(_ string, id, _, name string, arg any) error { return w.external(id, name, arg) }
	w.OnSignalExternalWorkflow(anyArg, anyArg, anyArg, anyArg, anyArg).Return(answer)
	return w
}

// external answers for pools and seeds.
func (w *world) external(id, name string, arg any) error {
	switch name {
	case lease.SignalAcquire:
		w.asked = append(w.asked, arg.(lease.Acquire))
		if w.onAcquire != nil {
			w.onAcquire(id)
		}
		g := lease.Granted{From: id, Epoch: 1}
		var next *poolAnswer
		if len(w.answers) > 0 && id == protocol.PoolID("") {
			next, w.answers = &w.answers[0], w.answers[1:]
		}
		if len(w.seedSays) > 0 && strings.HasPrefix(id, protocol.SeedID("")) {
			if w.seedSays[0].err != nil || w.seedSays[0].Refused != nil || w.seedSays[0].Queued != "" {
				next = &w.seedSays[0]
			}
			w.seedSays = w.seedSays[1:]
		}
		switch {
		case w.mute:
			return nil
		case next != nil && next.err != nil:
			return next.err
		case next != nil:
			g = next.Granted
			g.From = id
		case w.refuse != nil:
			g.Refused = w.refuse
		case id == protocol.PoolID(""):
			g.Spec = &protocol.HostSpec{Name: w.host(arg.(lease.Acquire)), Address: "192.0.2.1"}
		case id == protocol.SeedPoolID("logins"):
			g.From, g.Pool = protocol.SeedID("team"), "logins" // one of the pool's seeds answers
			fallthrough
		default:
			g.Seed = &protocol.SeedRef{Name: "team", Generation: 3, Blob: "b", Digest: "d", Kind: cmp.Or(w.kind, "api_key"), Epoch: 7}
			if w.seedNow != nil {
				g.Seed = w.seedNow
			}
			g.Amend, g.Policy, g.Bounds, g.Credentials = w.amend, w.judges, w.bounds, w.way
		}
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(lease.SignalLease, g) }, time.Millisecond)
	case lease.SignalLook:
		g := lease.Granted{Free: "other"}
		if len(w.looks) > 0 {
			g, w.looks = w.looks[0], w.looks[1:]
		}
		g.From = cmp.Or(g.From, id)
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(lease.SignalLease, g) }, time.Millisecond)
	case lease.SignalRelease:
		w.released = append(w.released, id)
		w.back = append(w.back, arg.(lease.Release))
		if l := arg.(lease.Release).Left; l != nil {
			w.left = l
		}
	case protocol.SignalSessionEnded:
		w.ended = append(w.ended, arg.(protocol.SessionEnded))
	case lease.SignalHolds:
		w.held = append(w.held, arg.(lease.Holds))
	case lease.SignalReport:
		w.reports = append(w.reports, arg.(lease.Report))
	default:
		w.t.Errorf("signal %s to %s was not expected", name, id)
	}
	return nil
}

func (w *world) host(a lease.Acquire) string {
	switch {
	case a.Host != "":
		return a.Host
	case len(w.hosts) > 1:
		defer func() { w.hosts = w.hosts[1:] }()
		return w.hosts[0]
	case len(w.hosts) == 1:
		return w.hosts[0]
	}
	return "web-1"
}

// start runs the session to its end. Steps run at their times meanwhile.
func (w *world) start(opt session.Options) {
	w.t.Helper()
	w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: opt})
	if !w.IsWorkflowCompleted() {
		w.t.Fatal("the session did not end")
	}
	w.verify()
}

// fill makes the history long enough for a rollover.
func (w *world) fill() {
	w.SetCurrentHistoryLength(5000)
	w.SetContinueAsNewSuggested(true)
}

func (w *world) continued() *temporalContinue {
	w.t.Helper()
	var again *temporalContinue
	if !errors.As(w.GetWorkflowError(), &again) {
		w.t.Fatalf("the session ended with %v and did not continue as new", w.GetWorkflowError())
	}
	return again
}

func typeOf(err error) string {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return ""
	}
	return app.Type()
}

func (w *world) view() protocol.SessionView {
	w.t.Helper()
	return query[protocol.SessionView](w, protocol.QueryState)
}

func query[T any](w *world, name string, args ...any) T {
	w.t.Helper()
	var out T
	v, err := w.QueryWorkflow(name, args...)
	if err == nil {
		err = v.Get(&out)
	}
	if err != nil {
		w.t.Errorf("query %s: %v", name, err)
	}
	return out
}

type updated struct {
	arg      any
	rejected error
	accepted bool
	err      error
	result   any
}

func (u *updated) Accept()                     { u.accepted = true }
func (u *updated) Reject(err error)            { u.rejected = err }
func (u *updated) Complete(res any, err error) { u.result, u.err = res, err }

// send delivers an update and returns the place for its answer.
func (w *world) send(name string, arg any) *updated {
	u := &updated{arg: arg}
	w.sent++ // an address could be reused, and each update needs its own id
	w.UpdateWorkflow(name, fmt.Sprintf("u%d", w.sent), u, arg)
	return u
}

// at runs a step of the test after d. The workflow must not end before.
func (w *world) at(d time.Duration, f func()) {
	w.steps++
	w.RegisterDelayedCallback(func() { w.run(f) }, d)
}

// run runs a step. The step is done when the workflow has received all that it sent.
func (w *world) run(f func()) {
	w.steps--
	if w.fake != nil {
		w.fake.step.begin()
		defer w.TestWorkflowEnvironment.RegisterDelayedCallback(w.fake.step.end, 0) // comes after all that f sends
	}
	f()
}

// once runs a step as soon as a condition is met. A fixed time would not be reliable,
// because activities run in real time beside the environment's clock.
func (w *world) once(what string, cond func() bool, f func()) {
	w.steps++
	var begun, end time.Time
	var look func()
	look = func() {
		switch {
		case end.IsZero():
			begun, end = w.Now(), time.Now().Add(patience)
		case time.Now().After(end): // nothing else would end the polling
			w.t.Errorf("gave up waiting until %s: %+v", what, w.view())
			w.CancelWorkflow()
			return
		}
		if !cond() {
			// While no activity runs, the clock jumps from one look to the next. The
			// interval grows, so that hours of that clock do not need a look for each
			// hundredth of a second.
			w.RegisterDelayedCallback(look, max(w.every, 10*time.Millisecond, min(w.Now().Sub(begun)/100, time.Second)))
			return
		}
		w.run(f)
	}
	w.RegisterDelayedCallback(look, 60*time.Millisecond)
}

// when runs a step as soon as the session is in a state.
func (w *world) when(state protocol.SessionStatus, f func()) {
	w.once("the session is "+string(state), func() bool { return w.view().State == state }, f)
}

// attached runs a step as soon as the n-th pump has begun.
func (w *world) attached(n int, f func()) {
	w.once(fmt.Sprintf("pump %d is attached", n), func() bool {
		w.fake.mu.Lock()
		defer w.fake.mu.Unlock()
		return len(w.fake.ran) == n
	}, f)
}

// whenTurn runs a step as soon as a turn has ended with that status.
func (w *world) whenTurn(n int, status string, f func()) {
	w.once(fmt.Sprintf("turn %d is %s", n, status), func() bool {
		for _, turn := range query[protocol.SessionDetail](w, protocol.QueryDetail).Turns {
			if turn.N == n && turn.Status == status {
				return true
			}
		}
		return false
	}, f)
}

// Answers of pumps.

func opened(in pumps.RunPumpInput) conversation.PumpState {
	st := in.Pump.State
	st.Opened, st.ThreadID = st.Cursor.Incarnation, "thread-1"
	st.Cursor.Offset += 100
	st.Seq += int64(len(in.Pump.Notes)) + 3
	return st
}

func acked(in pumps.RunPumpInput) []protocol.Delivery {
	var out []protocol.Delivery
	for _, s := range in.Pump.Sends {
		out = append(out, protocol.Delivery{ID: s.ID, State: protocol.Acknowledged})
	}
	return out
}

func endsTurn(status, text string) func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := opened(in)
		st.TurnID = ""
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TurnEnded, State: st,
			Deliveries: acked(in), Turn: &conversation.TurnEnd{N: in.Pump.State.Turn, ID: "turn-1", Status: status, FinalText: text, Items: 2}}}, nil
	}
}

func asks(commands ...string) func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := opened(in)
		st.TurnID = "turn-1"
		var reqs []protocol.Request
		for i, c := range commands {
			reqs = append(reqs, protocol.Request{RPC: json.RawMessage(fmt.Sprint(i)), Incarnation: st.Cursor.Incarnation,
				Kind: protocol.KindCommand, Command: c, Summary: c, Digest: "digest of " + c,
				Offered: []string{"accept", "accept_for_session", "decline", "cancel"}})
		}
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.RequestsOpen, State: st, Deliveries: acked(in), Requests: reqs}}, nil
	}
}

// staysAttached returns only when the workflow cancels the pump.
func staysAttached(deliver protocol.DeliveryState) func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		<-ctx.Done()
		st := opened(in)
		st.TurnID = "turn-1"
		var ds []protocol.Delivery
		for _, s := range in.Pump.Sends {
			ds = append(ds, protocol.Delivery{ID: s.ID, State: deliver})
		}
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.PumpCancelled, State: st, Deliveries: ds}}, nil
	}
}

func dies(state protocol.DeliveryState, opens bool) func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := in.Pump.State
		if opens {
			st = opened(in)
		}
		var ds []protocol.Delivery
		for _, s := range in.Pump.Sends {
			ds = append(ds, protocol.Delivery{ID: s.ID, State: state})
		}
		return pumps.RunPumpResult{Process: &pumps.ProcessGone{State: "exited", Code: 137},
			Pump: conversation.PumpResult{Reason: conversation.ProcessEnded, State: st, Deliveries: ds}}, nil
	}
}

// refuses returns a pump whose codex refuses to go on with the session. Its
// messages have reached the given state.
func refuses(kind string, state protocol.DeliveryState) func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		ds := acked(in)
		for i := range ds {
			ds[i].State = state
		}
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.Refused, State: in.Pump.State, Deliveries: ds,
			Problem: &protocol.Problem{Kind: kind, Message: "codex will not"}}}, nil
	}
}
