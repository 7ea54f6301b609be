package notify

import (
	"encoding/json"
	"fmt"
	"io"
	"mime/quotedprintable"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/receivers"
	"fairlead.dev/fairlead/internal/protocol"
)

// stormEach is how many approvals each of the storm's two sessions has.
const stormEach = 8

// stormScript makes codex ask for many commands at once.
func stormScript() string {
	var b strings.Builder
	b.WriteString("rules:\n- name: storm\n  when: {contains: a storm of commands}\n  steps:\n  - - say: many at once\n")
	for i := range stormEach {
		fmt.Fprintf(&b, "    - shell: {cmd: \"printf %d\", escalate: true, justification: \"one of many\"}\n", i)
	}
	b.WriteString("  - say: done\n- name: others\n  reply: hello\n")
	return b.String()
}

// stormTargets are whom the storm's rule reaches, each by each channel that it may use.
var stormTargets = []string{"hook ", "chat ann", "post ann", "post bob"}

// aTold is one approval, told to one target.
type aTold struct{ to, approval string }

var stormApproval = regexp.MustCompile(`storm-[ab]\.[0-9]+`)

// stormCame returns how often the receivers were told of each approval of the storm. A receiver of
// webhooks drops what comes again with the same id.
func stormCame(t *testing.T) map[aTold]int {
	t.Helper()
	came := map[aTold]int{}
	take := func(to, text string) {
		all := stormApproval.FindAllString(text, -1)
		slices.Sort(all)
		for _, id := range slices.Compact(all) { // a message names an approval in its link, too
			came[aTold{to, id}]++
		}
	}
	ids := map[string]bool{}
	for _, g := range hook.Got() {
		if id := g.Header.Get("Webhook-Id"); !ids[id] {
			ids[id] = true
			take("hook ", string(g.Body))
		}
	}
	for _, g := range slack.Got() {
		take("chat ann", receivers.Form(g).Get("text"))
	}
	for _, l := range mail.Got() {
		_, body, _ := strings.Cut(l.Data, "\r\n\r\n")
		text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
		if err != nil {
			t.Fatalf("a mail cannot be read: %v\n%s", err, l.Data)
		}
		for _, to := range l.To {
			name, _, _ := strings.Cut(to, "@")
			take("post "+name, string(text))
		}
	}
	return came
}

// Many approvals come at once. The worker dies with messages under way, again while every receiver
// fails for longer than the rules have messages tried, and once more while some receivers fail. No
// approval is told twice to anybody by one channel, and the log says of each what became of it.
func TestAStormIsToldOnceOrItIsOnRecordWhyNot(t *testing.T) {
	e2e.Scripted(t, stormScript())
	loads(t, rules(`  - {name: storm, events: [approval.opened], sessions: {ids: ["storm-*"]}, to: ["channel:hook", ann, bob], by: [chat, post]}
limit: {messages: 3, per: 2s}
retry_for: 6s
`), func(v protocol.NotifyStanding) bool {
		return v.Broken == "" && slices.ContainsFunc(v.Rules, func(r protocol.NotifyRule) bool { return r.Name == "storm" })
	})
	t.Cleanup(func() {
		hook.Fail(nil)
		slack.Fail(nil)
		mail.Fail(nil)
	})
	storm := func(id string) {
		t.Helper()
		e2e.Session(t, id)
		e2e.Send(t, id, "a storm of commands")
	}
	underWay := func(taken <-chan struct{}) {
		t.Helper()
		select {
		case <-taken:
		case <-e2e.Within(t).Done():
			t.Fatal("no message is under way")
		}
	}
	each := stormEach * len(stormTargets)

	taken, hold := make(chan struct{}, 10), make(chan struct{})
	for _, fail := range []func(*receivers.Fault){hook.Fail, slack.Fail, mail.Fail} {
		fail(&receivers.Fault{Taken: taken, Hold: hold, Times: 1})
	}
	storm("storm-a")
	for range 3 {
		underWay(taken)
	}
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	hook.Fail(&receivers.Fault{Status: 503})
	slack.Fail(&receivers.Fault{Status: 503})
	mail.Fail(&receivers.Fault{Status: 451}) // after it has read the mail
	close(hold)
	e2e.Back(t, pid)
	e2e.Until(t, "the outage is felt", func() (bool, error) {
		return slices.ContainsFunc(about(t, "storm-a"), func(n protocol.Notice) bool { return strings.Contains(n.Reason, "503") }), nil
	})
	pid = e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Back(t, pid)
	log := settles(t, "storm-a", each)

	taken, hold = make(chan struct{}, 10), make(chan struct{})
	hook.Fail(&receivers.Fault{Taken: taken, Hold: hold, Times: 1})
	slack.Fail(&receivers.Fault{Status: 429, After: "1", Times: 1})
	mail.Fail(&receivers.Fault{Cut: true, Times: 1})
	storm("storm-b")
	underWay(taken)
	pid = e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	close(hold)
	e2e.Back(t, pid)
	log = append(log, settles(t, "storm-b", each)...)

	came, known, states := stormCame(t), map[aTold]bool{}, map[string]int{}
	for _, n := range log {
		is := aTold{n.Channel + " " + n.Person, n.Event.Approval}
		if known[is] {
			t.Errorf("%v is in the log twice", is)
		}
		known[is] = true
		states[n.Event.Session+" "+is.to+" "+string(n.State)]++
		fits := false
		switch n.State {
		case protocol.NoticeSent:
			fits = came[is] == 1
		case protocol.NoticeUnknown:
			fits = came[is] <= 1 && n.Reason != ""
		case protocol.NoticeFailed:
			// A webhook whose answer was lost is sent again, and what came of that counts.
			fits = n.Reason != "" && (came[is] == 0 || came[is] == 1 && n.Channel == "hook")
		}
		if !fits {
			t.Errorf("%v came %d times, and the log says %+v", is, came[is], n)
		}
	}
	for _, session := range []string{"storm-a", "storm-b"} {
		for i := range stormEach {
			for _, to := range stormTargets {
				if is := (aTold{to, fmt.Sprintf("%s.%d", session, i+1)}); !known[is] {
					t.Errorf("%v is not in the log", is)
				}
			}
		}
	}
	for is, times := range came {
		if times > 1 || !known[is] {
			t.Errorf("%v came %d times; in the log: %v", is, times, known[is])
		}
	}
	// All of this did happen: what was under way at a death, what was given up, and what came later.
	if states["storm-a chat ann unknown"] == 0 || states["storm-a post ann unknown"]+states["storm-a post bob unknown"] == 0 ||
		states["storm-a hook  failed"] == 0 || states["storm-b hook  sent"] != stormEach || states["storm-b post ann unknown"]+states["storm-b post bob unknown"] == 0 {
		text, _ := json.Marshal(states)
		t.Errorf("the notices are %s", text)
	}
}
