package flows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
)

// Understood refuses a session that a worker of its zone would run without some of its
// options, because it is of an earlier release. statuses are those of workers that answered,
// and silent are the identities of those of the zone that did not. The note says what cannot
// be known.
func Understood(zone string, requires []string, statuses []api.Status, silent []string) (note string, err error) {
	zone = cmp.Or(zone, "default")
	var older []string
	for _, st := range statuses {
		lacks := protocol.Lacking(requires, st.Features)
		if slices.Contains(st.TaskQueues, protocol.TaskQueueOf(zone)) && len(lacks) > 0 {
			older = append(older, fmt.Sprintf("worker %s (version %s) does not know %s", workerOf(st.Identity), st.Version, strings.Join(lacks, ", ")))
		}
	}
	if len(older) > 0 {
		return "", errkind.Refused("start a session in zone %s: %s; a worker of an earlier release would run it without", zone, atMost(older, "; ")).
			Hinted("bring the workers of the zone up to date first, or stop that one; or leave the option out")
	}
	switch words := strings.Join(requires, ", "); {
	case len(statuses)+len(silent) == 0:
		note = fmt.Sprintf("no worker serves zone %s: if a worker of an earlier release is the first to start, it runs the session without %s", zone, words)
	case len(silent) > 0:
		var names []string
		for _, s := range silent {
			names = append(names, workerOf(s))
		}
		note = fmt.Sprintf("it is not known whether worker %s knows %s, because its API does not answer. A worker of an earlier release would run the session without these options", atMost(names, ", "), words)
	}
	return note, nil
}

// workerOf is the part of an identity before its address.
func workerOf(identity string) string {
	name, _, _ := strings.Cut(identity, " ")
	return name
}

const someShown = 8

func atMost(all []string, between string) string {
	if more := len(all) - someShown; more > 0 {
		all = append(slices.Clone(all[:someShown]), fmt.Sprintf("and %d more", more))
	}
	return escape.Line(strings.Join(all, between))
}
