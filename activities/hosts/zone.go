package hosts

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec"
)

const zoneWait = 10 * time.Second

// ZoneOf returns a function that asks a host for its time zone, and returns nil if that is
// not known.
func ZoneOf(ctx context.Context, h hostexec.Host, log *slog.Logger) func() *time.Location {
	return func() *time.Location {
		ctx, cancel := context.WithTimeout(ctx, zoneWait)
		defer cancel()
		res, err := h.Run(ctx, hostexec.Command{Script: "date +%z"})
		if err != nil {
			log.Warn("the host's zone is not known", "error", err)
			return nil
		}
		at, err := time.Parse("-0700", strings.TrimSpace(string(res.Stdout)))
		if err != nil {
			log.Warn("the host's zone is not known", "error", err)
			return nil
		}
		_, offset := at.Zone()
		return time.FixedZone("", offset)
	}
}
