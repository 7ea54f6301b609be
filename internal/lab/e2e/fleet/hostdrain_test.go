package fleet

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

type drained struct {
	protocol.HostView
	Left []struct{ Session, State, Why string } `json:"left"`
}

// Two sessions are on a host that is drained: the idle one leaves at once, the
// other when its turn, which waits for a person, has ended. Both continue
// elsewhere with their work, and the host can be removed.
func TestADrainedHostIsLeftByAllAndCanGo(t *testing.T) {
	a := newLosable(t, "drain-a", "pair=drain")
	for _, id := range []string{"drain-idle", "drain-busy"} {
		e2e.OK(t, "session", "start", "--label", "pair=drain", "--seed", "team", "--id", id)
	}
	if v := e2e.Turn(t, "drain-idle", "write a note"); v.Status != "completed" {
		t.Fatalf("the first turn is %+v", v)
	}
	e2e.Send(t, "drain-busy", "need a command")
	asked := e2e.Open(t, "drain-busy", 1)[0]
	b := newLosable(t, "drain-b", "pair=drain")

	var v drained
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "host", "drain", a.name, "--no-wait"); err != nil {
		t.Fatal(err)
	}
	if v.State != "draining" || v.Drain == nil || v.Drain.How != protocol.DrainPark || len(v.Left) == 0 {
		t.Errorf("the host is %+v", v)
	}
	e2e.Until(t, "the idle one to have left", func() (bool, error) { return e2e.Show(t, "drain-idle").State == protocol.Parked, nil })
	r := e2e.Exits(t, 5, "--timeout", "4s", "host", "drain", a.name)
	if !strings.Contains(r.Stderr, "drain-busy (turn 1 waits for a decision on "+asked.ID+")") || strings.Contains(r.Stderr, "drain-idle") {
		t.Errorf("ctl says %q", r.Stderr)
	}
	e2e.Exits(t, 6, "host", "remove", a.name) // a session still works there
	e2e.OK(t, "approval", "accept", asked.ID)
	if v := e2e.Ended(t, "drain-busy", 1); v.Turn.Status != "completed" {
		t.Errorf("the turn ended as %+v", v.Turn)
	}
	v = drained{}
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "host", "drain", a.name); err != nil {
		t.Fatal(err)
	}
	if v.State != "drained" || v.Used != 0 || v.Unclean != 0 || len(v.Left) != 0 {
		t.Errorf("the host is %+v", v)
	}
	for _, id := range []string{"drain-idle", "drain-busy"} {
		if _, err := os.Stat(a.folder(id)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of %s there is something on %s still: %v", id, a.name, err)
		}
	}
	if left := lab.Below(a.root); len(left) > 0 {
		t.Errorf("on %s there still runs %v", a.name, left)
	}
	e2e.OK(t, "host", "remove", a.name)

	if v := e2e.Turn(t, "drain-idle", "read the note"); !slices.Equal(strings.Fields(v.FinalText), strings.Fields("It says from where I began it runs src/note.txt")) {
		t.Errorf("elsewhere it says %+v", v)
	}
	if v := e2e.Show(t, "drain-idle"); v.Host != b.name {
		t.Errorf("the session is on %s", v.Host)
	}

	// With --move sessions move by themselves, and uncordon makes the host
	// available again.
	c := newLosable(t, "drain-c", "pair=drain")
	e2e.OK(t, "host", "drain", b.name, "--move")
	e2e.Until(t, "the session to have moved", func() (bool, error) {
		v := e2e.Show(t, "drain-idle")
		return v.State == protocol.Idle && v.Host == c.name, nil
	})
	e2e.Exits(t, 2, "host", "drain", b.name, "--move", "--park")
	e2e.Exits(t, 3, "host", "drain", "nowhere")
	e2e.OK(t, "host", "uncordon", b.name)
	var h protocol.HostView
	if err := e2e.Lab.JSON(e2e.Within(t), &h, "host", "show", b.name); err != nil {
		t.Fatal(err)
	}
	if h.Drain != nil || h.State == "drained" {
		t.Errorf("the host is %+v", h)
	}
	e2e.OK(t, "session", "close", "drain-idle")
	e2e.OK(t, "session", "close", "drain-busy")
	e2e.OK(t, "host", "remove", b.name)
	e2e.OK(t, "host", "remove", c.name)
}
