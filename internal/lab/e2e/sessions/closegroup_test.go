package sessions

import (
	"encoding/json"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestAGroupOfSessionsIsClosedByItsLabels(t *testing.T) {
	e2e.OK(t, "host", "set", "web-1", "--label", "crew=red", "--label", "shift=late")
	t.Cleanup(func() { e2e.Lab.Ctl(t.Context(), nil, "host", "set", "web-1", "--label", "crew-", "--label", "shift-") })
	start := func(id string, labels ...string) {
		t.Helper()
		args := []string{"session", "start", "--seed", "team", "--id", id}
		for _, l := range labels {
			args = append(args, "--label", l)
		}
		e2e.OK(t, args...)
	}
	start("crew-1", "crew=red", "shift=late")
	start("crew-2", "crew=red", "shift=late")
	start("crew-3", "crew=red")
	late := []string{"session", "close", "--label", "crew=red", "--label", "shift=late"}
	open := func(id string) bool { return e2e.Show(t, id).State != protocol.Closed }

	if r := e2e.Exits(t, 7, append(late, "--no-input")...); !strings.Contains(r.Stderr, "crew-1") || !strings.Contains(r.Stderr, "crew-2") || strings.Contains(r.Stderr, "crew-3") {
		t.Errorf("without a person: %v", r)
	}
	for _, bad := range [][]string{{"crew-1", "--label", "crew=red"}, {}, {"--label", "crew"}, {"--label", "crew=red", "--label", "crew=blue"}, {"crew-1", "--yes"}} {
		e2e.Exits(t, 2, append([]string{"session", "close"}, bad...)...)
	}
	p := e2e.At(t, late...)
	p.Types("Close these 2 sessions? [y/n]", "n")
	p.Hears("nothing was closed")
	if err := <-p.Done; err == nil {
		t.Error("after a no, ctl ended as if all were closed")
	}
	if !open("crew-1") || !open("crew-2") {
		t.Fatal("a session was closed that nobody agreed to close")
	}

	r := e2e.Exits(t, 1, append(late, "--yes", "--limit", "1")...)
	if !strings.Contains(r.Stdout, "session crew-2 closed") || !strings.Contains(r.Stderr, "more were started with") || !open("crew-1") {
		t.Errorf("one at a time: %v", r)
	}
	out := e2e.OK(t, append(late, "--yes", "-o", "json")...)
	var one struct{ ID, Result, State string }
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &one) != nil || one.ID != "crew-1" || one.Result != "closed" || one.State != "closed" {
		t.Errorf("the rest: %s", out)
	}
	if out := e2e.OK(t, append(late, "--yes", "-o", "json")...); out != "" {
		t.Errorf("nobody is left, and closed are %s", out)
	}
	if !open("crew-3") {
		t.Error("a session without one of the labels was closed")
	}
	p = e2e.At(t, "session", "close", "--label", "crew=red")
	p.Types("Close these 1 sessions? [y/n]", "y")
	if screen := p.Leaves(); !strings.Contains(screen, "session crew-3 closed") {
		t.Errorf("on the screen is\n%s", screen)
	}
}
