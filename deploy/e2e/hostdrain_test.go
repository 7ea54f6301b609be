package e2e

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/workflows"
)

type drained struct {
	workflows.HostView
	Left []struct{ Session, State, Why string } `json:"left"`
}

// Two sessions are on a host that is drained: the idle one leaves at once, the
// other when its turn, which waits for a person, has ended. Both go on elsewhere
// with what they had, and the host can be taken away.
func TestADrainedHostIsLeftByAllAndCanGo(t *testing.T) {
	a := newLosable(t, "drain-a", "pair=drain")
	for _, id := range []string{"drain-idle", "drain-busy"} {
		ok(t, "session", "start", "--label", "pair=drain", "--seed", "team", "--id", id)
	}
	if v := turn(t, "drain-idle", "write a note"); v.Status != "completed" {
		t.Fatalf("the first turn is %+v", v)
	}
	send(t, "drain-busy", "need a command")
	asked := open(t, "drain-busy", 1)[0]
	b := newLosable(t, "drain-b", "pair=drain")

	var v drained
	if err := shared.JSON(within(t), &v, "host", "drain", a.name, "--no-wait"); err != nil {
		t.Fatal(err)
	}
	if v.State != "draining" || v.Drain == nil || v.Drain.How != workflows.DrainPark || len(v.Left) == 0 {
		t.Errorf("the host is %+v", v)
	}
	until(t, "the idle one to have left", func() (bool, error) { return show(t, "drain-idle").State == workflows.Parked, nil })
	r := exits(t, 5, "--timeout", "2s", "host", "drain", a.name)
	if !strings.Contains(r.Stderr, "drain-busy (turn 1 waits for a decision on "+asked.ID+")") || strings.Contains(r.Stderr, "drain-idle") {
		t.Errorf("ctl says %q", r.Stderr)
	}
	exits(t, 6, "host", "remove", a.name) // somebody works there
	ok(t, "approval", "accept", asked.ID)
	if v := ended(t, "drain-busy", 1); v.Turn.Status != "completed" {
		t.Errorf("the turn ended as %+v", v.Turn)
	}
	v = drained{}
	if err := shared.JSON(within(t), &v, "host", "drain", a.name); err != nil {
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
	ok(t, "host", "remove", a.name)

	if v := turn(t, "drain-idle", "read the note"); !slices.Equal(strings.Fields(v.FinalText), strings.Fields("It says from where I began it runs src/note.txt")) {
		t.Errorf("elsewhere it says %+v", v)
	}
	if v := show(t, "drain-idle"); v.Host != b.name {
		t.Errorf("the session is on %s", v.Host)
	}

	// What is told to move goes on elsewhere by itself, and uncordon lets people in again.
	c := newLosable(t, "drain-c", "pair=drain")
	ok(t, "host", "drain", b.name, "--move")
	until(t, "the session to have moved", func() (bool, error) {
		v := show(t, "drain-idle")
		return v.State == workflows.Idle && v.Host == c.name, nil
	})
	exits(t, 2, "host", "drain", b.name, "--move", "--park")
	exits(t, 3, "host", "drain", "nowhere")
	ok(t, "host", "uncordon", b.name)
	var h workflows.HostView
	if err := shared.JSON(within(t), &h, "host", "show", b.name); err != nil {
		t.Fatal(err)
	}
	if h.Drain != nil || h.State == "drained" {
		t.Errorf("the host is %+v", h)
	}
	ok(t, "session", "close", "drain-idle")
	ok(t, "session", "close", "drain-busy")
	ok(t, "host", "remove", b.name)
	ok(t, "host", "remove", c.name)
}
