package approvals

import (
	"os"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// TestWhatIsTypedForOneApprovalDecidesNoOther: input typed before the approval
// was shown, input for an approval that others decided meanwhile, and a wrong
// passphrase decide nothing, and end neither `watch` nor the watching of a
// turn. The person types lines, where half a line may have been typed.
func TestWhatIsTypedForOneApprovalDecidesNoOther(t *testing.T) {
	id := "mishaps"
	ann, ben := newKey(t, "ann", "open sesame"), newKey(t, "ben", "")
	e2e.Session(t, id, "--policy", policyFile(t, "default: ask\n", "ann@example.com "+ann.line, "ben@example.com "+ben.line))
	const choices, another = "then Enter >", "the earlier question was closed; press Enter to go to this one >"

	t.Run("watch", func(t *testing.T) {
		e2e.Send(t, id, "run two commands")
		both := e2e.Open(t, id, 2)
		p := e2e.AtLines(t, "approval", "watch", "--session", id, "--sign-with", ann.file)
		p.Hears(choices)
		p.Presses("y") // without Enter
		decided(t, "decline", "approval", "decline", both[0].ID, "--sign-with", ben.file)
		p.Hears(both[0].ID + ": decline by ben@example.com")
		p.Hears(both[1].ID)
		p.Then(another, "y") // meant for the previous approval
		p.Hears(choices)
		untouched(t, both[1].ID)
		p.Says("y")
		for range 3 {
			p.Then("passphrase of "+ann.file+":", "shut")
			p.Hears("does not open it")
		}
		p.Hears(both[1].ID) // it is asked for again
		p.Hears(choices)
		untouched(t, both[1].ID)
		p.Says("y")
		p.Then("passphrase of "+ann.file+":", "open sesame")
		decidedBy(t, both[1], "accept", "ann@example.com")
		if got := approval(t, both[0].ID).Decision; got.Outcome != "decline" || got.By != "ben@example.com" {
			t.Errorf("the other one is decided %+v", got)
		}

		// An approval that is decided while its passphrase is typed is reported
		// as such.
		e2e.Send(t, id, "you need a command")
		a := e2e.Open(t, id, 1)[0]
		p.Hears(a.ID)
		p.Then(choices, "y")
		p.Hears("passphrase of ")
		decided(t, "decline", "approval", "decline", a.ID, "--sign-with", ben.file)
		p.Says("open sesame")
		p.Hears("already decided: decline by ben@example.com")
		decidedBy(t, a, "decline", "ben@example.com")

		if err := p.Cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := <-p.Done; p.Cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("watch ended with %v:\n%s", err, p.Seen())
		}
	})
	t.Run("send", func(t *testing.T) {
		// Without signatures: an invalid input is asked for again, and the
		// question is given up when the decision comes from elsewhere.
		p := e2e.AtLines(t, "session", "send", id, "think before you run it at gate typed-ahead")
		if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "typed-ahead"); err != nil {
			t.Fatal(err)
		}
		p.Says("n") // before there is anything to decide
		e2e.Lab.Model.Release("typed-ahead")
		p.Hears(choices)
		a := e2e.Open(t, id, 1)[0]
		untouched(t, a.ID)
		if v := e2e.Show(t, id); v.State != protocol.Waiting || len(v.Refusals) != 0 {
			t.Errorf("session is %+v", v)
		}
		p.Says("y")
		p.Hears("only signed decisions count")
		p.Hears(choices)
		decided(t, "accept", "approval", "accept", a.ID, "--sign-with", ben.file)
		if screen := p.Leaves(); !strings.Contains(screen, "accept by ben@example.com") {
			t.Errorf("on the screen is\n%s", screen)
		}
		decidedBy(t, a, "accept", "ben@example.com")
	})
}
