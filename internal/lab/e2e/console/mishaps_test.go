package console

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"fairlead.dev/fairlead/internal/lab/browser"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// TestAKilledWorkerLosesNoDecision: the worker that takes a decision of a browser is killed with
// -9 before it has read it, with the click, and once the decision is on record. A card tells
// afterwards whether it still waits, so a person decides again only then. Each command runs once.
func TestAKilledWorkerLosesNoDecision(t *testing.T) {
	id := "killed"
	b := open(t, 1440, 900)
	e2e.Session(t, id)
	e2e.Lab.Model.Release("killed-gate")
	moments := []struct {
		name string
		kill func(t *testing.T, pid int, ap protocol.Approval, click func())
	}{
		{"before it has read it", func(t *testing.T, pid int, _ protocol.Approval, click func()) {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			click()
			e2e.Kill(t, pid)
		}},
		{"with the click", func(t *testing.T, pid int, _ protocol.Approval, click func()) {
			click()
			e2e.Kill(t, pid)
		}},
		{"on record", func(t *testing.T, pid int, ap protocol.Approval, click func()) {
			click()
			e2e.Until(t, "the decision", func() (bool, error) {
				var now protocol.Approval
				err := e2e.Lab.JSON(e2e.Within(t), &now, "approval", "show", ap.ID)
				return now.Decision != nil, err
			})
			e2e.Kill(t, pid)
		}},
	}
	for i, m := range moments {
		e2e.Send(t, id, "think before you run it at gate killed-gate")
		ap := e2e.Open(t, id, 1)[0]
		b.Comes("/approvals/" + ap.ID)
		b.Sees("Approval "+ap.ID, "Accept")
		pid := e2e.WorkerPID(t)
		m.kill(t, pid, ap, func() { b.Press(`[data-accept]`) })
		e2e.Back(t, pid)
		b.Comes("/approvals/" + ap.ID)
		b.Sees("Approval " + ap.ID)
		if b.Has(`[data-accept]`) {
			if m.name == "on record" {
				t.Errorf("killed %s: the card waits for another decision:\n%s", m.name, b.Text())
			}
			b.Submit(`[data-accept]`)
		}
		b.Sees("accept", "acknowledged by codex ✓")
		if v := e2e.Ended(t, id, i+1); v.Turn.Status != "completed" {
			t.Errorf("killed %s: the turn is %s", m.name, v.Turn.Status)
		}
	}
	want := strings.Repeat("it ran\n", len(moments))
	if data, err := os.ReadFile(filepath.Join(e2e.Root, "sessions", id, "work", "ran.txt")); err != nil || string(data) != want {
		t.Errorf("the commands wrote %q, %v", data, err)
	}
	decisions := 0
	for _, e := range e2e.Transcript(t, id) {
		if e.Type == protocol.EntryDecision {
			decisions++
		}
	}
	if decisions != len(moments) {
		t.Errorf("%d decisions are on record", decisions)
	}
}

// TestAnOpenInboxSaysThatItsWorkerIsGone, and takes no decision until another one answers. Then it
// shows what has come since.
func TestAnOpenInboxSaysThatItsWorkerIsGone(t *testing.T) {
	id := "gone"
	e2e.Session(t, id)
	e2e.Send(t, id, "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	b := open(t, 1440, 900)
	b.Sees(ap.ID, "Accept")
	restore := e2e.NoWorker(t)
	b.Sees("The connection is lost")
	b.Until("buttons that take nothing", func() bool { return b.Has(`[data-decide] button:disabled`) && !b.Has(`[data-decide] button:enabled`) })
	restore()
	b.Until("the connection to be back", func() bool { return !strings.Contains(b.Text(), "is lost") && b.Has(`[data-accept]:enabled`) })
	b.Submit(`[data-accept]`)
	b.Sees("acknowledged by codex ✓")
	e2e.Ended(t, id, 1)
}

// TestALoginThatEndsLosesNoText: a person who is logged out while they write finds what they wrote
// on the page that asks for the login, and sends it after the next one.
func TestALoginThatEndsLosesNoText(t *testing.T) {
	id := "typing"
	e2e.Session(t, id)
	b := open(t, 1440, 900)
	b.GoTo("/sessions/" + id)
	b.Sees(id, "Message")
	b.Types(`form.message textarea`, "what took long to write")
	other := b.Tab()
	other.GoTo("/")
	other.Submit(`form.who button`)
	other.Sees("Log in")
	b.Sees("Your login has ended")
	b.Submit(`form.message button.accept`)
	b.Sees("Nothing that you wrote is lost")
	if kept := browser.Eval[string](b, `document.querySelector("textarea[name=text]").value`); kept != "what took long to write" {
		t.Errorf("the page has the text %q", kept)
	}
	b.HasNoBarriers("login with a text")
	other.GoTo(strings.TrimSpace(e2e.OK(t, "ui")))
	other.Sees("Inbox")
	b.Submit(`.kept button.accept`)
	b.Sees("You said: what took long to write")
	if v := e2e.Ended(t, id, 1); v.Queue != 0 {
		t.Errorf("%d messages wait: it was sent twice", v.Queue)
	}
}

// stale opens a card in a tab without scripts, so it stays as it was.
func stale(b *browser.Tab, id string) *browser.Tab {
	b.Helper()
	t := b.Tab()
	browser.Call(t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	t.GoTo("/approvals/" + id)
	t.Sees("Approval "+id, "Accept")
	return t
}

// TestOneOfTwoDecisionsCounts: two people look at the same card. Both decide at the same time, or
// one after the other with an old page. One decision counts, and the other person sees which one.
func TestOneOfTwoDecisionsCounts(t *testing.T) {
	id := "twice"
	b := open(t, 1440, 900)
	e2e.Session(t, id)
	e2e.Send(t, id, "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	tabs := map[string]*browser.Tab{"accept": stale(b, ap.ID), "decline": stale(b, ap.ID)}
	late := stale(b, ap.ID)
	var arrive []func()
	for _, tab := range tabs {
		arrive = append(arrive, tab.Leaves())
	}
	for outcome, tab := range tabs {
		tab.Press(`button[value=` + outcome + `]`)
	}
	for _, arrives := range arrive {
		arrives()
	}
	var now protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &now, "approval", "show", ap.ID); err != nil || now.Decision == nil {
		t.Fatalf("it is %+v, %v", now, err)
	}
	counts := string(now.Decision.Outcome)
	for outcome, tab := range tabs {
		text := tab.Sees("Approval "+ap.ID, counts+" by")
		if told := tab.Has(`[role=alert]`); told == (outcome == counts) {
			t.Errorf("%s counts; who pressed %s sees\n%s", counts, outcome, text)
		}
	}
	other := "decline"
	if counts == "decline" {
		other = "accept"
	}
	late.Submit(`button[value=` + other + `]`)
	late.Sees("Approval "+ap.ID, counts+" by")
	if !late.Has(`[role=alert]`) || late.Has(`[data-accept]`) {
		t.Errorf("a late decision gets\n%s", late.Text())
	}
	// The button back may lead to the old form, which counts for nothing again.
	late.Back()
	if late.Has(`[data-decline]`) {
		late.Submit(`button[value=` + other + `]`)
	}
	late.Sees("Approval "+ap.ID, counts+" by")
	e2e.Ended(t, id, 1)
}

// TestASessionThatClosesMeanwhile takes no decision and no message from an old page, and says so.
// The text of the message is not lost.
func TestASessionThatClosesMeanwhile(t *testing.T) {
	id := "closing"
	b := open(t, 1440, 900)
	e2e.Session(t, id)
	e2e.Send(t, id, "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	card := stale(b, ap.ID)
	page := b.Tab()
	browser.Call(page, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	page.GoTo("/sessions/" + id)
	page.Types(`form.message textarea`, "one thing more")
	e2e.OK(t, "session", "close", id)
	card.Submit(`[data-accept]`)
	card.Until("an answer", func() bool { return card.Has(`[role=alert]`) })
	if card.Has(`[data-accept]`) {
		t.Errorf("the card of a closed session can be decided:\n%s", card.Text())
	}
	page.Submit(`form.message button.accept`)
	page.Until("an answer", func() bool { return page.Has(`[role=alert]`) })
	page.Sees("Not sent")
	if kept := browser.Eval[string](page, `document.querySelector("textarea").value`); kept != "one thing more" {
		t.Errorf("the page has the text %q", kept)
	}
}
