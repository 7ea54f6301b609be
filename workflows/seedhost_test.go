package workflows

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// fakeLogins is a host on which somebody may log in.
type fakeLogins struct {
	mu     sync.Mutex
	did    []string
	exit   int   // codex's
	refuse error // of the seed
}

func (f *fakeLogins) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, what)
}

func (f *fakeLogins) MakeLogin(context.Context, activities.LoginInput) (activities.MakeLoginResult, error) {
	f.note("make")
	return activities.MakeLoginResult{Home: "/r/logins/l/codex-home", Argv: []string{"codex", "login"}}, nil
}

func (f *fakeLogins) RunExec(context.Context, activities.ExecInput) (activities.ExecResult, error) {
	f.note("run")
	return activities.ExecResult{State: "exited", Code: f.exit}, nil
}

func (f *fakeLogins) CaptureSeed(_ context.Context, in activities.CaptureSeedInput) (activities.CaptureSeedResult, error) {
	f.note("capture " + in.Home)
	return activities.CaptureSeedResult{Home: in.Home, Ref: activities.SeedRef{Name: in.Name, Blob: "b", Digest: "d", Kind: "chatgpt"}, Auth: "a"}, nil
}

func (f *fakeLogins) PutSeed(context.Context, activities.PutSeedInput) error {
	f.note("put")
	return f.refuse
}

func (f *fakeLogins) RemoveLogin(context.Context, activities.LoginInput) error {
	f.note("remove")
	return nil
}

// Whatever comes of a login, nothing of it stays on the host, and it is removed
// there only after it was kept or given up.
func TestALoginIsRemovedFromItsHostHoweverItEnds(t *testing.T) {
	for name, c := range map[string]struct {
		exit   int
		refuse error
		late   bool
		did    string
		fails  string
	}{
		"logged in":        {did: "make, run, capture /r/logins/l/codex-home, put, remove"},
		"denied":           {exit: 1, did: "make, run, remove", fails: "codex did not log in"},
		"the seed is held": {refuse: temporal.NewNonRetryableApplicationError("seed team is held by a", RefusedState, nil), did: "make, run, capture /r/logins/l/codex-home, put, remove", fails: "held by a"},
		"nobody came":      {late: true, did: "make, remove", fails: "nobody entered the code in time"},
	} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.SetTestTimeout(20 * time.Second)
			f := &fakeLogins{exit: c.exit, refuse: c.refuse}
			env.RegisterActivity(f)
			env.RegisterWorkflowWithOptions(LoginSeed, workflow.RegisterOptions{Name: TypeLogin})
			if c.late {
				// codex waits for the code longer than anybody does.
				env.OnActivity("RunExec", anyArg, anyArg).After(2*time.Hour).Return(activities.ExecResult{}, temporal.NewCanceledError())
			}
			env.ExecuteWorkflow(TypeLogin, LoginSeedInput{ID: "l", Name: "team", Host: activities.HostSpec{Name: "web-1"}})
			err := env.GetWorkflowError()
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("it ended with %v, want %q", err, c.fails)
			}
			if got := strings.Join(slices.Clone(f.did), ", "); got != c.did {
				t.Errorf("did %s, want %s", got, c.did)
			}
		})
	}
}
