package conn

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
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
	zone = cmp.Or(zone, "default")
	var older []string
	for _, st := range statuses {
		lacks := protocol.Lacking(requires, st.Features)
		if slices.Contains(st.TaskQueues, protocol.TaskQueueOf(zone)) && len(lacks) > 0 {
			older = append(older, fmt.Sprintf("worker %s (version %s) does not know %s", workerOf(st.Identity), st.Version, strings.Join(lacks, ", ")))
		}
	}
	if len(older) > 0 {
		return "", core.Refused("start a session in zone %s: %s; a worker of an earlier release would run it without", zone, some(older, "; ")).
			Hinted("bring the workers of the zone up to date first, or stop that one; or leave the option out")
	}
	var silent []string
	for _, v := range views {
		if !v.Reachable {
			silent = append(silent, workerOf(v.Identity))
		}
	}
	switch {
	case len(views) == 0:
		note = fmt.Sprintf("no worker serves zone %s: if a worker of an earlier release is the first to start, it runs the session without %s", zone, strings.Join(requires, ", "))
	case len(silent) > 0:
		note = fmt.Sprintf("ctl cannot tell whether worker %s knows %s, because its API does not answer. A worker of an earlier release would run the session without these options", some(silent, ", "), strings.Join(requires, ", "))
	}
	return note, nil
}

// workerOf is the part of an identity before its address.
func workerOf(identity string) string {
	name, _, _ := strings.Cut(identity, " ")
	return name
}
