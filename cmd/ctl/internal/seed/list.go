package seed

import (
	"context"
	"slices"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// alone refuses a login that another seed has: two sessions could get it at once, and two
// holders invalidate it.
func alone(ctx context.Context, t *conn.Conn, doing, name string, bundle *seeds.Bundle) error {
	if bundle.Kind() != seeds.KindChatGPT {
		return nil
	}
	mine := seeds.AuthDigest(bundle.Auth())
	others, err := t.AllSeeds(ctx, doing, func(v protocol.SeedView) bool {
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
