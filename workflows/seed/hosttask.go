package seed

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// CaptureSeedInput names a seed and the place of its login.
type CaptureSeedInput struct {
	protocol.Commanded
	Name string            `json:"name"`
	Zone string            `json:"zone,omitempty"`
	Host protocol.HostSpec `json:"host"`
	Home string            `json:"home,omitempty"` // CODEX_HOME; empty means the user's own
	Move bool              `json:"move,omitempty"` // remove the login there once it is saved
	By   string            `json:"by,omitempty"`
}

// Concerns returns what the command is about, for conditions of the access file.
func (in CaptureSeedInput) Concerns() []protocol.Concern {
	return []protocol.Concern{{Host: in.Host.Name, Seed: in.Name, Machine: &in.Host}}
}

// CaptureSeedResult says what was taken, and what is left on the host.
type CaptureSeedResult struct {
	Name    string              `json:"name"`
	Kind    string              `json:"kind"`
	Home    string              `json:"home"`
	Files   []protocol.SeedFile `json:"files"`
	Ignored []string            `json:"ignored,omitempty"`
	// Moved says that the login is gone from the host. StaysRotating says that a login that
	// rotates may have two holders: nobody gets the seed until the login is moved, or a
	// person says that it is not used there.
	Moved         bool `json:"moved"`
	StaysRotating bool `json:"stays_rotating,omitempty"`
	// Problem is why the login was not moved, or the seed not told of the move.
	Problem *protocol.Failure `json:"problem,omitempty"`
}

// CaptureSeed takes a login from a host's CODEX_HOME. It removes the login there only once
// the seed has it.
func CaptureSeed(ctx workflow.Context, in CaptureSeedInput) (CaptureSeedResult, error) {
	out := CaptureSeedResult{Name: in.Name}
	got, err := kit.Do(kit.SetUp(ctx, "capture seed "+in.Name), loginJobs.CaptureSeed, logins.CaptureSeedInput{Name: in.Name, Host: in.Host, Home: in.Home})
	if err != nil {
		return out, err
	}
	out.took(got)
	put := overseer.PutSeedInput{Name: in.Name, Ref: got.Ref, Files: got.Files, Account: got.Account, By: in.By}
	if lease.Rotates(got.Ref.Kind) {
		put.Elsewhere = fmt.Sprintf("%s on %s", got.Home, in.Host.Name)
	}
	if err := putSeed(kit.SetUp(ctx, "put seed "+in.Name), put); err != nil {
		return out, err
	}
	out.StaysRotating = put.Elsewhere != ""
	if !in.Move || got.Auth == "" {
		return out, nil
	}
	err = workflow.ExecuteActivity(kit.SetUp(ctx, "remove the login from "+in.Host.Name), loginJobs.ForgetLogin,
		logins.ForgetLoginInput{Host: in.Host, Home: got.Home, Auth: got.Auth}).Get(ctx, nil)
	if err != nil {
		out.Problem = kit.FailureOf("move the login", err)
		return out, nil
	}
	out.Moved, out.StaysRotating = true, false
	if put.Elsewhere == "" {
		return out, nil
	}
	put.Elsewhere, put.Moved = "", true
	if err := putSeed(kit.UntilDone(ctx, "seed "+in.Name+" was moved"), put); err != nil {
		out.Problem = kit.FailureOf("the login is removed there, but the seed was not told", err)
		out.Problem.Hint = cmp.Or(out.Problem.Hint, fmt.Sprintf("`ctl seed revive %s` tells the seed", in.Name))
	}
	return out, nil
}

func (r *CaptureSeedResult) took(got logins.CaptureSeedResult) {
	r.Kind, r.Home, r.Files, r.Ignored = got.Ref.Kind, got.Home, got.Files, got.Ignored
}

func putSeed(ctx workflow.Context, in overseer.PutSeedInput) error {
	in.Judged = in.By != "" && in.By == authority.StartVerdict(ctx).Principal
	return workflow.ExecuteActivity(ctx, askJobs.PutSeed, in).Get(ctx, nil)
}

// LoginSeedInput names a seed and the host on which somebody logs in.
type LoginSeedInput struct {
	protocol.Commanded
	ID   string            `json:"id"` // of the login, and of the exec that shows its output
	Name string            `json:"name"`
	Host protocol.HostSpec `json:"host"`
	By   string            `json:"by,omitempty"`
}

// Concerns is as that of CaptureSeedInput.
func (in LoginSeedInput) Concerns() []protocol.Concern {
	return []protocol.Concern{{Host: in.Host.Name, Seed: in.Name, Machine: &in.Host}}
}

// loginTime is longer than codex's own 15 minutes, so that codex reports the timeout
// itself.
const loginTime = 16 * time.Minute

// A verification or a session that makes a seed refuse a login often ends soon.
const (
	PutAgain = 10 * time.Second
	PutTries = 6
)

// LoginSeed lets a person log in with a code, in a folder on a host that is used only for
// that, and takes the login into a seed. It asks first whether the seed would refuse it.
// The login is removed from the host only once the seed has it, or when the person gives it
// up.
func LoginSeed(ctx workflow.Context, in LoginSeedInput) (CaptureSeedResult, error) {
	out := CaptureSeedResult{Name: in.Name}
	err := workflow.SetQueryHandler(ctx, protocol.QueryObject, func() (access.Object, error) {
		return access.Object{Owner: in.By, Host: in.Host.Name, Seed: in.Name}, nil
	})
	if err != nil {
		return out, err
	}
	err = putSeed(kit.SetUp(ctx, "ask seed "+in.Name), overseer.PutSeedInput{Name: in.Name, Ask: true, By: in.By,
		Ref: protocol.SeedRef{Name: in.Name, Kind: "chatgpt"}})
	if err != nil {
		return out, err
	}
	login := logins.LoginInput{ID: in.ID, Host: in.Host}
	home, made, err := loginOn(ctx, in, login)
	if err == nil {
		out, err = keepLogin(ctx, in, home)
	}
	if err != nil && made && ctx.Err() == nil {
		return out, staysOn(in, home, err)
	}
	last, _ := workflow.NewDisconnectedContext(ctx)
	patience := kit.SetUp // codex was not started
	if home != "" {
		patience = kit.UntilDone
	}
	gone := workflow.ExecuteActivity(patience(last, "remove the login from "+in.Host.Name), loginJobs.RemoveLogin, login).Get(last, nil)
	if err == nil {
		out.Moved, err = gone == nil, gone
	}
	return out, err
}

// loginOn has codex log in. made means that a login may be in home.
func loginOn(ctx workflow.Context, in LoginSeedInput, login logins.LoginInput) (home string, made bool, err error) {
	how, err := kit.Do(kit.SetUp(ctx, "prepare a login on "+in.Host.Name), loginJobs.MakeLogin, login)
	if err != nil {
		return "", false, err
	}
	ended, err := execWithin(ctx, loginTime, protocol.ExecInput{ID: in.ID, Host: in.Host, Argv: how.Argv})
	switch {
	case err != nil:
		return how.Home, true, err
	case ended == nil:
		return how.Home, false, problem("timeout", "nobody entered the code in time", "try again: `ctl seed login "+in.Name+" --host "+in.Host.Name+"`")
	case ended.State != "exited" || ended.Code != 0:
		return how.Home, false, problem("login_failed", "codex did not log in", "see what it said above; codes can be switched off in the account's security settings")
	}
	return how.Home, true, nil
}

// keepLogin puts a login into the seed, however long the host and the store take.
func keepLogin(ctx workflow.Context, in LoginSeedInput, home string) (CaptureSeedResult, error) {
	out := CaptureSeedResult{Name: in.Name}
	got, err := kit.Do(kit.UntilDone(ctx, "capture seed "+in.Name), loginJobs.CaptureSeed, logins.CaptureSeedInput{Name: in.Name, Host: in.Host, Home: home})
	if err != nil {
		return out, err
	}
	out.took(got)
	for n := 1; ; n++ {
		err = putSeed(kit.UntilDone(ctx, "put seed "+in.Name), overseer.PutSeedInput{Name: in.Name, Ref: got.Ref, Files: got.Files, Account: got.Account, By: in.By})
		var refused *temporal.ApplicationError
		if !errors.As(err, &refused) || refused.Type() != protocol.RefusedState || n == PutTries {
			return out, err
		}
		if err := workflow.Sleep(ctx, PutAgain); err != nil {
			return out, err
		}
	}
}

// staysOn says where a login is that was not kept.
func staysOn(in LoginSeedInput, home string, err error) error {
	f := kit.FailureOf("keep the login", err)
	hint := fmt.Sprintf("fix that, then run `ctl seed capture %s --host %s --codex-home %s --move` (another seed name works, too)", in.Name, in.Host.Name, home)
	if f.Hint != "" {
		hint = f.Hint + "; " + hint
	}
	return problem(f.Kind, fmt.Sprintf("%s; the new login stays in %s on %s", f.Message, home, in.Host.Name), hint)
}

func problem(kind, message, hint string) error {
	return temporal.NewNonRetryableApplicationError(message, kind, nil, protocol.Problem{Kind: kind, Message: message, Hint: hint})
}

// execWithin returns nil for a command that took too long and was ended.
func execWithin(ctx workflow.Context, long time.Duration, in protocol.ExecInput) (*protocol.ExecResult, error) {
	bounded, cancel := workflow.WithCancel(ctx)
	defer cancel()
	fut := workflow.ExecuteActivity(kit.Once(bounded, "log in on "+in.Host.Name), hostJobs.RunExec, in)
	late := false
	workflow.NewSelector(ctx).
		AddFuture(fut, func(workflow.Future) {}).
		AddFuture(workflow.NewTimer(bounded, long), func(f workflow.Future) { late = f.Get(ctx, nil) == nil }).
		Select(ctx)
	if late {
		cancel()
	}
	var out protocol.ExecResult
	err := fut.Get(ctx, &out)
	if late && temporal.IsCanceledError(err) && ctx.Err() == nil {
		return nil, nil
	}
	return &out, err
}
