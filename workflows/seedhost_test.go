package workflows

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
)

type fakeLogins struct {
	mu     sync.Mutex
	did    []string
	exit   int     // the exit code of codex
	refuse []error // the seed's answers, in order; the last one repeats
	broken error   // the error of CaptureSeed
	stays  error   // the error of ForgetLogin
	kind   string
}

func (f *fakeLogins) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, what)
}

func (f *fakeLogins) MakeLogin(context.Context, logins.LoginInput) (logins.MakeLoginResult, error) {
	f.note("make")
	return logins.MakeLoginResult{Home: "/r/logins/l/codex-home", Argv: []string{"codex", "login"}}, nil
}

func (f *fakeLogins) RunExec(context.Context, protocol.ExecInput) (protocol.ExecResult, error) {
	f.note("run")
	return protocol.ExecResult{State: "exited", Code: f.exit}, nil
}

func (f *fakeLogins) CaptureSeed(_ context.Context, in logins.CaptureSeedInput) (logins.CaptureSeedResult, error) {
	f.note("capture " + in.Home)
	kind := f.kind
	if kind == "" {
		kind = "chatgpt"
	}
	return logins.CaptureSeedResult{Home: in.Home, Ref: protocol.SeedRef{Name: in.Name, Blob: "b", Digest: "d", Kind: kind}, Auth: "a"}, f.broken
}

func (f *fakeLogins) PutSeed(_ context.Context, in overseer.PutSeedInput) error {
	switch {
	case in.Ask:
		f.note("ask")
	case in.Moved:
		f.note("put as moved")
	case in.Elsewhere != "":
		f.note("put, still in " + in.Elsewhere)
	default:
		f.note("put")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.refuse) == 0 {
		return nil
	}
	err := f.refuse[0]
	if len(f.refuse) > 1 {
		f.refuse = f.refuse[1:]
	}
	return err
}

func (f *fakeLogins) ForgetLogin(context.Context, logins.ForgetLoginInput) error {
	f.note("forget")
	return f.stays
}

func (f *fakeLogins) RemoveLogin(context.Context, logins.LoginInput) error {
	f.note("remove")
	return nil
}

func (f *fakeLogins) world(t *testing.T) *environment {
	env := newEnvironment()
	env.RegisterActivity(f)
	env.RegisterWorkflowWithOptions(seed.LoginSeed, workflow.RegisterOptions{Name: protocol.TypeLogin})
	env.RegisterWorkflowWithOptions(seed.CaptureSeed, workflow.RegisterOptions{Name: protocol.TypeCapture})
	return env
}

func (f *fakeLogins) have(t *testing.T, want string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := strings.Join(f.did, ", "); got != want {
		t.Errorf("did %s, want %s", got, want)
	}
}

func ends(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("it ended with %v, want %q", err, want)
	}
}

// Until the seed has a new login, the login exists only on its host. It is removed from the
// host when the seed has it or when it was given up. Nobody is asked for a code if the seed
// would refuse the login.
func TestALoginIsRemovedFromItsHostOnceItIsKeptOrGivenUp(t *testing.T) {
	held := temporal.NewNonRetryableApplicationError("seed team is held by a", protocol.RefusedState, nil)
	torn := temporal.NewNonRetryableApplicationError("auth.json is malformed", protocol.ErrTypeBadInput, nil)
	const capture = "ask, make, run, capture /r/logins/l/codex-home"
	for name, c := range map[string]struct {
		f      *fakeLogins
		late   bool
		cancel bool
		did    string
		fails  string
	}{
		"logged in":               {did: capture + ", put, remove"},
		"denied":                  {f: &fakeLogins{exit: 1}, did: "ask, make, run, remove", fails: "codex did not log in"},
		"the seed is held":        {f: &fakeLogins{refuse: []error{held}}, did: "ask", fails: "held by a"},
		"it is taken since":       {f: &fakeLogins{refuse: []error{nil, held}}, did: capture + strings.Repeat(", put", seed.PutTries), fails: "stays in /r/logins/l/codex-home on web-1"},
		"it was taken for long":   {f: &fakeLogins{refuse: []error{nil, held, held, nil}}, did: capture + ", put, put, put, remove"},
		"it cannot be kept":       {f: &fakeLogins{broken: torn}, did: capture, fails: "auth.json is malformed; the new login stays in /r/logins/l/codex-home on web-1"},
		"it is given up, not put": {f: &fakeLogins{refuse: []error{nil, held}}, cancel: true, did: capture + ", put, put, remove", fails: "canceled"},
		"nobody came":             {late: true, did: "ask, make, remove", fails: "nobody entered the code in time"},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.f
			if f == nil {
				f = &fakeLogins{}
			}
			env := f.world(t)
			if c.late {
				// codex waits longer for the code than LoginSeed does.
				env.OnActivity("RunExec", anyArg, anyArg).After(2*time.Hour).Return(protocol.ExecResult{}, temporal.NewCanceledError())
			}
			if c.cancel {
				env.RegisterDelayedCallback(env.CancelWorkflow, seed.PutAgain+seed.PutAgain/2)
			}
			env.ExecuteWorkflow(protocol.TypeLogin, seed.LoginSeedInput{ID: "l", Name: "team", Host: protocol.HostSpec{Name: "web-1"}})
			ends(t, env.GetWorkflowError(), c.fails)
			f.have(t, c.did)
			var o access.Object
			if v, err := env.QueryWorkflow(protocol.QueryObject); err != nil || v.Get(&o) != nil || o.Seed != "team" || o.Host != "web-1" {
				t.Errorf("it says of itself %+v, %v", o, err)
			}
		})
	}
}

// If a rotating login was captured and is still on its host, it has two holders.
func TestACapturedLoginIsGivenOnlyWhenItIsNowhereElse(t *testing.T) {
	changed := temporal.NewNonRetryableApplicationError("it has changed", protocol.ErrTypeBadInput, nil)
	held := temporal.NewNonRetryableApplicationError("team has another login by now", protocol.RefusedState, nil)
	const put = "capture /h, put, still in /h on web-1"
	for name, c := range map[string]struct {
		f              *fakeLogins
		move           bool
		did            string
		moved, rotates bool
		problem        string
	}{
		"copied":            {did: put, rotates: true},
		"moved":             {move: true, did: put + ", forget, put as moved", moved: true},
		"not moved":         {f: &fakeLogins{stays: changed}, move: true, did: put + ", forget", rotates: true, problem: "it has changed"},
		"moved, replaced":   {f: &fakeLogins{refuse: []error{nil, held}}, move: true, did: put + ", forget, put as moved", moved: true, problem: "another login by now"},
		"a key that copies": {f: &fakeLogins{kind: "api_key"}, did: "capture /h, put"},
		"a key that moves":  {f: &fakeLogins{kind: "api_key"}, move: true, did: "capture /h, put, forget", moved: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.f
			if f == nil {
				f = &fakeLogins{}
			}
			env := f.world(t)
			env.ExecuteWorkflow(protocol.TypeCapture, seed.CaptureSeedInput{Name: "team", Host: protocol.HostSpec{Name: "web-1"}, Home: "/h", Move: c.move})
			var out seed.CaptureSeedResult
			if err := env.GetWorkflowResult(&out); err != nil {
				t.Fatal(err)
			}
			if out.Moved != c.moved || out.StaysRotating != c.rotates || (out.Problem != nil) != (c.problem != "") ||
				out.Problem != nil && !strings.Contains(out.Problem.Message, c.problem) {
				t.Errorf("it ended with %+v, %+v", out, out.Problem)
			}
			f.have(t, c.did)
		})
	}
}

// This test checks the seed's part in the same case.
func TestASeedThatIsElsewhereWaitsUntilItIsMoved(t *testing.T) {
	p := newPoolWorld(t)
	elsewhere := login("1")
	elsewhere.Elsewhere = "/h on web-1"
	moved := login("1")
	moved.Moved = true
	p.at(0, func() { p.refuses(p.send(protocol.UpdatePutSeed, moved), protocol.RefusedState) })
	p.at(time.Second, func() { p.takes(p.send(protocol.UpdatePutSeed, elsewhere)) })
	p.at(2*time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, on("a", "web-1", 100)) })
	p.at(3*time.Second, func() {
		if v := p.seed(); v.Health != protocol.Suspect || !strings.Contains(v.Reason, "still in /h on web-1") || !strings.Contains(v.Hint, "--move") || len(v.HeldBy) != 0 {
			t.Errorf("seed is %+v", v)
		}
		other := moved
		other.Ref.Blob = "b9"
		p.refuses(p.send(protocol.UpdatePutSeed, other), protocol.RefusedState)
		p.takes(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ask: true, Ref: protocol.SeedRef{Kind: "chatgpt"}}))
	})
	p.at(4*time.Second, func() { p.takes(p.send(protocol.UpdatePutSeed, moved)) })
	p.at(5*time.Second, func() {
		if v := p.seed(); v.Health == protocol.Suspect || v.Generation != 1 || !slices.Equal(v.HeldBy, []string{"a"}) {
			t.Errorf("seed is %+v", v)
		}
		p.refuses(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ask: true, Ref: protocol.SeedRef{Kind: "chatgpt"}}), protocol.RefusedState)
		p.takes(p.send(protocol.UpdatePutSeed, moved)) // the same update again
	})
	p.runSeed(6 * time.Second)
}
