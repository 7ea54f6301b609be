package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/receivers"
	"fairlead.dev/fairlead/internal/protocol"
)

// asks starts a session whose codex asks for a command, and returns the approval.
func asks(t *testing.T, id string) protocol.Approval {
	t.Helper()
	e2e.Session(t, id)
	e2e.Send(t, id, "need a command")
	return e2e.Open(t, id, 1)[0]
}

// about returns the notices about a session that are in the log.
func about(t *testing.T, session string) []protocol.Notice {
	t.Helper()
	var v protocol.NoticesView
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "notify", "log", "--session", session); err != nil {
		t.Fatal(err)
	}
	return v.Notices
}

// settles waits until n notices about a session are done, and returns all.
func settles(t *testing.T, session string, n int) (all []protocol.Notice) {
	t.Helper()
	e2e.Until(t, "the notices are done", func() (bool, error) {
		all = about(t, session)
		done := 0
		for _, x := range all {
			if x.State != protocol.NoticePending {
				done++
			}
		}
		return done >= n, nil
	})
	return all
}

func hooked(session string) (all []receivers.Got) {
	for _, g := range hook.Got() {
		if strings.Contains(string(g.Body), `"`+session+`"`) {
			all = append(all, g)
		}
	}
	return all
}

func mailed(to, session string) (all []string) {
	for _, l := range mail.Got() {
		if slices.Contains(l.To, to) && strings.Contains(l.Data, session) {
			all = append(all, l.Data)
		}
	}
	return all
}

func chatted(session string) (all []receivers.Got) {
	for _, g := range slack.Got() {
		if strings.Contains(receivers.Form(g).Get("text"), session) {
			all = append(all, g)
		}
	}
	return all
}

func TestAnApprovalIsToldOnceByEachChannelAndWithoutTheCommand(t *testing.T) {
	ap := asks(t, "all-told1")
	all := settles(t, "all-told1", 4)
	if len(all) != 4 {
		t.Fatalf("there are %d notices: %+v", len(all), all)
	}
	for _, n := range all {
		if n.State != protocol.NoticeSent || n.Attempts != 1 || n.Event.Approval != ap.ID || n.Event.Kind != protocol.EventApprovalOpened {
			t.Errorf("the notice by %s is %+v", n.Channel, n)
		}
	}
	got := hooked("all-told1")
	if len(got) != 1 {
		t.Fatalf("the webhook came %d times", len(got))
	}
	h := got[0].Header
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(hookSecret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.Get("Webhook-Id") + "." + h.Get("Webhook-Timestamp") + "." + string(got[0].Body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); h.Get("Webhook-Signature") != want {
		t.Errorf("its signature is %s, want %s", h.Get("Webhook-Signature"), want)
	}
	var body struct {
		Type string `json:"type"`
		Data struct {
			Events []struct{ Approval, Session, Host, Link string } `json:"events"`
		} `json:"data"`
	}
	if err := json.Unmarshal(got[0].Body, &body); err != nil || body.Type != protocol.EventApprovalOpened || len(body.Data.Events) != 1 {
		t.Fatalf("it is %s (%v)", got[0].Body, err)
	}
	link := "https://fairlead.example.com/approvals/" + ap.ID
	if e := body.Data.Events[0]; e.Approval != ap.ID || e.Session != "all-told1" || e.Host != "web-1" || e.Link != link {
		t.Errorf("its event is %+v", e)
	}
	letters, chats, pushes := mailed("ann@example.com", "all-told1"), chatted("all-told1"), device.Service.Got()
	if len(letters) != 1 || len(chats) != 1 || len(pushes) != 1 {
		t.Fatalf("%d mails, %d chats and %d pushes came", len(letters), len(chats), len(pushes))
	}
	pushed, err := device.Open(pushes[0])
	if err != nil {
		t.Fatalf("open the push: %v", err)
	}
	if !strings.HasPrefix(pushes[0].Header.Get("Authorization"), "vapid t=") || pushes[0].Header.Get("Urgency") != "high" {
		t.Errorf("the push has %+v", pushes[0].Header)
	}
	chat := receivers.Form(chats[0])
	if chat.Get("channel") != "U0123456789" {
		t.Errorf("the chat went to %s", chat.Get("channel"))
	}
	for name, text := range map[string]string{"mail": letters[0], "chat": chat.Get("text"), "push": string(pushed)} {
		if !strings.Contains(text, link) && name != "mail" || !strings.Contains(text, ap.ID) {
			t.Errorf("the %s does not say where: %s", name, text)
		}
		if strings.Contains(text, "printf") || strings.Contains(text, "ran.txt") {
			t.Errorf("the %s has the command: %s", name, text)
		}
	}
	if !strings.Contains(letters[0], "Message-ID: <msg_") || !strings.Contains(letters[0], "Auto-Submitted: auto-generated") {
		t.Errorf("the mail is %s", letters[0])
	}
}

func TestTheEndOfATurnAndOfASessionIsTold(t *testing.T) {
	e2e.Session(t, "hook-told2")
	e2e.Turn(t, "hook-told2", "hello")
	settles(t, "hook-told2", 1)
	e2e.OK(t, "session", "close", "hook-told2")
	all := settles(t, "hook-told2", 2)
	if len(all) != 2 || all[0].Event.Kind != protocol.EventTurnEnded || all[0].Event.Turn != 1 || all[1].Event.Kind != protocol.EventSessionEnded {
		t.Errorf("the notices are %+v", all)
	}
	if n := len(hooked("hook-told2")); n != 2 {
		t.Errorf("the webhook came %d times", n)
	}
}

func TestASessionOfNoRuleIsNotTold(t *testing.T) {
	e2e.Session(t, "untold")
	e2e.Turn(t, "untold", "hello")
	if all := about(t, "untold"); len(all) != 0 {
		t.Errorf("the notices are %+v", all)
	}
}

// An approval is escalated when the rule's time before its expiry begins, and not earlier.
func TestWhatExpiresSoonIsEscalatedInTime(t *testing.T) {
	e2e.Session(t, "soon-later", "--approval-timeout", "100h")
	e2e.Session(t, "soon-now", "--approval-timeout", "90m")
	var ap protocol.Approval
	for _, id := range []string{"soon-later", "soon-now"} {
		e2e.Send(t, id, "need a command")
		ap = e2e.Open(t, id, 1)[0]
	}
	all := settles(t, "soon-now", 1)
	if len(all) != 1 || all[0].State != protocol.NoticeSent || all[0].Event.Kind != protocol.EventApprovalExpiring || all[0].Event.Approval != ap.ID || all[0].Person != "bob" {
		t.Errorf("the notices are %+v", all)
	}
	if letters := mailed("bob@example.com", "soon-now"); len(letters) != 1 || !strings.Contains(letters[0], "approval expires soon") {
		t.Errorf("bob got %q", letters)
	}
	if all := about(t, "soon-later"); len(all) != 0 {
		t.Errorf("days before it expires, the notices are %+v", all)
	}
}

func TestATestIsSentAtOnce(t *testing.T) {
	out := e2e.OK(t, "notify", "test", "bob")
	if !strings.Contains(out, "sent") || !strings.Contains(out, "post") {
		t.Errorf("ctl says %s", out)
	}
	e2e.Exits(t, 1, "notify", "test", "nobody-of-the-rules")
}

// A worker that dies while it sends: the webhook comes again with the same id, which a receiver
// drops; the mail does not, because nobody can know whether it came.
func TestAWorkersDeathInTheMiddleOfASend(t *testing.T) {
	taken, hold := make(chan struct{}, 10), make(chan struct{})
	hook.Fail(&receivers.Fault{Taken: taken, Hold: hold, Times: 1})
	mail.Fail(&receivers.Fault{Taken: taken, Hold: hold, Times: 1})
	asks(t, "hook-dies1")
	asks(t, "mail-dies2")
	for range 2 {
		select {
		case <-taken:
		case <-e2e.Within(t).Done():
			t.Fatal("the messages are not sent")
		}
	}
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Back(t, pid)
	close(hold)
	if all := settles(t, "hook-dies1", 1); len(all) != 1 || all[0].State != protocol.NoticeSent {
		t.Errorf("the webhook's notice is %+v", all)
	}
	got := hooked("hook-dies1")
	if len(got) != 2 || got[0].Header.Get("Webhook-Id") != got[1].Header.Get("Webhook-Id") {
		t.Errorf("the webhook came %d times", len(got))
	}
	all := settles(t, "mail-dies2", 1)
	if len(all) != 1 || all[0].State != protocol.NoticeUnknown || !strings.Contains(all[0].Reason, "died") {
		t.Errorf("the mail's notice is %+v", all)
	}
	if n := len(mailed("bob@example.com", "mail-dies2")); n != 1 {
		t.Errorf("the mail came %d times", n)
	}
}

func TestAMailServerThatFailsAfterItHasReadTheMail(t *testing.T) {
	mail.Fail(&receivers.Fault{Status: 451, Times: 2})
	asks(t, "mail-mail1")
	if all := settles(t, "mail-mail1", 1); len(all) != 1 || all[0].State != protocol.NoticeSent || all[0].Attempts != 3 {
		t.Errorf("with two refusals for now, the notice is %+v", all)
	}
	mail.Fail(&receivers.Fault{Cut: true, Times: 1})
	asks(t, "mail-mail2")
	if all := settles(t, "mail-mail2", 1); len(all) != 1 || all[0].State != protocol.NoticeUnknown {
		t.Errorf("without an answer, the notice is %+v", all)
	}
	mail.Fail(&receivers.Fault{Status: 550, Times: 1})
	asks(t, "mail-mail3")
	if all := settles(t, "mail-mail3", 1); len(all) != 1 || all[0].State != protocol.NoticeFailed || !strings.Contains(all[0].Reason, "550") {
		t.Errorf("with a refusal, the notice is %+v", all)
	}
}

// loads replaces the rules and waits until they are in force, or are known to be broken.
func loads(t *testing.T, text string, ok func(protocol.NotifyStanding) bool) {
	t.Helper()
	path := filepath.Join(dir, "rules.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	t.Cleanup(func() { write(rules("")) })
	e2e.Until(t, "the rules are read", func() (bool, error) {
		var v protocol.NotifyStanding
		err := e2e.Lab.JSON(e2e.Within(t), &v, "notify", "rules")
		return err == nil && ok(v), nil
	})
}

func TestBrokenRulesLeaveTheLastGoodOnesInForce(t *testing.T) {
	good := rules("")
	line := fmt.Sprint("line ", 1+strings.Count(good[:strings.Index(good, "events: [approval.opened]")], "\n"))
	loads(t, strings.Replace(good, "events: [approval.opened]", "events: [approval.open]", 1), func(v protocol.NotifyStanding) bool { return v.Broken != "" })
	var v protocol.NotifyStanding
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "notify", "rules"); err != nil || !strings.Contains(v.Broken, line) || len(v.Rules) != strings.Count(good, "events: ") {
		t.Errorf("it is broken: %q, with %d rules (%v)", v.Broken, len(v.Rules), err)
	}
	asks(t, "hook-broken1")
	if all := settles(t, "hook-broken1", 1); all[0].State != protocol.NoticeSent {
		t.Errorf("the notice is %+v", all)
	}
}

func TestAnOutageOfSlackThatOutlastsAllAttempts(t *testing.T) {
	loads(t, rules("retry_for: 6s\n"), func(v protocol.NotifyStanding) bool { return v.Broken == "" })
	slack.Fail(&receivers.Fault{Status: 503})
	asks(t, "chat-slack1")
	all := settles(t, "chat-slack1", 1)
	if len(all) != 1 || all[0].State != protocol.NoticeFailed || all[0].Attempts < 2 || !strings.Contains(all[0].Reason, "503") || !strings.Contains(all[0].Reason, "given up") {
		t.Errorf("the notice is %+v", all)
	}
	slack.Fail(nil)
	asks(t, "chat-slack2")
	if all := settles(t, "chat-slack2", 1); len(all) != 1 || all[0].State != protocol.NoticeSent {
		t.Errorf("after the outage, the notice is %+v", all)
	}
	if n := len(chatted("chat-slack1")); n != 0 {
		t.Errorf("the first one came %d times", n)
	}
}
