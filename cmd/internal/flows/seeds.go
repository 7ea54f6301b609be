package flows

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// mostSeeds bounds a list of seeds.
const mostSeeds = 1000

// AllSeeds returns the wanted seeds by name, without those deleted meanwhile.
func (t *Conn) AllSeeds(ctx context.Context, doing string, wanted func(protocol.SeedView) bool) ([]protocol.SeedView, error) {
	infos, err := t.List(ctx, doing, fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", protocol.TypeSeed), mostSeeds)
	if err != nil {
		return nil, err
	}
	list := []protocol.SeedView{}
	for _, info := range infos {
		var v protocol.SeedView
		id := info.GetExecution().GetWorkflowId()
		switch err := t.Ask(ctx, "show "+id, id, protocol.QuerySeed, &v); {
		case err == nil:
		case errkind.ExitCode(err) == errkind.ExitNotFound:
			continue
		default:
			return nil, err
		}
		if v.Generation > 0 && wanted(v) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b protocol.SeedView) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// FreshenAccount asks the session that holds a login how much of it is used, and adds the
// answer to the view. The seed learns the same when the session gives the login back. It
// returns the session's view, which is empty if no session holds the login or answers. While
// its turn runs, only the worker that is attached to it knows what the model said since.
func (t *Conn) FreshenAccount(ctx context.Context, v *protocol.SeedView) (holder protocol.SessionView) {
	if v.Kind != "chatgpt" || len(v.HeldBy) != 1 {
		return holder
	}
	id := protocol.SessionID(v.HeldBy[0])
	if t.Ask(ctx, "show "+id, id, protocol.QueryState, &holder) != nil || holder.Seed != v.Name {
		return protocol.SessionView{}
	}
	v.Account = v.Account.With(holder.RateLimits, time.Now())
	return holder
}

// mostAsked bounds how many holders of a seed are asked, and holdersWait for how long.
const (
	mostAsked   = 100
	holdersWait = 5 * time.Second
)

// FreshenGateway asks the sessions that have a seed what the model gateway did for them, and adds the
// answers to the view. The seed learns the same when they give it back. A session tells what its
// pumps have reported.
func (t *Conn) FreshenGateway(ctx context.Context, v *protocol.SeedView) {
	ctx, cancel := context.WithTimeout(ctx, holdersWait)
	defer cancel()
	for _, name := range v.HeldBy[:min(len(v.HeldBy), mostAsked)] {
		if ctx.Err() != nil {
			return
		}
		var s protocol.SessionView
		id := protocol.SessionID(name)
		live, err := t.AskEither(ctx, "show "+id, id, protocol.QueryState, &s)
		if err != nil || !live || s.Seed != v.Name || s.SeedGateway == nil {
			continue
		}
		if v.Gateway == nil {
			v.Gateway = &protocol.ModelUse{}
		}
		v.Gateway.Add(s.SeedGateway)
	}
}
