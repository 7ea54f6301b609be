package fleet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A host that fails is quarantined, says why wherever it is listed, is probed
// at growing intervals, and becomes available again by itself to a session that
// waits for it. Meanwhile the TTL of two sessions elsewhere ends: the idle one
// closes at once, the other when its turn has ended, and its queued message
// never begins.
func TestAHostThatFailsComesBackAndSessionsEndWithTheirTime(t *testing.T) {
	const lives = 45 * time.Second
	for _, id := range []string{"ttl-idle", "ttl-turn"} {
		e2e.Session(t, id, "--ttl", lives.String())
	}
	e2e.Send(t, "ttl-turn", "need a command")
	asked := e2e.Open(t, "ttl-turn", 1)[0]
	e2e.Send(t, "ttl-turn", "hello behind it")

	h := newLosable(t, "ill-1", "ill=1")
	if err := h.sshd.Stop(); err != nil {
		t.Fatal(err)
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "host", "check", "ill-1"); r.Code == 0 {
		t.Errorf("a check of a host that is away: %v", r)
	}
	e2e.OK(t, "session", "start", "--label", "ill=1", "--seed", "team", "--id", "ill")
	var v protocol.HostView
	var tries []int
	var pauses []time.Duration // until the next probe, in the order of the probes
	e2e.Until(t, "the host to be in quarantine, and probed three times", func() (bool, error) {
		v = protocol.HostView{}
		if err := e2e.Lab.JSON(e2e.Within(t), &v, "host", "show", "ill-1"); err != nil || v.State != protocol.HealthQuarantined {
			return false, err
		}
		if n := v.Health.Tries; !slices.Contains(tries, n) {
			tries, pauses = append(tries, n), append(pauses, time.Until(v.Health.NextAt))
		}
		return v.Health.Tries >= 3, nil
	})
	if !slices.IsSorted(tries) || pauses[len(pauses)-1] < 15*time.Second {
		t.Errorf("after probes %v the next was %v away", tries, pauses)
	}
	if v.Health.Kind != protocol.ErrTypeUnreachable || !strings.Contains(v.Health.Reason, "ill-1") {
		t.Errorf("host is %+v", v.Health)
	}
	says := "host ill-1 is quarantined since "
	for _, args := range [][]string{{"host", "list"}, {"pool", "show"}} {
		if out := e2e.OK(t, args...); !strings.Contains(out, says) || !strings.Contains(out, v.Health.Reason[:min(40, len(v.Health.Reason))]) || !strings.Contains(out, "the next is at ") {
			t.Errorf("%s says\n%s", strings.Join(args, " "), out)
		}
	}
	if out := e2e.OK(t, "host", "show", "ill-1"); !strings.Contains(out, "quarantined since ") || !strings.Contains(out, "the next is at ") {
		t.Errorf("host show says\n%s", out)
	}
	if s := e2e.Show(t, "ill"); s.State != protocol.Queued || !strings.Contains(s.Waits, says) {
		t.Errorf("who waits for it is %s and waits for %q", s.State, s.Waits)
	}
	if err := h.sshd.Start(e2e.Within(t)); err != nil {
		t.Fatal(err)
	}
	e2e.Until(t, "the host to come back by itself, to who waits for it", func() (bool, error) {
		v = protocol.HostView{} // a missing field would leave the old value
		err := e2e.Lab.JSON(e2e.Within(t), &v, "host", "show", "ill-1")
		return err == nil && v.Health == nil && e2e.Show(t, "ill").State == protocol.Idle, err
	})
	if turn := e2e.Turn(t, "ill", "hello there"); turn.Status != "completed" {
		t.Errorf("the turn on it is %+v", turn)
	}
	e2e.OK(t, "session", "close", "ill")
	e2e.OK(t, "host", "remove", "ill-1")

	e2e.Until(t, "the end of the idle one's time", func() (bool, error) { return e2e.Show(t, "ttl-idle").State == protocol.Closed, nil })
	if s := e2e.Show(t, "ttl-turn"); s.State != protocol.Waiting {
		t.Errorf("within its turn, the other is %s", s.State)
	}
	e2e.Until(t, "the end of the other's time", func() (bool, error) {
		return time.Now().After(e2e.Show(t, "ttl-turn").CreatedAt.Add(lives)), nil
	})
	e2e.OK(t, "approval", "accept", asked.ID)
	e2e.Until(t, "its end behind the turn", func() (bool, error) { return e2e.Show(t, "ttl-turn").State == protocol.Closed, nil })
	if s := e2e.Show(t, "ttl-turn"); s.Turn == nil || s.Turn.N != 1 || s.Turn.Status != "completed" || s.Close == nil || !s.Close.Removed {
		t.Errorf("it ended as %+v, turn %+v", s, s.Turn)
	}
	for _, id := range []string{"ttl-idle", "ttl-turn"} {
		if said := strings.Join(e2e.Texts(e2e.Transcript(t, id), protocol.EntryState), "\n"); !strings.Contains(said, "the session has lived for 45s, as long as it may (ttl): it closes") {
			t.Errorf("%s says\n%s", id, said)
		}
	}
	if r := e2e.Exits(t, 6, "session", "send", "ttl-idle", "hello"); !strings.Contains(r.Stderr, "it is closed") {
		t.Errorf("ctl says %q", r.Stderr)
	}
}

// A host that answers every command with endless bytes is quarantined, and no worker dies. A check
// ends the quarantine when the host answers as others do.
func TestAHostThatFloodsIsQuarantinedAndNoWorkerEnds(t *testing.T) {
	sent := filepath.Join(t.TempDir(), "sent")
	if err := os.WriteFile(sent, []byte("cat /dev/zero"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := hosttest.Options{Root: filepath.Join(e2e.Lab.Dir, "host-flood-1"), Config: []string{"ForceCommand if test -e " + sent + "; then sh " + sent + "; else sh -c \"$SSH_ORIGINAL_COMMAND\"; fi"}}
	if _, err := e2e.Lab.AddHost(e2e.Within(t), "flood-1", h, "--label", "flood=1"); err != nil {
		t.Fatal(err)
	}
	pid := e2e.WorkerPID(t)
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "host", "check", "flood-1")
	if r.Code == 0 || !strings.Contains(r.Stderr, "sends too much") {
		t.Errorf("the check says %v", r)
	}
	var v protocol.HostView
	e2e.Until(t, "the quarantine", func() (bool, error) {
		v = protocol.HostView{}
		err := e2e.Lab.JSON(e2e.Within(t), &v, "host", "show", "flood-1")
		return err == nil && v.State == protocol.HealthQuarantined, err
	})
	if v.Health == nil || v.Health.Kind != protocol.ErrTypeHostFlood {
		t.Errorf("the host is %+v", v.Health)
	}
	if now := e2e.WorkerPID(t); now != pid {
		t.Errorf("worker %d is now worker %d", pid, now)
	}
	if err := os.Remove(sent); err != nil {
		t.Fatal(err)
	}
	e2e.OK(t, "host", "check", "flood-1")
	e2e.Until(t, "the end of the quarantine", func() (bool, error) {
		v = protocol.HostView{}
		err := e2e.Lab.JSON(e2e.Within(t), &v, "host", "show", "flood-1")
		return err == nil && v.Health == nil, err
	})
	e2e.OK(t, "host", "remove", "flood-1")
}
