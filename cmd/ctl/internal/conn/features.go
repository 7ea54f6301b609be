package conn

import (
	"cmp"
	"context"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/api"
)

// Understood refuses a session if a worker of an earlier release serves its zone and would run
// the session without some of its options. Such a worker drops options that it does not know;
// workers of this release leave such a session to newer ones. A note names the workers that ctl
// could not ask. Understood cannot know a worker that begins to serve the zone later.
func (t *Conn) Understood(ctx context.Context, zone string, requires []string) error {
	if len(requires) == 0 {
		return nil
	}
	asked := strings.Join(requires, "\x00")
	_, err := core.Once(t.App, understoodIn{zone, asked}, func() (struct{}, error) { // a batch has many sessions
		views, statuses, err := workersOf(ctx, t.App, t, zone)
		if ctx.Err() != nil {
			return struct{}{}, context.Cause(ctx)
		}
		if err != nil {
			t.App.Note("not known whether the workers of zone %s know %s: %v", cmp.Or(zone, "default"), strings.Join(requires, ", "), err)
			return struct{}{}, nil
		}
		note, err := understood(zone, requires, views, statuses)
		if note != "" {
			t.App.Note("%s", note)
		}
		return struct{}{}, err
	})
	return err
}

type understoodIn struct{ zone, requires string }

func understood(zone string, requires []string, views []WorkerView, statuses []api.Status) (note string, err error) {
	var silent []string
	for _, v := range views {
		if !v.Reachable {
			silent = append(silent, v.Identity)
		}
	}
	return flows.Understood(zone, requires, statuses, silent)
}
