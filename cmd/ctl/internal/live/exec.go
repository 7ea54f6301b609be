package live

import (
	"context"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
)

// Follow prints the output of a command on a host. missing counts bytes that came faster than they were
// read.
func Follow(ctx context.Context, a *core.App, worker *api.Client, host, id string) (missing int64, err error) {
	next := map[string]int64{}
	for ev, err := range worker.Exec(ctx, host, id, 0, 0) {
		if err != nil {
			if errors.Is(err, context.Canceled) {
				return missing, nil
			}
			return missing, err
		}
		if ev.Kind != api.KindOutput {
			continue
		}
		if gap := ev.Output.At - next[ev.Output.Stream]; gap > 0 {
			missing += gap
			if err := tellGap(a, ev.Output.Stream, next[ev.Output.Stream], gap); err != nil {
				return missing, err
			}
		}
		next[ev.Output.Stream] = ev.Output.At + int64(len(ev.Output.Data))
		if a.Flags.Output == "json" {
			piece := map[string]any{"stream": ev.Output.Stream, "at": ev.Output.At, "text": string(ev.Output.Data)}
			if err := a.Print().Show(piece, nil); err != nil {
				return missing, err
			}
			continue
		}
		w := a.Out
		if ev.Output.Stream == "stderr" {
			w = a.Err
		}
		if _, err := w.Write(ev.Output.Data); err != nil {
			return missing, fmt.Errorf("write the output: %w", err)
		}
	}
	return missing, nil
}

func tellGap(a *core.App, stream string, at, missing int64) error {
	if a.Flags.Output == "json" {
		return a.Print().Show(map[string]any{"stream": stream, "at": at, "missing": missing}, nil)
	}
	a.Note("… %d bytes of %s were dropped: they came faster than they were read …", missing, stream)
	return nil
}
