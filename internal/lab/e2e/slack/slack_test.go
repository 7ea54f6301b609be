package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/receivers"
	"fairlead.dev/fairlead/internal/protocol"
)

// ann is linked to the owner of the stack by linked. mallory has her name, and is not.
var (
	ann     = receivers.SlackUser{Team: "T0000000001", ID: "U0123456789", Name: "ann"}
	mallory = receivers.SlackUser{Team: "T0000000001", ID: "U0666666666", Name: "ann"}
	foreign = receivers.SlackUser{Team: "T0000000002", ID: "U0123456789", Name: "ann"}
	// guest has the id of ann, in a channel that her workspace shares with theirs.
	guest = receivers.SlackUser{Team: "T0000000001", Home: "T0000000003", ID: "U0123456789", Name: "ann"}
)

// sends sends what make delivers once a worker is connected to Slack. Without a connection nothing
// is delivered, so it may be tried again.
func sends(t *testing.T, what string, make func() (string, error)) (envelope string) {
	t.Helper()
	e2e.Until(t, what, func() (bool, error) {
		var err error
		envelope, err = make()
		return err == nil, nil
	})
	return envelope
}

// answered waits until an envelope was acknowledged, and returns its answer.
func answered(t *testing.T, envelope string) (payload json.RawMessage) {
	t.Helper()
	e2e.Until(t, "the answer to "+envelope, func() (bool, error) {
		var ok bool
		payload, ok = chat.Acked(envelope)
		return ok, nil
	})
	return payload
}

func click(t *testing.T, u receivers.SlackUser, m receivers.SlackMessage, action string, value ...string) {
	t.Helper()
	answered(t, sends(t, "a click", func() (string, error) { return chat.Click(u, m, action, value...) }))
}

// told waits until somebody is told something, after the first n things that they were told.
func told(t *testing.T, u receivers.SlackUser, n int, words ...string) {
	t.Helper()
	e2e.Until(t, fmt.Sprintf("%s is told %q", u.ID, words), func() (bool, error) {
		for _, said := range chat.Whispers(u.ID)[n:] {
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(said, word) }) {
				return true, nil
			}
		}
		return false, nil
	})
}

func command(t *testing.T, u receivers.SlackUser, text string) string {
	t.Helper()
	return string(answered(t, sends(t, "a command", func() (string, error) { return chat.Command(u, text) })))
}

// linked links ann to the stack's owner.
func linked(t *testing.T) {
	t.Helper()
	var code api.SlackCode
	if err := e2e.Lab.JSON(e2e.Within(t), &code, "notify", "link"); err != nil {
		t.Fatal(err)
	}
	if said := command(t, ann, "link "+code.Code); !strings.Contains(said, "decides for") {
		t.Fatalf("the app says %s", said)
	}
}

// asks starts a session whose codex asks for a command, and returns the approval and its message.
func asks(t *testing.T, id string) (ap protocol.Approval, m receivers.SlackMessage) {
	t.Helper()
	e2e.Session(t, id)
	e2e.Send(t, id, "need a command")
	ap = e2e.Open(t, id, 1)[0]
	return ap, message(t, ap.ID)
}

func message(t *testing.T, approval string) (m receivers.SlackMessage) {
	t.Helper()
	e2e.Until(t, "the message about "+approval, func() (bool, error) {
		for _, m = range chat.Messages() {
			if strings.Contains(m.Text, approval) && len(m.Buttons()) > 0 {
				return true, nil
			}
		}
		return false, nil
	})
	return m
}

// bare waits until a message has no button, and returns what it shows.
func bare(t *testing.T, of receivers.SlackMessage) string {
	t.Helper()
	text := ""
	e2e.Until(t, "the buttons are gone", func() (bool, error) {
		for _, m := range chat.Messages() {
			if m.TS == of.TS {
				text = m.Text + " " + string(m.Blocks)
				return len(m.Buttons()) == 0, nil
			}
		}
		return false, errors.New("the message is gone")
	})
	return text
}

// decided waits until codex has acknowledged a decision.
func decided(t *testing.T, approval string) (ap protocol.Approval) {
	t.Helper()
	e2e.Until(t, "the decision about "+approval, func() (bool, error) {
		err := e2e.Lab.JSON(e2e.Within(t), &ap, "approval", "show", approval)
		return err == nil && ap.State == protocol.ApprovalAcknowledged, nil
	})
	return ap
}

func open(t *testing.T, approval string) {
	t.Helper()
	var ap protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &ap, "approval", "show", approval); err != nil || ap.State != protocol.ApprovalOpen {
		t.Errorf("the approval is %s (%v)", ap.State, err)
	}
}

func TestALinkedPersonAcceptsInSlack(t *testing.T) {
	linked(t)
	ap, m := asks(t, "s-accept")
	if shown := string(m.Blocks); !strings.Contains(shown, "ran.txt") || !strings.Contains(shown, ap.Digest) || !strings.Contains(shown, "The model claims") {
		t.Errorf("the message shows %s", shown)
	}
	if link := m.Buttons()["fairlead_open"]; link != "https://fairlead.example.com/approvals/"+ap.ID {
		t.Errorf("its link is %q", link)
	}
	click(t, ann, m, "fairlead_accept")
	if text := bare(t, m); !strings.Contains(text, "Accepted by") || !strings.Contains(text, "ran.txt") {
		t.Errorf("the message is %s", text)
	}
	ap = decided(t, ap.ID)
	if d := ap.Decision; d == nil || d.Outcome != "accept" || d.Reason != "decided in Slack by T0000000001/U0123456789" {
		t.Errorf("the decision is %+v", d)
	}
	e2e.Idle(t, "s-accept")
	if text := e2e.LastText(t, "s-accept"); !strings.Contains(text, "it ran") {
		t.Errorf("codex says %q", text)
	}
	// The same click once more, as of a person who is impatient.
	click(t, ann, m, "fairlead_accept", m.Buttons()["fairlead_accept"])
	if again := decided(t, ap.ID); !again.Decision.At.Equal(ap.Decision.At) {
		t.Errorf("a double click made another decision: %+v, then %+v", ap.Decision, again.Decision)
	}
	records := e2e.OK(t, "audit", "list", "-o", "json")
	for _, want := range []string{"slack.link", "slack.decide", "accept by Slack account T0000000001/U0123456789"} {
		if !strings.Contains(records, want) {
			t.Errorf("not on record: %s", want)
		}
	}
}

// declines presses the button for a reason, and sends the form.
func declines(t *testing.T, m receivers.SlackMessage, reason string) {
	t.Helper()
	before := len(chat.Views())
	click(t, ann, m, "fairlead_reason")
	e2e.Until(t, "the form", func() (bool, error) { return len(chat.Views()) > before, nil })
	form := chat.Views()[before]
	answered(t, sends(t, "the form is sent", func() (string, error) { return chat.Submit(ann, form, reason) }))
}

func TestTheReasonOfADeclineIsOnRecordAndInTheMessage(t *testing.T) {
	linked(t)
	ap, m := asks(t, "s-decline")
	declines(t, m, "use the other file")
	ap = decided(t, ap.ID)
	if d := ap.Decision; d == nil || d.Outcome != "decline" || d.Reason != "decided in Slack by T0000000001/U0123456789: use the other file" {
		t.Errorf("the decision is %+v", d)
	}
	if text := bare(t, m); !strings.Contains(text, "Declined by") || !strings.Contains(text, "use the other file") || !strings.Contains(text, "ran.txt") {
		t.Errorf("the message is %s", text)
	}
}

// codex takes no reason for a command that is declined. A tool that asks a person passes it on.
func TestTheModelReadsWhyAQuestionWasDeclined(t *testing.T) {
	linked(t)
	e2e.Session(t, "s-question", "--tools", "ask_human")
	e2e.Send(t, "s-question", "you need a person")
	ap := e2e.Open(t, "s-question", 1)[0]
	declines(t, message(t, ap.ID), "ask me tomorrow")
	e2e.Idle(t, "s-question")
	if said := e2e.LastText(t, "s-question"); !strings.Contains(said, "ask me tomorrow") {
		t.Errorf("the model said %q", said)
	}
}

func TestOnlyLinkedAccountsDecide(t *testing.T) {
	linked(t)
	ap, m := asks(t, "s-forged")
	for _, u := range []receivers.SlackUser{mallory, foreign, guest} {
		before := len(chat.Whispers(u.ID))
		click(t, u, m, "fairlead_accept")
		told(t, u, before, "not linked")
	}
	open(t, ap.ID)
	if said := command(t, mallory, "link AAAAAAAAAAAAAAAAAAAAAAAAAA"); !strings.Contains(said, "does not count") {
		t.Errorf("a code that nobody was given: %s", said)
	}
	var code api.SlackCode
	if err := e2e.Lab.JSON(e2e.Within(t), &code, "notify", "link"); err != nil {
		t.Fatal(err)
	}
	command(t, ann, "link "+code.Code)
	if said := command(t, mallory, "link "+code.Code); !strings.Contains(said, "does not count") {
		t.Errorf("a code that was used: %s", said)
	}
	if !strings.Contains(e2e.OK(t, "notify", "link", "--list"), "T0000000001/U0123456789") {
		t.Error("the account is not listed")
	}
	e2e.OK(t, "notify", "link", "--remove", "T0000000001/U0123456789")
	before := len(chat.Whispers(ann.ID))
	click(t, ann, m, "fairlead_accept")
	told(t, ann, before, "not linked")
	open(t, ap.ID)
	// Whoever decides elsewhere, the buttons go.
	e2e.OK(t, "approval", "decline", ap.ID)
	if text := bare(t, m); !strings.Contains(text, "Declined by") {
		t.Errorf("the message is %s", text)
	}
}

func TestAClickCountsForWhatWasShown(t *testing.T) {
	linked(t)
	ap, m := asks(t, "s-stale")
	value, err := json.Marshal(map[string]string{"a": ap.ID, "d": strings.Repeat("0", 64)})
	if err != nil {
		t.Fatal(err)
	}
	before := len(chat.Whispers(ann.ID))
	click(t, ann, m, "fairlead_accept", string(value))
	told(t, ann, before, "was not recorded")
	open(t, ap.ID)
	for _, nonsense := range []string{"", "{", `{"a":"../x","d":"` + ap.Digest + `"}`, `{"a":"` + ap.ID + `"}`, strings.Repeat("x", 5000)} {
		click(t, ann, m, "fairlead_accept", nonsense)
	}
	open(t, ap.ID)
	e2e.OK(t, "approval", "decline", ap.ID, "--reason", "not now")
	bare(t, m)
	before = len(chat.Whispers(ann.ID))
	click(t, ann, m, "fairlead_accept", m.Buttons()["fairlead_accept"]) // a browser that still shows them
	told(t, ann, before, "Declined by", "not now")
	if d := decided(t, ap.ID).Decision; d.Outcome != "decline" {
		t.Errorf("the decision is %+v", d)
	}
}

func TestAConnectionThatEndsOrDiesSilentlyIsReplaced(t *testing.T) {
	linked(t)
	ap, m := asks(t, "s-cut")
	chat.Disconnect() // as Slack does every few hours
	e2e.Until(t, "another connection", func() (bool, error) { return chat.Connections() > 0, nil })
	chat.Silence()
	e2e.Until(t, "a connection after a silent death", func() (bool, error) { return chat.Connections() > 0, nil })
	chat.Refuse(true)
	chat.Disconnect()
	e2e.Until(t, "Slack is out", func() (bool, error) { return chat.Connections() == 0, nil })
	chat.Refuse(false)
	click(t, ann, m, "fairlead_accept")
	if d := decided(t, ap.ID).Decision; d.Outcome != "accept" {
		t.Errorf("the decision is %+v", d)
	}
	bare(t, m)
}

// A worker dies after it has recorded a click, and before Slack knows. The next one takes the
// buttons away, and the command runs once.
func TestAWorkersDeathInTheMiddleOfAClick(t *testing.T) {
	linked(t)
	ap, m := asks(t, "s-dies")
	taken, hold := make(chan struct{}, 10), make(chan struct{})
	chat.Fail(&receivers.Fault{Taken: taken, Hold: hold, Times: 1, Only: "/chat.update"})
	sends(t, "a click", func() (string, error) { return chat.Click(ann, m, "fairlead_accept") })
	select {
	case <-taken: // the decision is on record, and the message is about to lose its buttons
	case <-e2e.Within(t).Done():
		t.Fatal("the worker did not change the message")
	}
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	close(hold)
	e2e.Back(t, pid)
	first := decided(t, ap.ID)
	click(t, ann, m, "fairlead_accept", m.Buttons()["fairlead_accept"]) // Slack showed a failure, so the person clicks again
	bare(t, m)
	e2e.Idle(t, "s-dies")
	if again := decided(t, ap.ID); !again.Decision.At.Equal(first.Decision.At) || again.Decision.Outcome != "accept" {
		t.Errorf("first %+v, then %+v", first.Decision, again.Decision)
	}
}

// A worker dies before it has looked at a click. Nothing is decided until the person clicks again.
func TestAClickThatNoWorkerSawDecidesNothing(t *testing.T) {
	linked(t)
	ap, m := asks(t, "s-unseen")
	pid := e2e.WorkerPID(t)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	sends(t, "a click", func() (string, error) { return chat.Click(ann, m, "fairlead_accept") })
	e2e.Kill(t, pid)
	e2e.Back(t, pid)
	open(t, ap.ID)
	click(t, ann, m, "fairlead_accept")
	if d := decided(t, ap.ID).Decision; d.Outcome != "accept" {
		t.Errorf("the decision is %+v", d)
	}
	bare(t, m)
}
