package console

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A person who has the inbox open sees a request come, reads what it is about, and accepts it
// without a mouse.
func TestAnApprovalIsAcceptedByKeyboard(t *testing.T) {
	id := "keyboard"
	b := open(t, 1440, 900)
	e2e.Session(t, id)
	e2e.Send(t, id, "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	b.sees(ap.ID, "printf 'it ran", "The model claims:", "to see it run", "web-1", "workspace-write", ap.Digest[:12], "left", "Accept")
	b.shoot("console-inbox")
	b.hasNoBarriers("inbox")
	b.run(chromedp.KeyEvent("j"), chromedp.KeyEvent(kb.Enter))
	b.sees("Approval " + ap.ID)
	b.hasNoBarriers("approval")
	b.run(chromedp.KeyEvent("j"), chromedp.KeyEvent("a"), chromedp.KeyEvent(kb.Enter))
	b.sees("accept", "recorded ✓", "acknowledged by codex ✓")
	b.shoot("console-approval")
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Errorf("the turn is %s", v.Turn.Status)
	}
	if said := e2e.LastText(t, id); !strings.Contains(said, "it ran") {
		t.Errorf("codex says %q: the command did not run", said)
	}
	// The form of before counts for nothing.
	b.run(chromedp.NavigateBack(), chromedp.NavigateBack())
	b.sees("Nothing waits for a person.")
}

// Without JavaScript, on a phone, by touch.
func TestAnApprovalIsDeclinedByTouchWithoutScripts(t *testing.T) {
	id := "touch"
	e2e.Session(t, id)
	e2e.Send(t, id, "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	b := open(t, 360, 740)
	b.run(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateTouch))
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.goTo("/")
	b.run(chromedp.SendKeys(`#card-touch\.1 input[name=reason]`, "not on this host"))
	b.shoot("console-phone")
	b.run(chromedp.Tap(`#card-touch\.1 button[value=decline]`))
	b.run(chromedp.WaitVisible(`.decided`))
	shown, err := chromedp.Run(b.ctx, chromedp.OuterHTML(`main`))
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

// The console alone is enough to start a session, to follow it and to close it.
func TestASessionIsStartedFollowedAndClosed(t *testing.T) {
	b := open(t, 1440, 900)
	b.goTo("/sessions/new")
	b.hasNoBarriers("new session")
	b.run(chromedp.SendKeys(`[name=text]`, "you need a command"), chromedp.SendKeys(`[name=seed]`, "team"),
		chromedp.SendKeys(`[name=host]`, "web-1"), chromedp.SendKeys(`[name=id]`, "by-hand"))
	b.shoot("console-new")
	b.run(chromedp.Click(`.start button`))
	b.sees("by-hand", "waiting", "I need a command.", "Accept")
	b.hasNoBarriers("session that waits")
	b.run(chromedp.Click(`[data-accept]`))
	b.sees("acknowledged by codex ✓")
	b.goTo("/sessions/by-hand")
	b.sees("idle", "it ran", "Transcript")
	b.shoot("console-session")
	b.run(chromedp.SendKeys(`.message [name=text]`, "you need a person"), chromedp.Click(`.message .accept`))
	b.goTo("/sessions")
	b.sees("by-hand", "Sessions")
	b.hasNoBarriers("sessions")
	b.goTo("/sessions/by-hand")
	b.sees("idle")
	b.run(chromedp.Click(`.acts form[action$=close] button`))
	e2e.HasClosed(t, "by-hand")
	b.sees("closed")
	b.hasNoBarriers("session that has closed")
	b.goTo("/audit")
	b.sees("Audit", "Outcome")
	b.hasNoBarriers("audit")
}

var hidden = regexp.MustCompile(`name="(key|digest)" value="([^"]*)"`)

// A worker that is killed while it takes a decision has taken it once or not at all: the same
// form, sent again, has one effect.
func TestADecisionOutlivesItsWorker(t *testing.T) {
	id := "killed"
	e2e.Session(t, id)
	e2e.Send(t, id, "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	link := strings.TrimSpace(e2e.OK(t, "ui"))
	base, _, _ := strings.Cut(link, "/login")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar}
	get := func(u string) (int, string) {
		res, err := c.Get(u)
		if err != nil {
			return 0, ""
		}
		defer res.Body.Close()
		var b strings.Builder
		_, _ = io.Copy(&b, io.LimitReader(res.Body, 8<<20))
		return res.StatusCode, b.String()
	}
	if code, page := get(link); code != http.StatusOK || !strings.Contains(page, ap.ID) {
		t.Fatalf("the inbox: %d %s", code, page)
	}
	if code, _ := get(link); code != http.StatusForbidden {
		t.Errorf("the link works twice: %d", code)
	}
	_, page := get(base + "/approvals/" + ap.ID)
	form := url.Values{"outcome": {"accept"}}
	for _, m := range hidden.FindAllStringSubmatch(page[strings.Index(page, "data-decide"):], -1) {
		if !form.Has(m[1]) {
			form.Set(m[1], m[2])
		}
	}
	send := func(origin string) int {
		r, err := http.NewRequestWithContext(e2e.Within(t), "POST", base+"/approvals/"+ap.ID+"/decision", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		res, err := c.Do(r)
		if err != nil {
			return 0
		}
		res.Body.Close()
		return res.StatusCode
	}
	for _, origin := range []string{"", "http://evil.example"} {
		if code := send(origin); code != http.StatusForbidden {
			t.Errorf("a form from %q is answered %d", origin, code)
		}
	}
	first := make(chan int, 1)
	pid := e2e.WorkerPID(t)
	go func() { first <- send(base) }()
	e2e.Kill(t, pid)
	t.Logf("while the worker died: %d", <-first)
	e2e.Back(t, pid)
	e2e.Until(t, "the decision", func() (bool, error) { return send(base) == http.StatusOK, nil })
	if code := send(base); code != http.StatusOK {
		t.Errorf("the same form again: %d", code)
	}
	form.Set("key", "another")
	form.Set("outcome", "decline")
	if code := send(base); code < 400 || code >= 500 {
		t.Errorf("a stale decision is answered %d", code)
	}
	e2e.Ended(t, id, 1)
	n := 0
	for _, e := range e2e.Transcript(t, id) {
		if e.Type == protocol.EntryDecision {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the transcript has %d decisions", n)
	}
}
