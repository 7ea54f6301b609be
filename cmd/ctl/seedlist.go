package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/workflows"
)

// seeds queries all seeds, by name. A seed that is deleted meanwhile is left out.
func (t *temporal) seeds(ctx context.Context, doing string, wanted func(workflows.SeedView) bool) ([]workflows.SeedView, error) {
	infos, err := t.list(ctx, doing, fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflows.TypeSeed), 1000)
	if err != nil {
		return nil, err
	}
	list := []workflows.SeedView{}
	for _, info := range infos {
		var v workflows.SeedView
		id := info.GetExecution().GetWorkflowId()
		switch err := t.ask(ctx, "show "+id, id, workflows.QuerySeed, &v); {
		case err == nil:
		case exitOf(err) == exitNotFound:
			continue
		default:
			return nil, err
		}
		if v.Generation > 0 && wanted(v) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b workflows.SeedView) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// alone refuses a login that another seed already has. Each seed would be given to a
// session, and two holders invalidate a login.
func (t *temporal) alone(ctx context.Context, doing, name string, bundle *seeds.Bundle) error {
	if bundle.Kind() != seeds.KindChatGPT {
		return nil
	}
	mine := seeds.AuthDigest(bundle.Auth())
	others, err := t.seeds(ctx, doing, func(v workflows.SeedView) bool {
		return v.Name != name && slices.ContainsFunc(v.Files, func(f workflows.SeedFile) bool {
			return f.Path == "auth.json" && f.Digest == mine
		})
	})
	if err != nil || len(others) == 0 {
		return err
	}
	other := others[0].Name
	return refused("%s: seed %s is this very login already, and two holders burn it", doing, other).
		hinted("use that one, or `ctl seed delete %s` first", other)
}
