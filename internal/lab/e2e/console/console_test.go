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
	b.Run(chromedp.NavigateBack(), chromedp.NavigateBack())
	b.Sees("Nothing waits for a person.")
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

// The console alone is enough to start a session, to follow it and to close it.
func TestASessionIsStartedFollowedAndClosed(t *testing.T) {
	b := open(t, 1440, 900)
	b.GoTo("/sessions/new")
	b.HasNoBarriers("new session")
	b.Run(chromedp.SendKeys(`[name=text]`, "you need a command"), chromedp.SendKeys(`[name=seed]`, "team"),
		chromedp.SendKeys(`[name=host]`, "web-1"), chromedp.SendKeys(`[name=id]`, "by-hand"))
	b.Shoot("console-new")
	b.Run(chromedp.Click(`.start button`))
	b.Sees("by-hand", "waiting", "I need a command.", "Accept")
	b.HasNoBarriers("session that waits")
	b.Run(chromedp.Click(`[data-accept]`))
	b.Sees("acknowledged by codex ✓")
	b.GoTo("/sessions/by-hand")
	b.Sees("idle", "it ran", "Transcript")
	b.Shoot("console-session")
	b.Run(chromedp.SendKeys(`.message [name=text]`, "you need a person"), chromedp.Click(`.message .accept`))
	b.GoTo("/sessions")
	b.Sees("by-hand", "Sessions")
	b.HasNoBarriers("sessions")
	b.GoTo("/sessions/by-hand")
	b.Sees("idle")
	b.Run(chromedp.Click(`.acts form[action$=close] button`))
	e2e.HasClosed(t, "by-hand")
	b.Sees("closed")
	b.HasNoBarriers("session that has closed")
	b.GoTo("/audit")
	b.Sees("Audit", "Outcome")
	b.HasNoBarriers("audit")
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
