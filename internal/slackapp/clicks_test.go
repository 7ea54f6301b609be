package slackapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/lab/receivers"
	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
)

// desk is an App with a Slack, whose API and sessions answer what a test says.
type desk struct {
	*App
	slack  *receivers.Slack
	client *slack.Client
	blobs  *memory

	mu      sync.Mutex
	answer  http.HandlerFunc // of the API, to a decision
	asks    func(session string) ([]protocol.Approval, error)
	asked   []map[string]string // bodies of decisions
	records []string            // verb, principal and why it was refused
}

var digest = strings.Repeat("a", 64)

func newDesk(t *testing.T) *desk {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"bot": "xoxb-1", "app": "xapp-1"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := &desk{slack: receivers.NewSlack("xoxb-1", "xapp-1"), blobs: &memory{}}
	t.Cleanup(d.slack.Close)
	rules, err := notify.Parse(fmt.Appendf(nil, `details: summary
allow_private: [127.0.0.0/8]
channels:
  chat: {kind: slack, token_file: bot, app_token_file: app, decide: true, channel: C01, api: "%[1]s/api/"}
  more: {kind: slack, token_file: bot, app_token_file: app, decide: true, channel: C02, api: "%[1]s/api/"}
rules:
  - {name: r, events: [approval.opened], sessions: {ids: ["s*"]}, to: ["channel:chat", "channel:more"]}
`, d.slack.URL), dir)
	if err != nil {
		t.Fatal(err)
	}
	d.asks = func(string) ([]protocol.Approval, error) {
		return []protocol.Approval{decidedAs(protocol.ApprovalDecided)}, nil
	}
	d.App = New(Options{Rules: func() *notify.Rules { return rules }, Store: d.blobs, Logger: slog.New(slog.DiscardHandler),
		Asks: func(_ context.Context, session string) ([]protocol.Approval, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.asks(session)
		}})
	d.api = d
	apps, problems := rules.SlackApps()
	if len(apps) != 2 {
		t.Fatal(problems)
	}
	d.client = apps[0].Client()
	d.link(t, account{apiOf(d.slack.URL + "/api/"), "T01", "U01"}, "ann")
	return d
}

func (d *desk) link(t *testing.T, of account, principal string) {
	t.Helper()
	text, _, err := d.NewCode(t.Context(), principal)
	if err == nil {
		_, _, err = d.links.redeem(t.Context(), text, of)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (d *desk) Inside(api.Person) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_ = json.NewEncoder(w).Encode(decidedAs(protocol.ApprovalDecided))
			return
		}
		var body map[string]string
		_ = json.NewDecoder(r.Body).Decode(&body)
		d.mu.Lock()
		d.asked = append(d.asked, body)
		d.mu.Unlock()
		d.answer(w, r)
	})
}

func (d *desk) Did(p api.Person, verb, _, _ string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records = append(d.records, fmt.Sprintf("%s %s %v", verb, p.Principal, err))
}

func decidedAs(s protocol.ApprovalState) protocol.Approval {
	return protocol.Approval{ID: "s1.1", Session: "s1", Digest: digest, State: s, Decision: &protocol.Decision{Outcome: "accept", By: "ann", Reason: "so"}}
}

// says answers with a status, and with an approval or an error.
func says(status int, s protocol.ApprovalState) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		if status == http.StatusOK {
			_ = json.NewEncoder(w).Encode(decidedAs(s))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"detail": "something is amiss"})
	}
}

// post posts a card to Slack, and returns where it is.
func (d *desk) post(t *testing.T) (at place, m receivers.SlackMessage) {
	t.Helper()
	value, err := json.Marshal(notify.CardValue{Approval: "s1.1", Digest: digest})
	if err != nil {
		t.Fatal(err)
	}
	words := func(s string) *slack.TextBlockObject {
		return slack.NewTextBlockObject(slack.PlainTextType, s, false, false)
	}
	chat, ts, err := d.client.PostMessageContext(t.Context(), "C01", slack.MsgOptionText("a command waits", true), slack.MsgOptionBlocks(
		slack.NewSectionBlock(words("make install"), nil, nil), slack.NewActionBlock("fairlead", slack.NewButtonBlockElement(notify.CardAccept, string(value), words("Accept")))))
	if err != nil {
		t.Fatal(err)
	}
	return place{Channel: "chat", Chat: chat, TS: ts}, d.at(t, ts)
}

func (d *desk) at(t *testing.T, ts string) receivers.SlackMessage {
	t.Helper()
	for _, m := range d.slack.Messages() {
		if m.TS == ts {
			return m
		}
	}
	t.Fatal("the message is gone")
	return receivers.SlackMessage{}
}

// click presses the button of a card as ann.
func (d *desk) click(ctx context.Context, at place, m receivers.SlackMessage, home string) {
	cb := slack.InteractionCallback{Type: slack.InteractionTypeBlockActions, Team: slack.Team{ID: "T01"}, User: slack.User{ID: "U01", TeamID: home},
		Container:      slack.Container{ChannelID: at.Chat, MessageTs: at.TS},
		ActionCallback: slack.ActionCallbacks{BlockActions: []*slack.BlockAction{{ActionID: notify.CardAccept, Value: m.Buttons()[notify.CardAccept]}}}}
	_ = json.Unmarshal(m.Blocks, &cb.Message.Blocks)
	d.clicked(ctx, d.client, at.Channel, d.slack.URL+"/api", cb)
}

// A decision may have come to the session although the API answers that something failed. Neither
// the person nor the record is told that it was not recorded.
func TestAnUnknownOutcomeIsNeitherToldNorRecordedAsARefusal(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	for what, c := range map[string]struct {
		answer http.HandlerFunc
		ctx    context.Context
	}{
		"Temporal does not answer": {says(http.StatusServiceUnavailable, ""), t.Context()},
		"an answer came too late":  {says(http.StatusGatewayTimeout, ""), t.Context()},
		"the worker failed":        {says(http.StatusInternalServerError, ""), t.Context()},
		"the click took all its time": {func(w http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
			says(http.StatusConflict, "")(w, r)
		}, ended},
	} {
		d := newDesk(t)
		d.answer = c.answer
		at, m := d.post(t)
		d.click(c.ctx, at, m, "T01")
		if said := d.slack.Whispers("U01"); len(said) != 1 || !strings.Contains(said[0], "not known") || !strings.Contains(said[0], "something is amiss") {
			t.Errorf("%s: she is told %q", what, said)
		}
		if len(d.records) > 0 {
			t.Errorf("%s: on record: %q", what, d.records)
		}
		if len(d.at(t, at.TS).Buttons()) == 0 {
			t.Errorf("%s: the buttons are gone", what)
		}
	}
	d := newDesk(t)
	d.answer = says(http.StatusForbidden, "")
	at, m := d.post(t)
	d.click(t.Context(), at, m, "T01")
	if said := d.slack.Whispers("U01"); len(said) != 1 || !strings.Contains(said[0], "was not recorded: something is amiss") {
		t.Errorf("of a refusal she is told %q", said)
	}
	if len(d.records) != 1 || !strings.Contains(d.records[0], "slack.decide ann something is amiss") {
		t.Errorf("of a refusal, on record: %q", d.records)
	}
}

// The API says "decided" of what Temporal keeps for a session that no worker serves. Only what the
// session itself says ends a card.
func TestACardKeepsItsButtonsUntilTheSessionHasJudged(t *testing.T) {
	for what, c := range map[string]struct {
		state protocol.ApprovalState
		err   error
		keeps bool
	}{
		"nobody serves the session": {"", errkind.Unreachable("no worker answers"), true},
		"it still asks":             {protocol.ApprovalOpen, nil, true},
		"nobody has judged it":      {protocol.ApprovalUnjudged, nil, true},
		"it was decided":            {protocol.ApprovalDecided, nil, false},
		"codex has the answer":      {protocol.ApprovalAcknowledged, nil, false},
	} {
		d := newDesk(t)
		d.answer = says(http.StatusOK, protocol.ApprovalDecided)
		d.asks = func(string) ([]protocol.Approval, error) { return []protocol.Approval{decidedAs(c.state)}, c.err }
		at, m := d.post(t)
		card := notify.Card{Channel: "chat", Chat: at.Chat, TS: at.TS, Approval: "s1.1", Session: "s1", Digest: digest, Blocks: m.Blocks}
		d.Posted(t.Context(), card)
		d.click(t.Context(), at, m, "T01")
		now, said := d.at(t, at.TS), d.slack.Whispers("U01")
		_, kept := d.cards.get(t.Context(), cardKey(card))
		if (now.Edits == 0) != c.keeps || kept != c.keeps || (len(said) == 1) != c.keeps {
			t.Errorf("%s: %d edits, the card is kept: %t, she is told %q", what, now.Edits, kept, said)
		}
		if c.keeps && len(said) == 1 && !strings.Contains(said[0], "when a worker of the session judges it") {
			t.Errorf("%s: she is told %q", what, said)
		}
	}
}

// A form does not carry the message, and another worker, or another channel of the app, may have
// posted it.
func TestWhatWasDecidedStaysInTheMessage(t *testing.T) {
	d := newDesk(t)
	d.answer = says(http.StatusOK, protocol.ApprovalDecided)
	send := func(at place, reason string) any {
		meta, err := json.Marshal(reasonAsked{notify.CardValue{Approval: "s1.1", Digest: digest}, at})
		if err != nil {
			t.Fatal(err)
		}
		cb := slack.InteractionCallback{Type: slack.InteractionTypeViewSubmission, Team: slack.Team{ID: "T01"}, User: slack.User{ID: "U01", TeamID: "T01"}}
		cb.View.CallbackID, cb.View.PrivateMetadata = reasonForm, string(meta)
		cb.View.State = &slack.ViewState{Values: map[string]map[string]slack.BlockAction{reasonField: {reasonField: {Value: reason}}}}
		return d.clicked(t.Context(), d.client, at.Channel, d.slack.URL+"/api", cb)
	}
	unknown, _ := d.post(t)
	if again := send(unknown, "no"); again != nil {
		t.Errorf("the form says %v", again)
	}
	if now := d.at(t, unknown.TS); now.Edits != 0 {
		t.Errorf("nobody knows what the message said, and it is %s", now.Blocks)
	}
	at, m := d.post(t)
	raw, err := json.Marshal(notify.Card{Channel: "more", Chat: at.Chat, TS: at.TS, Approval: "s1.1", Session: "s1", Digest: digest,
		Blocks: json.RawMessage(`[{"type":"section","text":{"type":"plain_text","text":"make install"}}]`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.blobs.Put(t.Context(), cardKey(notify.Card{Channel: "more", Chat: at.Chat, TS: at.TS}), raw); err != nil {
		t.Fatal(err)
	}
	send(at, "no")
	if now := d.at(t, at.TS); len(m.Buttons()) == 0 || len(now.Buttons()) != 0 || !strings.Contains(string(now.Blocks), "make install") {
		t.Errorf("the message is %s", now.Blocks)
	}
	// A session takes a reason of 2 KiB. None is cut without a word.
	n := len(d.asked)
	if again, _ := json.Marshal(send(at, strings.Repeat("Ж", mostTyped))); !strings.Contains(string(again), "too long") || len(d.asked) != n {
		t.Errorf("the form says %s, and %d decisions were made", again, len(d.asked)-n)
	}
	if again := send(at, strings.Repeat("Ж", maxReason/2)); again != nil || len(d.asked) != n+1 || !strings.HasSuffix(d.asked[n]["reason"], strings.Repeat("Ж", maxReason/2)) {
		t.Errorf("the form says %v; decisions: %v", again, d.asked)
	}
}

func TestTheRecordSaysWhoseClickItWasAndWhyItDidNotCount(t *testing.T) {
	d := newDesk(t)
	d.answer = says(http.StatusOK, protocol.ApprovalDecided)
	at, m := d.post(t)
	d.click(t.Context(), at, m, "T09") // a guest of a channel that workspaces share
	if len(d.asked) > 0 {
		t.Errorf("somebody of another workspace decided: %v", d.asked)
	}
	d.click(t.Context(), at, m, "T01")
	if len(d.asked) != 1 || d.asked[0]["reason"] != "decided in Slack by T01/U01" {
		t.Errorf("decisions: %v", d.asked)
	}
	d.links.blobs = silent{d.blobs}
	d.click(t.Context(), at, m, "T01")
	d.links.blobs = d.blobs
	text, _, err := d.NewCode(t.Context(), "bob")
	if err != nil {
		t.Fatal(err)
	}
	d.commanded(t.Context(), d.slack.URL+"/api", slack.SlashCommand{TeamID: "T01", UserID: "U01", Text: "link " + text})
	for i, want := range []string{`slack.decide  the account is of workspace "T09"`, "slack.decide ann <nil>", "slack.decide  the links of accounts cannot be read", "slack.unlink ann <nil>", "slack.link bob <nil>"} {
		if len(d.records) <= i || !strings.HasPrefix(d.records[i], want) {
			t.Errorf("record %d is not %s: %q", i, want, d.records)
		}
	}
}

// Another server could send any ids. Who linked an account of Slack is nobody there.
func TestALinkCountsForTheServerWhereItWasMade(t *testing.T) {
	d := newDesk(t)
	d.answer = says(http.StatusOK, protocol.ApprovalDecided)
	at, m := d.post(t)
	for server, counts := range map[string]bool{"": false, "https://slack.example.com/api": false, d.slack.URL + "/api": true} {
		n := len(d.asked)
		cb := slack.InteractionCallback{Type: slack.InteractionTypeBlockActions, Team: slack.Team{ID: "T01"}, User: slack.User{ID: "U01", TeamID: "T01"},
			Container:      slack.Container{ChannelID: at.Chat, MessageTs: at.TS},
			ActionCallback: slack.ActionCallbacks{BlockActions: []*slack.BlockAction{{ActionID: notify.CardAccept, Value: m.Buttons()[notify.CardAccept]}}}}
		if d.clicked(t.Context(), d.client, at.Channel, server, cb); (len(d.asked) > n) != counts {
			t.Errorf("a click from %q made %d decisions", server, len(d.asked)-n)
		}
	}
	if apiOf("https://slack.com/api/") != "" {
		t.Error("Slack's own address is another server's")
	}
}

// silent is a store that does not answer.
type silent struct{ *memory }

func (silent) Get(context.Context, string) ([]byte, error) { return nil, errors.New("no answer") }

// A worker that ends lets clicks that are under way come to their end.
func TestAWorkerThatEndsWaitsForClicksThatAreUnderWay(t *testing.T) {
	d := newDesk(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	d.answer = func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-goOn
		says(http.StatusOK, protocol.ApprovalDecided)(w, r)
	}
	at, m := d.post(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(ctx, d)
	}()
	for {
		if _, err := d.slack.Click(receivers.SlackUser{Team: "T01", ID: "U01", Name: "ann"}, receivers.SlackMessage{Channel: at.Chat, TS: at.TS, Blocks: m.Blocks}, notify.CardAccept); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond) // no connection yet
	}
	<-begun
	cancel()
	close(goOn)
	<-ended
	if now := d.at(t, at.TS); now.Edits != 1 {
		t.Errorf("the message is %s", now.Blocks)
	}
}
