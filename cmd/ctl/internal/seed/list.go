package seed

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// allSeeds returns the wanted seeds by name, without those deleted meanwhile.
func allSeeds(ctx context.Context, t *conn.Conn, doing string, wanted func(protocol.SeedView) bool) ([]protocol.SeedView, error) {
	infos, err := t.List(ctx, doing, fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", protocol.TypeSeed), 1000)
	if err != nil {
		return nil, err
	}
	list := []protocol.SeedView{}
	for _, info := range infos {
		var v protocol.SeedView
		id := info.GetExecution().GetWorkflowId()
		switch err := t.Ask(ctx, "show "+id, id, protocol.QuerySeed, &v); {
		case err == nil:
		case core.ExitCode(err) == core.ExitNotFound:
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

// alone refuses a login that another seed has: two sessions could get it at once, and two
// holders invalidate it.
func alone(ctx context.Context, t *conn.Conn, doing, name string, bundle *seeds.Bundle) error {
	if bundle.Kind() != seeds.KindChatGPT {
		return nil
	}
	mine := seeds.AuthDigest(bundle.Auth())
	others, err := allSeeds(ctx, t, doing, func(v protocol.SeedView) bool {
		return v.Name != name && slices.ContainsFunc(v.Files, func(f protocol.SeedFile) bool {
			return f.Path == "auth.json" && f.Digest == mine
		})
	})
	if err != nil || len(others) == 0 {
		return err
	}
	other := others[0].Name
	return core.Refused("%s: seed %s already has this login, and using it in two places invalidates it", doing, other).
		Hinted("use that one, or `ctl seed delete %s` first", other)
}
