package slackapp

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/lab/receivers"
	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

func cardOf(session, ts string) notify.Card {
	return notify.Card{Channel: "chat", Chat: "C01", TS: ts, Approval: session + ".1", Session: session, Digest: digest}
}

func sessionsOf(due map[string][]notify.Card) []string { return slices.Sorted(maps.Keys(due)) }

// A session that waits is asked once by the worker that posted its card, and then only when the list
// shows a change.
func TestASessionThatWaitsIsNotAskedAgainAndAgain(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	c := newCards(&memory{}, func() time.Time { return now })
	own, other := cardOf("s1", "1"), cardOf("s2", "2")
	c.add(cardKey(own), own, true)
	c.add(cardKey(other), other, false)
	want := func(what string, got map[string][]notify.Card, sessions ...string) {
		t.Helper()
		if !slices.Equal(sessionsOf(got), sessions) {
			t.Errorf("%s: %v are asked, not %v", what, sessionsOf(got), sessions)
		}
		for _, list := range got {
			for _, card := range list {
				c.looked(card, false)
			}
		}
	}
	looks := map[string]string{"s1": "a", "s2": "a"}
	want("a new card", c.urgent(), "s1")
	want("nothing is new", c.urgent())
	for range 8 {
		want("nothing has changed", c.due(looks))
		now = now.Add(listCards)
	}
	c.stirred["s2"], c.stirred["s9"] = true, true
	want("a session has changed here", c.urgent(), "s2")
	looks["s1"] = "b"
	want("the list shows a change", c.due(looks), "s1")
	want("it was asked", c.due(looks))
	now = now.Add(ownAgain + 1)
	want("a list may hide a change", c.due(looks), "s1")
	now = now.Add(othersAgain - 2*ownAgain)
	delete(looks, "s2")
	want("the other one waits no more", c.due(looks), "s1", "s2")
	// Nobody answers for it. The pauses grow.
	asked := 0
	for range int(24 * time.Hour / listCards) {
		now = now.Add(listCards)
		due := c.due(looks)
		asked += len(due["s2"])
		for _, list := range due {
			for _, card := range list {
				c.looked(card, false)
			}
		}
	}
	if asked < 24 || asked > 24+10 {
		t.Errorf("a session that does not answer was asked %d times in a day", asked)
	}
}

// A message that cannot be changed is tried for a day, and one of a channel that the rules do not
// have any more for an hour.
func TestAMessageThatKeepsItsButtonsIsGivenUp(t *testing.T) {
	for what, c := range map[string]struct {
		channel, answer string
		after           time.Duration
	}{
		"its channel is gone":          {"old", `{"ok":true}`, missingFor},
		"Slack refuses it":             {"chat", `{"ok":false,"error":"invalid_blocks"}`, triesFor},
		"nobody may edit it any more":  {"chat", `{"ok":false,"error":"edit_window_closed"}`, 0},
		"its channel in Slack is gone": {"chat", `{"ok":false,"error":"channel_not_found"}`, 0},
	} {
		d := newDesk(t)
		now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		d.cards.now = func() time.Time { return now }
		d.slack.Fail(&receivers.Fault{Body: c.answer, Times: 1000, Only: "/chat.update"})
		at, m := d.post(t)
		card := notify.Card{Channel: c.channel, Chat: at.Chat, TS: at.TS, Approval: "s1.1", Session: "s1", Digest: digest, Blocks: m.Blocks}
		d.Posted(t.Context(), card)
		begin := now
		d.look(t.Context(), d.cards.urgent())
		for ; len(d.cards.known) > 0 && now.Sub(begin) < 3*triesFor; now = now.Add(listCards) {
			d.look(t.Context(), d.cards.due(nil))
		}
		if took := now.Sub(begin); took < c.after || took > c.after+2*lastRetry {
			t.Errorf("%s: given up after %s", what, took)
		}
		if _, kept := d.cards.get(t.Context(), cardKey(card)); kept {
			t.Errorf("%s: the card is kept", what)
		}
	}
}

// A newer release may write cards that this one cannot read.
func TestACardThatThisReleaseCannotReadIsLeft(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	blobs := &aged{memory: &memory{}, at: now}
	c := newCards(blobs, func() time.Time { return now })
	raw, err := json.Marshal(map[string]any{"version": 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := blobs.Put(t.Context(), cardKeys+"00", raw); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := c.list(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := blobs.Get(t.Context(), cardKeys+"00"); err != nil {
		t.Errorf("it was deleted (%v)", err)
	}
	now = now.Add(strangeKept + 1)
	if err := c.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := blobs.Get(t.Context(), cardKeys+"00"); err == nil {
		t.Error("it is still there after a month")
	}
}

// aged is a store whose blobs were all written at one time.
type aged struct {
	*memory
	at time.Time
}

func (a *aged) List(ctx context.Context, prefix string) (all []store.Info, err error) {
	all, err = a.memory.List(ctx, prefix)
	for i := range all {
		all[i].ModTime = a.at
	}
	return all, err
}

// Whoever decides, and wherever, a worker that runs the session takes the buttons away at once.
func TestTheButtonsGoWhenTheSessionSaysThatItWaitsNoMore(t *testing.T) {
	d := newDesk(t)
	state := protocol.ApprovalOpen
	d.asks = func(string) ([]protocol.Approval, error) {
		if state == "" {
			return nil, errkind.Unreachable("no worker answers")
		}
		return []protocol.Approval{decidedAs(state)}, nil
	}
	at, m := d.post(t)
	card := notify.Card{Channel: "chat", Chat: at.Chat, TS: at.TS, Approval: "s1.1", Session: "s1", Digest: digest, Blocks: m.Blocks}
	d.cards.add(cardKey(card), card, false) // another worker posted it
	for _, c := range []struct {
		state protocol.ApprovalState
		edits int
	}{{protocol.ApprovalOpen, 0}, {"", 0}, {protocol.ApprovalUnjudged, 0}, {protocol.ApprovalDecided, 1}} {
		state = c.state
		d.Stir("s1")
		<-d.cards.more
		d.look(t.Context(), d.cards.urgent())
		if now := d.at(t, at.TS); now.Edits != c.edits {
			t.Errorf("%q: the message was changed %d times", c.state, now.Edits)
		}
	}
}
