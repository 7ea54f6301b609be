package conversation

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
)

// baseInstructionsAreReplaced shows that the model gets our base instructions in place of
// codex's own, and nothing of the latter.
func baseInstructionsAreReplaced(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `rules: [{reply: hello}]`)
	k := c.talk(t, s)
	k.spec.Base = "You are a clerk. Be exact."
	n := 0
	only := func(when string) {
		t.Helper()
		if body := lastBody(t, s); strings.Count(body, k.spec.Base) != 1 || strings.Contains(body, "You are Codex") || strings.Contains(body, "You are a coding agent") {
			t.Errorf("%s: the model is told %.300s", when, body)
		}
	}
	say := func(when string) {
		t.Helper()
		n++
		k.pump(TurnEnded, turn(n, fmt.Sprint("m-", n), when))
		only(when)
	}
	say("at first")
	k.restart()
	say("after a restart")
	k.restart()
	k.state.Opened = 0
	in := k.input(turn(3, "m-3", "in a fork"))
	in.Fork = true
	if r := k.run(context.Background(), in); r.Reason != TurnEnded {
		t.Fatalf("fork: %+v", r)
	}
	only("in a fork")
}

// agentsFileOfTheHomeIsRead shows that codex tells the model the whole AGENTS.md of its
// home, once, before the work folder's own.
func agentsFileOfTheHomeIsRead(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `rules: [{reply: hello}]`)
	k := c.talk(t, s)
	long := "HOMEFIRST\n" + strings.Repeat("Keep to the rules of the house.\n", 7000) + "HOMELAST\n"
	for name, text := range map[string]string{filepath.Join(k.h.dir, "AGENTS.md"): long, filepath.Join(k.h.work, "AGENTS.md"): "WORKFOLDER\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	told := func(when string) {
		t.Helper()
		body := lastBody(t, s)
		first, last, work := strings.Index(body, "HOMEFIRST"), strings.Index(body, "HOMELAST"), strings.Index(body, "WORKFOLDER")
		if strings.Count(body, "HOMEFIRST") != 1 || first < 0 || last < first || work < last {
			t.Errorf("%s: the texts stand at %d, %d and %d of %d bytes, %d times", when, first, last, work, len(body), strings.Count(body, "HOMEFIRST"))
		}
	}
	k.pump(TurnEnded, turn(1, "m-1", "one"))
	told("at first")
	k.restart()
	k.pump(TurnEnded, turn(2, "m-2", "two"))
	told("after a restart")
}
