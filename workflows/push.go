package workflows

import (
	"regexp"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// UpdatePush has a session's work committed and pushed: Push → PushWorkspaceResult.
const UpdatePush = "push"

// A Push asks for that. The same id twice is one push.
type Push struct {
	ID      string `json:"id"`
	Branch  string `json:"branch"`
	Message string `json:"message,omitempty"`
	By      string `json:"by,omitempty"`
}

const maxPushMessage = 4 << 10

var pushID = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

func (s *session) listenForPushes(ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, UpdatePush, func(ctx workflow.Context, p Push) (activities.PushWorkspaceResult, error) {
		return s.push(ctx, p)
	}, workflow.UpdateHandlerOptions{Validator: s.mayPush})
}

// mayPush refuses what cannot be pushed, or not now: while codex works nobody
// knows what he gets.
func (s *session) mayPush(p Push) error {
	switch {
	case !pushID.MatchString(p.ID):
		return refuse(RefusedBadInput, "push: its id is to be 1 to 64 of a-z, 0-9 and dash")
	case activities.CheckRef(p.Branch) != nil:
		return refuse(RefusedBadInput, "push: %v", activities.CheckRef(p.Branch))
	case len(p.Message) > maxPushMessage || len(p.By) > maxWord:
		return refuse(RefusedBadInput, "push: its message is longer than %d bytes", maxPushMessage)
	case s.opt.Workspace.Repo == nil:
		return refuse(RefusedState, "push: session %s did not begin with a repository (--repo)", s.id)
	case s.st.Close != nil || s.st.Layout == nil || s.st.Lease == nil || s.parking:
		return refuse(RefusedState, "push: session %s is on no host now; send it a message, or resume it", s.id)
	case s.st.Running:
		return refuse(RefusedState, "push: a turn of session %s runs; push when it has ended", s.id)
	}
	return nil
}

func (s *session) push(ctx workflow.Context, p Push) (out activities.PushWorkspaceResult, err error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx) // as the session itself
	err = workflow.ExecuteActivity(pushing(ctx, "push to "+p.Branch+" from "+s.hostName()), sessions.PushWorkspace, activities.PushWorkspaceInput{
		Claim: s.claim(), Layout: *s.st.Layout, Seed: s.st.Seed, Repo: *s.opt.Workspace.Repo,
		ID: p.ID, Branch: p.Branch, Message: p.Message, By: p.By,
	}).Get(ctx, &out)
	if err != nil {
		f := failureOf("push to "+p.Branch, err)
		s.note(activities.Note{Type: "error", Text: f.Message, Data: failureData(f)})
		return out, temporal.NewNonRetryableApplicationError(f.Message, f.Kind, nil, f)
	}
	text := "pushed to " + p.Branch
	if out.Already {
		text = "it was at " + p.Branch + " already"
	}
	s.note(activities.Note{Type: "state", Text: text, Data: map[string]string{"branch": p.Branch, "commit": out.Commit, "by": p.By}})
	return out, nil
}

// pushing is for git, which is found again after a lost worker; what the server
// does not take is final.
func pushing(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithStartToCloseTimeout(setUp(ctx, summary), activities.CloneTimeout+10*time.Minute)
}
