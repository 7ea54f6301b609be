package e2e

import (
	"os"
	"strings"
	"testing"

	"fairlead.dev/fairlead/workflows"
)

// TestWhatIsTypedForOneApprovalDecidesNoOther: what was typed before anybody saw
// it, what was typed for one that others decided meanwhile, and a passphrase that
// opens nothing decide nothing, and end neither `watch` nor the watching of a turn.
func TestWhatIsTypedForOneApprovalDecidesNoOther(t *testing.T) {
	id := "mishaps"
	ann, ben := newKey(t, "ann", "open sesame"), newKey(t, "ben", "")
	session(t, id, "--policy", policyFile(t, "default: ask\n", "ann@example.com "+ann.line, "ben@example.com "+ben.line))
	const choices, another = "then Enter >", "that was another one: Enter, then decide >"

	t.Run("watch", func(t *testing.T) {
		send(t, id, "run two commands")
		both := open(t, id, 2)
		p := at(t, "approval", "watch", "--session", id, "--sign-with", ann.file)
		p.hears(choices)
		if _, err := p.end.WriteString("y"); err != nil { // not yet with Enter
			t.Fatal(err)
		}
		decided(t, "decline", "approval", "decline", both[0].ID, "--sign-with", ben.file)
		p.hears(both[0].ID + ": decline by ben@example.com")
		p.hears(both[1].ID)
		p.then(another, "y") // meant for the one before
		p.hears(choices)
		untouched(t, both[1].ID)
		p.says("y")
		for range 3 {
			p.then("passphrase of "+ann.file+":", "shut")
			p.hears("does not open it")
		}
		p.hears(both[1].ID) // it is asked again
		p.hears(choices)
		untouched(t, both[1].ID)
		p.says("y")
		p.then("passphrase of "+ann.file+":", "open sesame")
		decidedBy(t, both[1], "accept", "ann@example.com")
		if got := approval(t, both[0].ID).Decision; got.Outcome != "decline" || got.By != "ben@example.com" {
			t.Errorf("the other one is decided %+v", got)
		}

		// One that is open no more while its passphrase is typed is said to be so.
		send(t, id, "you need a command")
		a := open(t, id, 1)[0]
		p.hears(a.ID)
		p.then(choices, "y")
		p.hears("passphrase of ")
		decided(t, "decline", "approval", "decline", a.ID, "--sign-with", ben.file)
		p.says("open sesame")
		p.hears("already decided: decline by ben@example.com")
		decidedBy(t, a, "decline", "ben@example.com")

		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := <-p.done; p.cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("watch ended with %v:\n%s", err, p.seen())
		}
	})
	t.Run("send", func(t *testing.T) {
		// No signature goes along: a word that does not count is asked for again,
		// and is given up when it comes from elsewhere.
		p := at(t, "session", "send", id, "think before you run it at gate typed-ahead")
		if _, err := shared.Model.AwaitWaiting(within(t), "typed-ahead"); err != nil {
			t.Fatal(err)
		}
		p.says("n") // before there is anything to decide
		shared.Model.Release("typed-ahead")
		p.hears(choices)
		a := open(t, id, 1)[0]
		untouched(t, a.ID)
		if v := show(t, id); v.State != workflows.Waiting || len(v.Refusals) != 0 {
			t.Errorf("session is %+v", v)
		}
		p.says("y")
		p.hears("only signed decisions count")
		p.hears(choices)
		decided(t, "accept", "approval", "accept", a.ID, "--sign-with", ben.file)
		if screen := p.leaves(); !strings.Contains(screen, "accept by ben@example.com") {
			t.Errorf("on the screen is\n%s", screen)
		}
		decidedBy(t, a, "accept", "ben@example.com")
	})
}
