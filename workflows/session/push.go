package session

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/admit"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

const maxPushMessage = 4 << 10

var pushID = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

type pushesPart struct {
	*core
	turns   *turnsPart
	process *processPart
	parking *parkingPart

	wanted []*aPush // nothing else begins on the host before they are done
	now    *aPush   // in progress
}

func (s *pushesPart) listenForPushes(ctx workflow.Context, entry *admit.Door) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, protocol.UpdatePush, func(ctx workflow.Context, raw json.RawMessage) (workspaces.PushWorkspaceResult, error) {
		p, err := plainPush(raw)
		if err != nil {
			return workspaces.PushWorkspaceResult{}, err
		}
		entry.Took(raw)
		s.recordCommand(protocol.UpdatePush, string(verbs[protocol.UpdatePush]), raw, entry.Accepted(ctx, raw), nil)
		return s.push(ctx, p)
	}, workflow.UpdateHandlerOptions{Validator: func(ctx workflow.Context, raw json.RawMessage) error {
		return entry.Update(ctx, protocol.UpdatePush, verbs[protocol.UpdatePush], raw, checking(s.mayPush))
	}})
}

func plainPush(raw []byte) (protocol.Push, error) {
	plain, _, err := command.Plain(raw)
	if err != nil {
		return protocol.Push{}, kit.Refuse(protocol.RefusedBadInput, "push: %v", err)
	}
	return kit.Decode[protocol.Push](plain)
}

// aPush is a requested push. It is not carried over: a run ends only when the caller has
// its answer.
type aPush struct {
	protocol.Push
	done bool
	out  workspaces.PushWorkspaceResult
	err  error
}

// mayPush refuses a push that is not possible now. While codex works, nobody knows what
// would be pushed.
func (s *pushesPart) mayPush(p protocol.Push) error {
	switch {
	case !pushID.MatchString(p.ID):
		return kit.Refuse(protocol.RefusedBadInput, "push: the request id is not valid (want 1 to 64 of a-z 0-9 -)")
	case workspaces.CheckRef(p.Branch) != nil:
		return kit.Refuse(protocol.RefusedBadInput, "push: %v", workspaces.CheckRef(p.Branch))
	case len(p.Message) > maxPushMessage || len(p.By) > kit.MaxWord:
		return kit.Refuse(protocol.RefusedBadInput, "push: its message is longer than %d bytes", maxPushMessage)
	case s.opt.Workspace.Repo == nil:
		return kit.Refuse(protocol.RefusedState, "push: session %s did not begin with a repository (--repo)", s.id)
	case !s.onHost() || s.parking.now:
		return kit.Refuse(protocol.RefusedState, "push: session %s is on no host now; send it a message, or resume it", s.id)
	case s.st.Running:
		return kit.Refuse(protocol.RefusedState, "push: a turn of session %s runs; push when it has ended", s.id)
	}
	return nil
}

func (s *pushesPart) onHost() bool {
	return s.st.Close == nil && s.st.Layout != nil && s.st.Lease != nil && s.st.Status != protocol.Failed
}

// push has the loop do the push between two turns.
func (s *pushesPart) push(ctx workflow.Context, p protocol.Push) (workspaces.PushWorkspaceResult, error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx) // a cancellation of the workflow does not stop the push
	a := &aPush{Push: p}
	s.wanted = append(s.wanted, a)
	err := workflow.Await(ctx, func() bool { return a.done || s.now != a && !s.onHost() })
	s.wanted = slices.DeleteFunc(s.wanted, func(b *aPush) bool { return a == b })
	switch {
	case err != nil:
		return a.out, err
	case !a.done:
		return a.out, kit.Refuse(protocol.RefusedState, "push: session %s left its host before the push began; nothing was pushed (unless the session ends, resume it and push again)", s.id)
	}
	return a.out, a.err
}

// mayPushNow reports whether a push is due, and nothing else writes in the work folder.
func (s *pushesPart) mayPushNow() bool {
	return len(s.wanted) > 0 && s.onHost() && !s.st.Running
}

// pushNext does the oldest push. First it ends what a cut-off turn left running.
func (s *pushesPart) pushNext() {
	if s.st.Reap {
		s.process.reap()
	}
	if !s.mayPushNow() {
		return
	}
	p := s.wanted[0]
	s.now = p
	s.turns.settle()
	s.publish()
	out, err := unlessClosing(s.core, pushing(s.ctx, "push to "+p.Branch+" from "+s.hostName()), workJobs.PushWorkspace, workspaces.PushWorkspaceInput{
		Claim: s.claim(), Layout: *s.st.Layout, Seed: s.st.Seed, Repo: *s.opt.Workspace.Repo,
		ID: p.ID, Branch: p.Branch, Message: p.Message, By: p.By,
	})
	s.now = nil
	s.wanted = slices.DeleteFunc(s.wanted, func(b *aPush) bool { return p == b })
	p.done, p.out = true, out
	switch {
	case temporal.IsCanceledError(err):
		f := &protocol.Failure{Kind: protocol.ErrTypeOutcomeUnknown, Message: fmt.Sprintf("push to %s: session %s closes, and git was stopped: it is not known whether it had pushed", p.Branch, s.id), Hint: "look at the branch"}
		p.err = s.notPushed(f)
	case err != nil:
		p.err = s.notPushed(kit.FailureOf("push to "+p.Branch, err))
	default:
		text := "pushed to " + p.Branch
		if out.Already {
			text = "it was at " + p.Branch + " already"
		}
		if len(out.Refused) > 0 {
			s.note(agentRefused(s.hostName(), out.Refused))
		}
		s.note(conversation.Note{Type: "state", Text: text, Data: map[string]string{"branch": p.Branch, "commit": out.Commit, "by": p.By}})
	}
}

func (s *pushesPart) notPushed(f *protocol.Failure) error {
	s.note(conversation.Note{Type: "error", Text: f.Message, Data: failureData(f)})
	return temporal.NewNonRetryableApplicationError(f.Message, f.Kind, nil, f)
}

// pushing is the context of a push with git. If a worker dies, the next attempt finds the
// push.
func pushing(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithStartToCloseTimeout(kit.SetUp(ctx, summary), workspaces.CloneTimeout+10*time.Minute)
}
