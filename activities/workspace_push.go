package activities

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"go.temporal.io/sdk/activity"
)

// WorkActs are the activities on the content of a work folder.
type WorkActs struct{ site *site }

// NewWorkActs makes the activities of a worker.
func NewWorkActs(s *site) *WorkActs { return &WorkActs{site: s} }

var (
	//go:embed workspace_git.sh
	gitScript string
	//go:embed workspace_push.sh
	pushScript string
)

// PushWorkspaceInput is the input of PushWorkspace.
type PushWorkspaceInput struct {
	Claim   protocol.Claim    `json:"claim"`
	Layout  protocol.Layout   `json:"layout"`
	Seed    *protocol.SeedRef `json:"seed,omitempty"`
	Repo    Repo              `json:"repo"`
	ID      string            `json:"id"` // id of the request; a repeated activity finds the process by it
	Branch  string            `json:"branch"`
	Message string            `json:"message,omitempty"`
	By      string            `json:"by,omitempty"`
}

// PushWorkspaceResult has the commit that the branch names now.
type PushWorkspaceResult struct {
	Commit string `json:"commit"`
	Branch string `json:"branch"`
	// Already says that the branch had the commit before, so that nothing was pushed.
	Already bool `json:"already,omitempty"`
}

var pushID = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// PushWorkspace runs git as a journaled process. If it is not known how git ended, git
// runs a second time and finds at the branch whether the first run pushed. The branch is
// never forced.
func (s *WorkActs) PushWorkspace(ctx context.Context, in PushWorkspaceInput) (PushWorkspaceResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	f := failing{epoch: epochOf(in.Claim, attempt)}
	what := "push the work of session " + in.Claim.Session
	hide, err := hidingIn(ctx, s.site, in.Claim, in.Seed)
	if err != nil {
		return PushWorkspaceResult{}, f.failure(ctx, what, err)
	}
	token, err := gitToken(ctx, s.site, in.Claim.Session, &in.Repo)
	if err != nil {
		return PushWorkspaceResult{}, f.failure(ctx, what, err)
	}
	f.hide = hide.knowing(token).all
	_, quiet := reportProgress(ctx)
	defer quiet()
	out, err := pushWork(ctx, s.site, in, token, attempt, activity.GetWorkerStopChannel(ctx))
	return out, f.failure(ctx, what, err)
}

func pushWork(ctx context.Context, s *site, in PushWorkspaceInput, token string, attempt int32, stop <-chan struct{}) (PushWorkspaceResult, error) {
	out := PushWorkspaceResult{Branch: in.Branch}
	if err := checkLayout(in.Layout, in.Claim.Session); err != nil {
		return out, err
	}
	if err := CheckRef(in.Branch); err != nil {
		return out, badInput("branch: %w", err)
	}
	if !pushID.MatchString(in.ID) {
		return out, badInput("push %q: its id is none", in.ID)
	}
	h, err := s.host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	j := workspaceJob(s, h, in.Layout, in.Claim, attempt, stop)
	j.name, j.script, j.dir, j.limit = "push."+in.ID, gitScript+pushScript, in.Layout.Dir, CloneTimeout
	with, known := "n", ""
	if token != "" {
		with, j.secret = "y", []byte(token+"\n")
	}
	if in.Repo.KnownHosts != "" {
		known = path.Join(workspaceDir(in.Layout), "known_hosts")
	}
	work, err := realPath(ctx, h, in.Layout.WorkDir)
	if err != nil {
		return out, err
	}
	message := cmp.Or(in.Message, "Work of session "+in.Claim.Session)
	j.args = []string{"push", work, path.Join(workspaceDir(in.Layout), j.name), "", "", in.Repo.URL, in.Branch, in.Claim.Session, with,
		cmp.Or(in.Repo.User, "x-access-token"), serverOf(in.Repo.URL), known, message, in.By}
	back, err := lend(ctx, s, &j, in.Repo)
	if err != nil {
		return out, err
	}
	defer back()
	for try := 0; ; try++ {
		end, err := j.run(ctx)
		if err != nil && ctx.Err() != nil && !stillGoing(ctx, err) {
			// The activity was cancelled, so git must not push later what it has not
			// pushed yet.
			actx, cancel := afterwards(ctx)
			defer cancel()
			eerr := j.end(actx)
			if eerr == nil {
				eerr = j.forget(actx)
			}
			err = errors.Join(err, eerr)
		}
		if err != nil {
			return out, err
		}
		if !end.ok() && end.State != process.Exited && !end.Late && try == 0 {
			if err := j.forget(ctx); err != nil {
				return out, err
			}
			continue
		}
		if err := j.forget(ctx); err != nil {
			return out, err
		}
		return pushed(out, h.Name(), in.Repo, end)
	}
}

func pushed(out PushWorkspaceResult, host string, r Repo, end jobEnd) (PushWorkspaceResult, error) {
	for line := range strings.Lines(end.Output) {
		word, commit, _ := strings.Cut(strings.TrimSpace(line), " ")
		if end.ok() && (word == "fairlead-pushed" || word == "fairlead-already") {
			out.Commit, out.Already = commit, word == "fairlead-already"
		}
	}
	if out.Commit != "" {
		return out, nil
	}
	e := cannotClone(host, r, end).(*typedError)
	why := lastLines(end.Output, 1<<10)
	switch {
	case strings.Contains(why, "[rejected]") || strings.Contains(why, "fetch first") || strings.Contains(why, "non-fast-forward"):
		e.hint = "the branch has what this session does not know of; nothing is forced: choose another --branch"
	case end.Late:
		why = fmt.Sprintf("%v: %s", errJobLate, why)
		e.hint = "it may have been pushed all the same; push again, which finds that out"
	case end.State != process.Exited:
		why = "nobody knows how it ended"
		e.kind, e.hint = protocol.ErrTypeOutcomeUnknown, "push again, which finds out whether it was pushed"
	}
	e.err = fmt.Errorf("push to %s of %s from %s: %s", out.Branch, r.URL, host, why)
	return out, e
}
