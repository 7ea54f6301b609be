package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"fairlead.dev/fairlead/internal/lab/browser"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// open starts Chromium, and logs in by the link of `ctl ui`.
func open(t *testing.T, width, height int64) *browser.Tab {
	t.Helper()
	link := strings.TrimSpace(e2e.OK(t, "ui"))
	base, _, _ := strings.Cut(link, "/login")
	b := browser.Open(t, base, width, height)
	b.GoTo(link)
	b.Sees("Inbox")
	return b
}

// A person who has the inbox open sees a request come, reads what it is about, and accepts it
// without a mouse.
func TestAnApprovalIsAcceptedByKeyboard(t *testing.T) {
	id := "keyboard"
	b := open(t, 1440, 900)
	e2e.Session(t, id)
	e2e.Send(t, id, "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	b.Sees(ap.ID, "printf 'it ran", "The model claims:", "to see it run", "web-1", "workspace-write", ap.Digest[:12], "left", "Accept")
	b.Shoot("console-inbox")
	b.HasNoBarriers("inbox")
	b.Run(chromedp.KeyEvent("j"), chromedp.KeyEvent(kb.Enter))
	b.Sees("Approval " + ap.ID)
	b.HasNoBarriers("approval")
	b.Run(chromedp.KeyEvent("j"), chromedp.KeyEvent("a"), chromedp.KeyEvent(kb.Enter))
	b.Sees("accept", "recorded ✓", "acknowledged by codex ✓")
	b.Shoot("console-approval")
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Errorf("the turn is %s", v.Turn.Status)
	}
	if said := e2e.LastText(t, id); !strings.Contains(said, "it ran") {
		t.Errorf("codex says %q: the command did not run", said)
	}
	// The form of before counts for nothing.
	b.Back()
	b.Back()
	b.Sees("Nothing waits for a person.")
}

// TestAnOpenInboxShowsEachRequest of a session that asks again as soon as it has its answer: then
// lists of sessions look as before.
func TestAnOpenInboxShowsEachRequest(t *testing.T) {
	id := "again"
	b := open(t, 1440, 900)
	e2e.Session(t, id)
	e2e.Send(t, id, "you need commands one after another")
	for n := 1; n <= 4; n++ {
		card := fmt.Sprintf(`#card-%s\.%d`, id, n)
		b.Until(card, func() bool { return b.Has(card) })
		e2e.OK(t, "approval", "accept", fmt.Sprintf("%s.%d", id, n))
	}
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Errorf("the turn is %s", v.Turn.Status)
	}
	b.Until("an inbox without them", func() bool { return !b.Has(`[id^="card-` + id + `."]`) })
}

// On a phone, by touch, in the page that a person has open.
func TestAnApprovalIsAcceptedByTouch(t *testing.T) {
	id := "finger"
	b := open(t, 360, 740)
	b.Run(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateTouch))
	e2e.Session(t, id)
	e2e.Send(t, id, "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	b.Sees(ap.ID, "Accept")
	b.Run(chromedp.Tap(`#card-finger\.1 [data-accept]`))
	b.Sees("accept", "acknowledged by codex ✓")
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Errorf("the turn is %s", v.Turn.Status)
	}
}

// Without JavaScript, on a phone, by touch.
func TestAnApprovalIsDeclinedByTouchWithoutScripts(t *testing.T) {
	id := "touch"
	e2e.Session(t, id)
	e2e.Send(t, id, "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	b := open(t, 360, 740)
	b.Run(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateTouch))
	browser.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.GoTo("/")
	b.Run(chromedp.SendKeys(`#card-touch\.1 input[name=reason]`, "not on this host"))
	b.Shoot("console-phone")
	b.Run(chromedp.Tap(`#card-touch\.1 button[value=decline]`))
	b.Run(chromedp.WaitVisible(`.decided`))
	shown, err := chromedp.Run(b.Ctx, chromedp.OuterHTML(`main`))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(shown, "decline") || !strings.Contains(shown, "not on this host") {
		t.Errorf("the card says %q", shown)
	}
	e2e.Ended(t, id, 1)
	for _, d := range e2e.Transcript(t, id) {
		if d.Type == protocol.EntryDecision && d.Data["outcome"] != "decline" {
			t.Errorf("approval %s: the transcript has %+v", ap.ID, d)
		}
	}
}
