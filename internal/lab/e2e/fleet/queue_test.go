package fleet

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func zone(t *testing.T) protocol.PoolView {
	t.Helper()
	var v protocol.PoolView
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "pool", "show"); err != nil {
		t.Fatal(err)
	}
	return v
}

func becomes(t *testing.T, id string, state protocol.SessionStatus) {
	t.Helper()
	e2e.Until(t, id+" to be "+string(state), func() (bool, error) { return e2e.Show(t, id).State == state, nil })
}

// Sessions wait for a host that meets their needs, in an order that people can
// change. A paused zone starts none, whichever process dies meanwhile.
func TestSessionsWaitForTheirTurn(t *testing.T) {
	root := filepath.Join(e2e.Lab.Dir, "queue")
	_, err := e2e.Lab.AddHost(context.Background(), "queue-1", hosttest.Options{Root: root}, "--slots", "1", "--label", "queue=yes", "--label", "size=8")
	if err != nil {
		t.Fatal(err)
	}
	e2e.OK(t, "host", "provision", "queue-1")

	r := e2e.Exits(t, 3, "session", "start", "--id", "q-none", "--label", "queue=yes", "--label", "size>=32", "--label", "!spot")
	if !strings.Contains(r.Stderr, "no host of zone default meets queue=yes, size>=32, !spot: host queue-1 lacks size>=32 (its size is 8); host ") {
		t.Errorf("what no host can meet: %v", r)
	}
	e2e.Exits(t, 3, "session", "show", "q-none") // nothing was started
	e2e.Exits(t, 2, "session", "start", "--label", "size>=lots")
	e2e.Exits(t, 3, "pool", "show", "nowhere")
	e2e.Exits(t, 2, "pool", "set", "--tenant", "night", "--weight", "0")

	begin := func(id string, flags ...string) {
		t.Helper()
		e2e.OK(t, append([]string{"session", "start", "--id", id, "--seed", "team", "--label", "queue=yes", "--label", "size<=8"}, flags...)...)
	}
	begin("q-a", "--tenant", "night")
	becomes(t, "q-a", protocol.Idle)
	e2e.OK(t, "pool", "set", "--tenant", "night", "--limit", "1", "--weight", "3")
	begin("q-late", "--priority", "5")
	e2e.Until(t, "one to wait", func() (bool, error) { return zone(t).Waiting == 1, nil })
	begin("q-soon", "--priority", "1")
	begin("q-night", "--priority", "1", "--tenant", "night")
	e2e.Until(t, "three to wait", func() (bool, error) { return zone(t).Waiting == 3, nil })
	var why []string
	for i, w := range zone(t).Queue {
		if why = append(why, w.Reason); w.Position != i+1 {
			t.Errorf("place %d is %+v", i+1, w)
		}
	}
	if !strings.Contains(strings.Join(why, "\n"), "tenant night has 1 slots, as many as it may have") {
		t.Errorf("they wait since %q", why)
	}
	if v := e2e.Show(t, "q-late"); v.State != protocol.Queued || !strings.Contains(v.Waits, "has all its slots in use; nobody waits before it") {
		t.Errorf("it is %s and waits for %q", v.State, v.Waits)
	}

	e2e.OK(t, "pool", "pause", "--reason", "the model is down")
	e2e.Until(t, "the session to say so", func() (bool, error) {
		return strings.Contains(e2e.Show(t, "q-soon").Waits, ": the model is down; "), nil
	})
	e2e.Kill(t, e2e.WorkerPID(t))
	e2e.OK(t, "session", "close", "q-a")
	v := zone(t)
	if v.Paused == nil || v.Paused.Reason != "the model is down" || v.Used != 0 || v.Waiting != 3 {
		t.Fatalf("the paused zone is %+v", v)
	}
	for _, args := range [][]string{{"status"}, {"host", "list"}, {"pool", "list"}} {
		if out := e2e.OK(t, args...); !strings.Contains(out, "the model is down") {
			t.Errorf("ctl %s does not say that the zone is paused:\n%s", strings.Join(args, " "), out)
		}
	}
	e2e.OK(t, "pool", "resume")
	becomes(t, v.Queue[0].Session, protocol.Idle) // in the order that was set
	for left := 3; left > 0; left-- {
		var has string
		e2e.Until(t, "somebody to have the slot", func() (bool, error) {
			has = ""
			for _, w := range v.Queue {
				switch e2e.Show(t, w.Session).State {
				case protocol.Idle:
					has = w.Session
				case protocol.Queued, protocol.Closed:
				default:
					return false, nil
				}
			}
			return has != "", nil
		})
		if z := zone(t); z.Waiting != left-1 {
			t.Errorf("%s has the slot, and %d wait", has, z.Waiting)
		}
		e2e.OK(t, "session", "close", has)
	}
	e2e.OK(t, "pool", "set", "--tenant", "night", "--limit", "0", "--weight", "1")
	e2e.Until(t, "all to be given back", func() (bool, error) { v := zone(t); return v.Used == 0 && v.Waiting == 0, nil })
	e2e.OK(t, "host", "remove", "queue-1")
}
