package sessions

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// The output of a command is shown while the command runs: it cannot end before somebody has
// seen a line. The command prints it again and again, because codex loses what a command prints
// before codex subscribes to its output.
func TestOutputOfACommandIsFollowedBeforeItsEnd(t *testing.T) {
	id := fresh("prints")
	e2e.Session(t, id)
	w := e2e.Tmux(t, 100, 30, "session", "follow", id)
	e2e.Send(t, id, "print before you wait")
	w.Sees("early-bird")
	if strings.Contains(w.All(), "late-worm") {
		t.Error("the command has ended already")
	}
	if err := os.WriteFile(filepath.Join(e2e.Root, "sessions", id, "work", "release"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	w.Sees("The command has ended.")
	w.Presses("C-c")
	w.Ends()
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Errorf("the turn is %+v", v.Turn)
	}
}

// What codex had said when a person interrupted it is in the transcript.
func TestWhatWasSaidBeforeAnInterruptIsInTheTranscript(t *testing.T) {
	id := fresh("halved")
	e2e.Session(t, id)
	w := e2e.Tmux(t, 100, 30, "session", "follow", id)
	e2e.Send(t, id, "take your time at gate "+id)
	w.Sees("one two three")
	e2e.OK(t, "session", "interrupt", id)
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "interrupted" {
		t.Errorf("the turn is %+v", v.Turn)
	}
	e2e.Lab.Model.Release(id)
	w.Presses("C-c")
	w.Ends()
	if said := saidOf(t, id); len(said) != 1 || !strings.HasPrefix(said[0], "one two three") || strings.Contains(said[0], "seven") {
		t.Errorf("the transcript has %q", said)
	}
}

// What codex had said when its provider ended the response too early is the text of the failed
// turn.
func TestAFailedTurnKeepsWhatWasSaid(t *testing.T) {
	id := fresh("cutshort")
	e2e.Session(t, id)
	r := e2e.Exits(t, 1, "session", "send", id, "break off")
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "failed" {
		t.Errorf("the turn is %+v", v.Turn)
	}
	if said := saidOf(t, id); len(said) != 1 || !strings.HasPrefix(said[0], "one two three") || strings.Contains(said[0], "eight") {
		t.Errorf("the transcript has %q, and ctl said %q", said, r.Stdout)
	}
	if !strings.Contains(r.Stdout, "one two three") {
		t.Errorf("ctl said %q", r.Stdout)
	}
}

// The plan, the MCP servers and the use of the context are in the view of the session.
func TestThePlanAndTheServersOfASessionAreShown(t *testing.T) {
	id := fresh("plans")
	home := t.TempDir()
	config := scriptedmodel.ConfigTOML(e2e.Lab.Model.BaseURL(), e2e.Lab.Token) +
		"\n[mcp_servers.broken]\ncommand = \"/no/such/program\"\n\n[tools.update_plan]\nenabled = true\n"
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	e2e.OK(t, "seed", "import", "planner", home)
	e2e.Session(t, id, "--seed", "planner")
	if v := e2e.Turn(t, id, "plan your work"); v.FinalText != "Planned." {
		t.Errorf("the turn is %+v", v)
	}
	v := e2e.Show(t, id)
	want := []protocol.PlanStep{{Text: "look", Status: "completed"}, {Text: "write", Status: "inProgress"}}
	if v.Notices == nil || v.Notices.Plan == nil || v.Notices.Plan.Turn != 1 || !slices.Equal(v.Notices.Plan.Steps, want) {
		t.Errorf("its notices are %+v", v.Notices)
	}
	if c := v.Usage.Context; c == nil || c.Used != 20100 || c.Window < c.Used {
		t.Errorf("the use of its context is %+v", c)
	}
	e2e.Until(t, "the server that cannot start is shown", func() (bool, error) {
		n := e2e.Show(t, id).Notices
		if n != nil && len(n.MCPServers) == 1 && n.MCPServers[0].Name == "broken" && n.MCPServers[0].Status == "failed" {
			return true, nil
		}
		e2e.Turn(t, id, "hello") // a pump reads what codex has said since
		return false, nil
	})
	for what, args := range map[string][]string{"it is shown": {"session", "show", id}, "its transcript is": {"transcript", id}, "its Markdown is": {"transcript", id, "--format", "markdown"}} {
		if out := e2e.OK(t, args...); !strings.Contains(out, "broken") || what != "it is shown" && !strings.Contains(out, "write") {
			t.Errorf("%s\n%s", what, out)
		}
	}
}

// fresh returns an id that no earlier run of a test has used.
func fresh(name string) string { return name + "-" + protocol.RandomID()[:8] }

func saidOf(t *testing.T, id string) []string {
	t.Helper()
	return e2e.Texts(e2e.Transcript(t, id), protocol.EntryAssistant)
}
