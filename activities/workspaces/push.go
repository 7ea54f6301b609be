package workspaces

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
)

// Activities act on the content of work folders.
type Activities struct{ Site *site.Site }

// New makes the activities of a worker.
func New(s *site.Site) *Activities { return &Activities{Site: s} }

var (
	//go:embed git.sh
	gitScript string
	//go:embed push.sh
	pushScript string
)

// PushWorkspaceInput is the input of PushWorkspace.
type PushWorkspaceInput struct {
	Claim   protocol.Claim    `json:"claim"`
	Layout  protocol.Layout   `json:"layout"`
	Seed    *protocol.SeedRef `json:"seed,omitempty"`
	Repo    Repo              `json:"repo"`
	ID      string            `json:"id"` // of the request; a repeat finds the process by it
	Branch  string            `json:"branch"`
	Message string            `json:"message,omitempty"`
	By      string            `json:"by,omitempty"`
}

// PushWorkspaceResult has the branch's commit.
type PushWorkspaceResult struct {
	Commit string `json:"commit"`
	Branch string `json:"branch"`
	// Already says that the branch had the commit.
	Already bool `json:"already,omitempty"`
	// Refused is what the host asked a lent agent for in vain.
	Refused []string `json:"refused,omitempty"`
}

var pushID = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// PushWorkspace pushes without force. If nobody knows how git ended, git runs again and
// finds at the branch whether it pushed.
func (s *Activities) PushWorkspace(ctx context.Context, in PushWorkspaceInput) (PushWorkspaceResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	f := kit.Failing{Epoch: folder.EpochOf(in.Claim, attempt)}
	what := "push the work of session " + in.Claim.Session
	hide, err := site.HidingIn(ctx, s.Site, in.Claim, in.Seed)
	if err != nil {
		return PushWorkspaceResult{}, f.Failure(ctx, what, err)
	}
	token, err := gitToken(ctx, s.Site, in.Claim.Session, &in.Repo)
	if err != nil {
		return PushWorkspaceResult{}, f.Failure(ctx, what, err)
	}
	f.Hide = hide.Knowing(token).All
	_, quiet := kit.ReportProgress(ctx)
	defer quiet()
	out, err := PushWork(ctx, s.Site, in, token, attempt, activity.GetWorkerStopChannel(ctx))
	return out, f.Failure(ctx, what, err)
}

// PushWork does the activity's work.
func PushWork(ctx context.Context, s *site.Site, in PushWorkspaceInput, token string, attempt int32, stop <-chan struct{}) (PushWorkspaceResult, error) {
	out := PushWorkspaceResult{Branch: in.Branch}
	if err := folder.CheckLayout(in.Layout, in.Claim.Session); err != nil {
		return out, err
	}
	if err := CheckRef(in.Branch); err != nil {
		return out, kit.BadInput("branch: %w", err)
	}
	if !pushID.MatchString(in.ID) {
		return out, kit.BadInput("%q is not a valid push id: want 1 to 64 of a-z 0-9 -", in.ID)
	}
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	j := WorkspaceJob(s, h, in.Layout, in.Claim, attempt, stop)
	j.Name, j.script, j.dir, j.limit = "push."+in.ID, gitScript+pushScript, in.Layout.Dir, CloneTimeout
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
	j.args = []string{"push", work, path.Join(workspaceDir(in.Layout), j.Name), "", "", in.Repo.URL, in.Branch, in.Claim.Session, with,
		cmp.Or(in.Repo.User, "x-access-token"), serverOf(in.Repo.URL), known, message, in.By}
	agent, err := lend(ctx, s, &j, in.Repo)
	if err != nil {
		return out, err
	}
	defer agent.close()
	for try := 0; ; try++ {
		end, err := j.run(ctx)
		if err != nil && ctx.Err() != nil && !StillGoing(ctx, err) {
			// After a cancel, git must not push later.
			actx, cancel := kit.Afterwards(ctx)
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
		out.Refused = agent.refused()
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
	e := cannotClone(host, r, end, out.Refused).(*kit.TypedError)
	why := lastLines(end.Output, 1<<10)
	switch {
	case strings.Contains(why, "[rejected]") || strings.Contains(why, "fetch first") || strings.Contains(why, "non-fast-forward"):
		e.Hint = "the branch has what this session does not know of; nothing is forced: choose another --branch"
	case end.Late:
		why = fmt.Sprintf("%v: %s", errJobLate, why)
		e.Hint = "it may have been pushed all the same; push again, which finds that out"
	case end.State != process.Exited:
		why = "git ended twice without an exit status; the host may have restarted"
		e.Kind, e.Hint = protocol.ErrTypeOutcomeUnknown, "push again, which finds out whether it was pushed"
	}
	e.Err = fmt.Errorf("push to %s of %s from %s: %s%s", out.Branch, r.URL, host, why, refusals(out.Refused))
	return out, e
}
