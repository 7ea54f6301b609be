package conn

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestASessionIsNotStartedWhereAnOlderWorkerWouldDropAnOption(t *testing.T) {
	const q = protocol.TaskQueue
	now := api.Status{Identity: "now/1 unix:///a", TaskQueues: []string{q}, Version: "v2", Features: protocol.Features()}
	older := api.Status{Identity: "older/2 unix:///b", TaskQueues: []string{q}, Version: "v1"}
	elsewhere := api.Status{Identity: "older/3 unix:///c", TaskQueues: []string{q + "-eu"}, Version: "v1"}
	view := func(st api.Status) WorkerView { return WorkerView{Identity: st.Identity, Reachable: true} }
	for _, c := range []struct {
		name     string
		statuses []api.Status
		silent   string
		note     string // a part of it
		refused  string // parts of the error, by |
	}{
		{name: "all know it", statuses: []api.Status{now, elsewhere}},
		{name: "one is older", statuses: []api.Status{now, older}, refused: "older/2|version v1|follow_ups"},
		{name: "one does not answer", statuses: []api.Status{now}, silent: "mute/4 unix:///d", note: "mute/4"},
		{name: "none is up", note: "no worker serves zone default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var views []WorkerView
			for _, st := range c.statuses {
				views = append(views, view(st))
			}
			if c.silent != "" {
				views = append(views, WorkerView{Identity: c.silent})
			}
			note, err := understood("", []string{"agents", "follow_ups"}, views, c.statuses)
			if !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
				t.Errorf("the note is %q, want %q in it", note, c.note)
			}
			if (err == nil) != (c.refused == "") {
				t.Fatalf("err %v", err)
			}
			for _, part := range strings.Split(c.refused, "|") {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}
