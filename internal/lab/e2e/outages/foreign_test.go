package outages

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// Turns that codex begins by itself.

// setsAGoal ends its turn when the gate set is released.
const setsAGoal = `
rules:
  - steps:
      - call: {name: create_goal, arguments: {objective: "make it"}}
      - - wait: {gate: set}
        - say: the goal is set
`

// pursuesTheGoal is for the turn that codex begins. codex never asks for its
// first step.
const pursuesTheGoal = `
rules:
  - when: {contains: hello}
    reply: "you said {{ .LastUser }}"
  - steps:
      - call: {name: create_goal, arguments: {}}
      - - say: one two three
        - wait: {gate: pursued}
        - shell: {cmd: "echo made >> made", escalate: true, justification: "to see it run"}
      - call: {name: update_goal, arguments: {status: complete}}
      - say: the goal is reached
`

// pursues starts a session whose codex runs a turn that it began by itself and
// that waits at the gate pursued.
func pursues(t *testing.T, id string, flags ...string) {
	t.Helper()
	e2e.Scripted(t, setsAGoal)
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, "model: gpt-5.5\nprovider: {base_url: %q, bearer_token: goals}\nfeatures: {goals: true}\n", e2e.Lab.Model.BaseURL()), 0o600); err != nil {
		t.Fatal(err)
	}
	e2e.OK(t, "seed", "import", id, "--settings", settings)
	e2e.Session(t, id, append(flags, "--seed", id, "--sandbox", "read-only")...)
	e2e.Send(t, id, "pursue it")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "set"); err != nil {
		t.Fatal(err)
	}
	script, err := scriptedmodel.Parse([]byte(pursuesTheGoal))
	if err != nil {
		t.Fatal(err)
	}
	if err := e2e.Lab.Model.SetScript(script); err != nil {
		t.Fatal(err)
	}
	e2e.Lab.Model.Release("set")
	t.Cleanup(func() { e2e.Lab.Model.Hold("set"); e2e.Lab.Model.Hold("pursued") })
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "pursued"); err != nil {
		t.Fatal(err)
	}
}

func runsTheSecond(t *testing.T, id string) {
	t.Helper()
	e2e.Until(t, "the turn that codex began", func() (bool, error) {
		v := e2e.Show(t, id)
		return v.State == protocol.Running && v.Turn.N == 2, nil
	})
}

// reached checks the turns of a session that pursued its goal in turn 2 and was
// told hello in turn 3.
func reached(t *testing.T, id string) {
	t.Helper()
	v := e2e.Ended(t, id, 3)
	if v.Turn.Status != "completed" {
		t.Errorf("turn 3 is %+v", v.Turn)
	}
	list := e2e.Transcript(t, id)
	if got := fmt.Sprintf("%q", e2e.Texts(list, protocol.EntryAssistant)); got != `["the goal is set" "one two three" "the goal is reached" "you said hello"]` {
		t.Errorf("codex said %s", got)
	}
	if states := e2e.Texts(list, protocol.EntryState); !slices.Contains(states, "codex began turn 2 by itself") {
		t.Errorf("the transcript says %q", states)
	}
	if got := e2e.Texts(list, protocol.EntryDecision); len(got) != 1 {
		t.Errorf("decisions on record: %q", got)
	}
	if made, err := os.ReadFile(filepath.Join(e2e.Root, "sessions", id, "work", "made")); string(made) != "made\n" {
		t.Errorf("the accepted command left %q, %v", made, err)
	}
}

// A turn that codex began by itself outlives its worker. What it asks while no
// worker is up is decided and carried out once.
func TestATurnThatCodexBeganOutlivesItsWorker(t *testing.T) {
	const id = "goal-worker"
	pursues(t, id)
	runsTheSecond(t, id)
	restore := e2e.NoWorker(t)
	e2e.Lab.Model.Release("pursued")
	restore()
	e2e.Send(t, id, "hello")
	e2e.OK(t, "approval", "accept", e2e.Open(t, id, 1)[0].ID)
	reached(t, id)
	if v := e2e.Show(t, id); v.Process.Incarnation != 1 {
		t.Errorf("session is %+v", v)
	}
}

// A session does not park within a turn that codex began by itself, neither on
// request nor after its time. It parks after that turn and loses nothing of it.
func TestASessionParksBehindATurnThatCodexBegan(t *testing.T) {
	const id = "goal-parked"
	pursues(t, id, "--park-after", "1s")
	runsTheSecond(t, id)
	e2e.Refused(t, 6, "", "session", "park", id)
	e2e.Lab.Model.Release("pursued")
	a := e2e.Open(t, id, 1)[0]
	e2e.Refused(t, 6, "", "session", "park", id)
	e2e.OK(t, "approval", "accept", a.ID)
	e2e.Until(t, id+" to be parked", func() (bool, error) { return e2e.Show(t, id).State == protocol.Parked, nil })
	if v := e2e.Show(t, id); v.Turn.N != 2 || v.Turn.Status != "completed" || v.Snapshot == nil || v.Snapshot.Turn != 2 {
		t.Errorf("parked as %+v", v)
	}
	e2e.Turn(t, id, "hello")
	reached(t, id)
}
