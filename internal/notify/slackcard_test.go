package notify

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

// chat are rules with one channel of Slack, which has more keys.
func chat(more string) string {
	return fmt.Sprintf("channels:\n  chat: {kind: slack, token_file: bot, channel: C01, %s}\nrules:\n  - {name: r, events: [approval.opened], to: [\"channel:chat\"]}\n", more)
}

// asked is a command that waits for a decision, and its digest.
func asked(change func(*protocol.Approval)) protocol.Approval {
	ap := protocol.Approval{ID: "s1.1", Session: "s1", Kind: string(protocol.KindCommand), Command: "make install", CWD: "/srv/work", Summary: "make install",
		Offered: []string{"accept", "decline", "cancel"}, State: protocol.ApprovalOpen, Digested: &protocol.Digested{}}
	if change != nil {
		change(&ap)
	}
	if ap.Digest == "" {
		c, _ := ap.Request().Content()
		ap.Digest = c.Digest()
	}
	return ap
}

func TestACardAcceptsOnlyWhatItShowsWhole(t *testing.T) {
	c := channel{Kind: Slack, Decide: true}
	for what, one := range map[string]struct {
		change          func(*protocol.Approval)
		accept, decline bool
	}{
		"a command": {nil, true, true},
		"one with an amendment": {func(ap *protocol.Approval) {
			ap.Amendment, ap.Digested.Amendment = []string{"make"}, json.RawMessage(`["make"]`)
		}, true, true},
		"one that is cut":                {func(ap *protocol.Approval) { ap.Truncated = true }, false, true},
		"one that is too long for Slack": {func(ap *protocol.Approval) { ap.Command = strings.Repeat("x", maxShown+1) }, false, true},
		"one with hidden characters":     {func(ap *protocol.Approval) { ap.Command = "ls \u202egnp.exe" }, false, true},
		"one that reaches the network": {func(ap *protocol.Approval) {
			ap.Network, ap.Digested.Network = "example.com", json.RawMessage(`{"host":"example.com"}`)
		}, false, true},
		"one with permissions":            {func(ap *protocol.Approval) { ap.Permissions = json.RawMessage(`{"fileSystem":{"write":["/"]}}`) }, false, true},
		"something else with the command": {func(ap *protocol.Approval) { ap.Digested.Action = "write to it" }, false, true},
		"another digest":                  {func(ap *protocol.Approval) { ap.Digest = strings.Repeat("0", 64) }, false, true},
		"a change of files": {func(ap *protocol.Approval) {
			ap.Kind, ap.Changes = string(protocol.KindFileChange), []protocol.Change{{Path: "a", Kind: "add"}}
		}, false, true},
		"one that only signatures decide": {func(ap *protocol.Approval) { ap.Signed = true }, false, false},
		"one of high risk":                {func(ap *protocol.Approval) { ap.Ruling = &protocol.Ruling{Rule: "r", Risk: protocol.RiskHigh} }, false, true},
		"one of no risk":                  {func(ap *protocol.Approval) { ap.Ruling = &protocol.Ruling{Rule: "r"} }, true, true},
		"one that was decided":            {func(ap *protocol.Approval) { ap.State = protocol.ApprovalDecided }, false, false},
		"what cannot be declined":         {func(ap *protocol.Approval) { ap.Offered = []string{"accept"} }, true, false},
	} {
		ap := asked(one.change)
		m := Message{ID: "m", Events: []Told{{NotifyEvent: protocol.NotifyEvent{Kind: protocol.EventApprovalOpened, Approval: ap.ID, Session: ap.Session}, Link: "https://fairlead.example.com/approvals/s1.1", Ask: &ap}}}
		blocks, decides := c.blocks(m)
		raw, err := json.Marshal(blocks)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		if strings.Contains(text, CardAccept) != one.accept || strings.Contains(text, CardDecline) != one.decline || decides != (one.accept || one.decline) || !strings.Contains(text, CardOpen) {
			t.Errorf("%s: %t %s", what, decides, text)
		}
		if one.accept && (!strings.Contains(text, "make install") || !strings.Contains(text, "/srv/work") || !strings.Contains(text, ap.Digest)) {
			t.Errorf("%s: it does not show all: %s", what, text)
		}
		c := Card{Blocks: withoutButtons(blocks)}
		settled, err := json.Marshal(c.Settled("Accepted by ann"))
		if err != nil || strings.Contains(string(settled), `"actions"`) || !strings.Contains(string(settled), "Accepted by ann") || one.accept && !strings.Contains(string(settled), "make install") {
			t.Errorf("%s: it becomes %s (%v)", what, settled, err)
		}
	}
}

func TestWithoutDecideACardOnlyOpens(t *testing.T) {
	ap := asked(nil)
	e := Told{NotifyEvent: protocol.NotifyEvent{Kind: protocol.EventApprovalOpened, Approval: ap.ID}, Link: "https://fairlead.example.com/approvals/s1.1", Ask: &ap}
	blocks, decides := channel{Kind: Slack}.blocks(Message{Events: []Told{e}})
	raw, err := json.Marshal(blocks)
	if err != nil || decides || !strings.Contains(string(raw), CardOpen) || strings.Contains(string(raw), CardDecline) || strings.Contains(string(raw), "make install") {
		t.Errorf("it is %s (%v)", raw, err)
	}
	if blocks, decides := (channel{Kind: Slack, Decide: true}).blocks(Message{Events: []Told{e, e}}); len(blocks) > 0 || decides {
		t.Errorf("several events: %v", blocks)
	}
}

func TestAnAppNeedsBothOfItsTokens(t *testing.T) {
	dir := t.TempDir()
	r, err := Parse([]byte("details: summary\n"+chat("decide: true, app_token_file: app")), dir)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(dir+"/"+name, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("bot", "xoxb-1")
	for _, text := range []string{"", "xoxb-2"} {
		if text != "" {
			write("app", text)
		}
		if apps, problems := r.SlackApps(); len(apps) != 0 || len(problems) != 1 || strings.Contains(problems[0].Error(), "xox") {
			t.Errorf("with %q: %v, %v", text, apps, problems)
		}
	}
	write("app", "xapp-1")
	if apps, problems := r.SlackApps(); len(apps) != 1 || len(problems) != 0 || apps[0].Bot != "xoxb-1" || apps[0].App != "xapp-1" {
		t.Errorf("apps are %+v (%v)", apps, problems)
	}
	if private := r.Private(); len(private) != 2 {
		t.Errorf("private are %q", private)
	}
}
