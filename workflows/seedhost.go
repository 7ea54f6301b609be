package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// Seeds that come from hosts: a login that is there already, and one that a
// person makes there, with a browser elsewhere.

// CaptureSeedInput names the seed and where its login is.
type CaptureSeedInput struct {
	Name string              `json:"name"`
	Zone string              `json:"zone,omitempty"`
	Host activities.HostSpec `json:"host"`
	Home string              `json:"home,omitempty"` // CODEX_HOME there; empty is the user's own
	Move bool                `json:"move,omitempty"` // remove the login there once it is kept
	By   string              `json:"by,omitempty"`
}

// CaptureSeedResult says what was taken, and what is left there.
type CaptureSeedResult struct {
	Name    string     `json:"name"`
	Kind    string     `json:"kind"`
	Home    string     `json:"home"`
	Files   []SeedFile `json:"files"`
	Ignored []string   `json:"ignored,omitempty"`
	// Moved says that the login is gone from where it was. StaysRotating says
	// that a login that rotates has two holders now.
	Moved         bool `json:"moved"`
	StaysRotating bool `json:"stays_rotating,omitempty"`
	// Problem is what kept the login from being moved.
	Problem *Failure `json:"problem,omitempty"`
}

// CaptureSeed takes a login from a host's CODEX_HOME.
func CaptureSeed(ctx workflow.Context, in CaptureSeedInput) (CaptureSeedResult, error) {
	out, got, err := takeLogin(ctx, in)
	if err != nil || !in.Move || got.Auth == "" {
		out.StaysRotating = err == nil && rotates(got.Ref.Kind)
		return out, err
	}
	err = workflow.ExecuteActivity(setUp(ctx, "remove the login from "+in.Host.Name), hosts.ForgetLogin,
		activities.ForgetLoginInput{Host: in.Host, Home: got.Home, Auth: got.Auth}).Get(ctx, nil)
	if err != nil {
		out.Problem, out.StaysRotating = failureOf("move the login", err), rotates(got.Ref.Kind)
		return out, nil
	}
	out.Moved = true
	return out, nil
}

// takeLogin has a CODEX_HOME in the store, and makes a seed of it.
func takeLogin(ctx workflow.Context, in CaptureSeedInput) (CaptureSeedResult, activities.CaptureSeedResult, error) {
	out := CaptureSeedResult{Name: in.Name}
	got, err := do(setUp(ctx, "capture seed "+in.Name), hosts.CaptureSeed, activities.CaptureSeedInput{Name: in.Name, Host: in.Host, Home: in.Home})
	if err != nil {
		return out, got, err
	}
	out.Kind, out.Home, out.Files, out.Ignored = got.Ref.Kind, got.Home, got.Files, got.Ignored
	err = workflow.ExecuteActivity(setUp(ctx, "put seed "+in.Name), engine.PutSeed,
		activities.PutSeedInput{Name: in.Name, Ref: got.Ref, Files: got.Files, By: in.By}).Get(ctx, nil)
	return out, got, err
}

// LoginSeedInput names the seed, and the host on which somebody logs in.
type LoginSeedInput struct {
	ID   string              `json:"id"` // of the login; its output is that of an exec of this id
	Name string              `json:"name"`
	Host activities.HostSpec `json:"host"`
	By   string              `json:"by,omitempty"`
}

// loginTime is how long somebody may take to enter the code: codex's own 15
// minutes, and a little more, so that codex says so itself.
const loginTime = 16 * time.Minute

// LoginSeed has a person log in with a code, by the host's codex in a folder of
// its own, takes the login into a seed and removes it there. Cancelled or not,
// nothing of it stays on the host.
func LoginSeed(ctx workflow.Context, in LoginSeedInput) (CaptureSeedResult, error) {
	login := activities.LoginInput{ID: in.ID, Host: in.Host}
	out, err := loginOn(ctx, in, login)
	last, _ := workflow.NewDisconnectedContext(ctx)
	gone := workflow.ExecuteActivity(untilDone(last, "remove the login from "+in.Host.Name), hosts.RemoveLogin, login).Get(last, nil)
	if err == nil {
		out.Moved, err = gone == nil, gone
	}
	return out, err
}

func loginOn(ctx workflow.Context, in LoginSeedInput, login activities.LoginInput) (CaptureSeedResult, error) {
	how, err := do(setUp(ctx, "prepare a login on "+in.Host.Name), hosts.MakeLogin, login)
	if err != nil {
		return CaptureSeedResult{}, err
	}
	ended, err := execWithin(ctx, loginTime, activities.ExecInput{ID: in.ID, Host: in.Host, Argv: how.Argv})
	switch {
	case err != nil:
		return CaptureSeedResult{}, err
	case ended == nil:
		return CaptureSeedResult{}, temporal.NewNonRetryableApplicationError("nobody entered the code in time", "timeout", nil,
			activities.Problem{Kind: "timeout", Message: "nobody entered the code in time", Hint: "try again: `ctl seed login " + in.Name + " --host " + in.Host.Name + "`"})
	case ended.State != "exited" || ended.Code != 0:
		return CaptureSeedResult{}, temporal.NewNonRetryableApplicationError("codex did not log in", "login_failed", nil,
			activities.Problem{Kind: "login_failed", Message: "codex did not log in", Hint: "see what it said above; codes can be switched off in the account's security settings"})
	}
	out, _, err := takeLogin(ctx, CaptureSeedInput{Name: in.Name, Host: in.Host, Home: how.Home, By: in.By})
	return out, err
}

// execWithin runs a command and ends it when it takes too long; nil then.
func execWithin(ctx workflow.Context, long time.Duration, in activities.ExecInput) (*activities.ExecResult, error) {
	bounded, cancel := workflow.WithCancel(ctx)
	defer cancel()
	fut := workflow.ExecuteActivity(once(bounded, "log in on "+in.Host.Name), hosts.RunExec, in)
	late := false
	workflow.NewSelector(ctx).
		AddFuture(fut, func(workflow.Future) {}).
		AddFuture(workflow.NewTimer(bounded, long), func(f workflow.Future) { late = f.Get(ctx, nil) == nil }).
		Select(ctx)
	if late {
		cancel()
	}
	var out activities.ExecResult
	err := fut.Get(ctx, &out)
	if late && temporal.IsCanceledError(err) && ctx.Err() == nil {
		return nil, nil
	}
	return &out, err
}
