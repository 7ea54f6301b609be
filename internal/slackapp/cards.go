package slackapp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

const (
	cardKeys = "slack/cards/"
	// listCards is how often cards and the sessions that wait are listed.
	listCards = 30 * time.Second
	// maxCards bounds the cards that one worker looks after.
	maxCards = 5000
	// askCard bounds the question for what became of a session's approvals.
	askCard = 10 * time.Second
	// askedAtOnce is how many sessions are asked at a time.
	askedAtOnce = 4
	// ownAgain and othersAgain are when a session is asked again that looks as before: a list does
	// not always tell one approval from the next one.
	ownAgain    = 5 * time.Minute
	othersAgain = 30 * time.Minute
	// firstRetry and lastRetry bound the pauses after a look in vain.
	firstRetry = 30 * time.Second
	lastRetry  = time.Hour
	// triesFor is how long the buttons of a decided approval are tried to be taken away, and
	// missingFor where the rules have no such channel any more.
	triesFor   = 24 * time.Hour
	missingFor = time.Hour
	// strangeKept is how long the store has a card that this release cannot read. A newer one may.
	strangeKept = 31 * 24 * time.Hour
)

// cards are the messages with buttons that this worker knows. The store has all.
type cards struct {
	blobs Blobs
	now   func() time.Time

	mu      sync.Mutex
	known   map[string]*kept // by key of the store
	strange map[string]bool  // keys of what this release cannot read
	stirred map[string]bool  // sessions that have changed
	more    chan struct{}    // told of new cards, and of stirred sessions
}

type kept struct {
	notify.Card
	own    bool      // this worker posted it, and the store may lack it
	busy   bool      // it is being looked at
	soon   bool      // it is to be looked at, or once more
	at     time.Time // when it was last looked at
	looks  string    // of its session in the list, then
	listed bool      // the list had its session, then
	over   time.Time // when it was first seen that its approval waits no more
	pause  time.Duration
	next   time.Time // if the last look was in vain
}

func newCards(blobs Blobs, now func() time.Time) *cards {
	return &cards{blobs: blobs, now: now, known: map[string]*kept{}, strange: map[string]bool{}, stirred: map[string]bool{}, more: make(chan struct{}, 1)}
}

func cardKey(c notify.Card) string { return cardKeys + hash("card", c.Channel, c.Chat, c.TS) }

// Posted keeps a card. If the store does not take it, the worker remembers it alone.
func (a *App) Posted(ctx context.Context, c notify.Card) {
	if c.Chat == "" || c.TS == "" {
		return
	}
	key := cardKey(c)
	a.cards.add(key, c, true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWait)
	defer cancel()
	raw, err := json.Marshal(c)
	if err == nil {
		err = a.cards.blobs.Put(ctx, key, raw)
	}
	if err != nil {
		a.log.Warn("a message in Slack keeps its buttons if this worker ends before its approval is decided", "approval", c.Approval, "err", err)
	}
}

func (c *cards) add(key string, card notify.Card, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.known[key]; old != nil {
		old.own = old.own || own
		return
	}
	if len(c.known) >= maxCards {
		return // the list finds it again
	}
	c.known[key] = &kept{Card: card, own: own, soon: own} // its approval may have been decided before it came
	if own {
		c.tell()
	}
}

func (c *cards) tell() {
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// Stir says that a session has changed. It returns at once.
func (a *App) Stir(session string) {
	c := a.cards
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) > 0 && len(c.stirred) < maxCards {
		c.stirred[session] = true
		c.tell()
	}
}

// get returns a card, also one that this worker has not listed yet.
func (c *cards) get(ctx context.Context, key string) (notify.Card, bool) {
	c.mu.Lock()
	k, is := c.known[key]
	c.mu.Unlock()
	if is {
		return k.Card, true
	}
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	raw, err := c.blobs.Get(ctx, key)
	if err != nil {
		return notify.Card{}, false
	}
	return readCard(key, raw)
}

func readCard(key string, raw []byte) (card notify.Card, is bool) {
	is = json.Unmarshal(raw, &card) == nil && card.Chat != "" && cardKey(card) == key
	return card, is
}

// cardAt returns the card on which somebody has clicked. An app has one connection for all its
// channels, so the card may be of another channel than the connection.
func (a *App) cardAt(ctx context.Context, at place) (notify.Card, bool) {
	channels := []string{at.Channel}
	apps, _ := a.opts.Rules().SlackApps()
	if i := slices.IndexFunc(apps, func(x notify.SlackApp) bool { return x.Channel == at.Channel }); i >= 0 {
		for _, x := range apps {
			if x.Channel != at.Channel && x.API == apps[i].API && x.App == apps[i].App {
				channels = append(channels, x.Channel)
			}
		}
	}
	for _, channel := range channels {
		if card, is := a.cards.get(ctx, cardKey(notify.Card{Channel: channel, Chat: at.Chat, TS: at.TS})); is {
			return card, true
		}
	}
	return notify.Card{}, false
}

// forget deletes a card whose buttons are gone. If the store does not answer, it is found again,
// and its buttons are taken away once more.
func (c *cards) forget(ctx context.Context, card notify.Card) {
	key := cardKey(card)
	c.mu.Lock()
	delete(c.known, key)
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWait)
	defer cancel()
	_ = c.blobs.Delete(ctx, key)
}

// list reads the cards of all workers from the store.
func (c *cards) list(ctx context.Context) error {
	infos, err := c.blobs.List(ctx, cardKeys)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, info := range infos {
		there[info.Key] = true
		c.mu.Lock()
		_, is := c.known[info.Key]
		full := len(c.known) >= maxCards
		old := c.strange[info.Key] && c.now().Sub(info.ModTime) > strangeKept
		is = is || c.strange[info.Key]
		c.mu.Unlock()
		if old {
			_ = c.blobs.Delete(ctx, info.Key)
		}
		if is || full {
			continue
		}
		raw, err := c.blobs.Get(ctx, info.Key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if card, is := readCard(info.Key, raw); is {
			c.add(info.Key, card, false)
			continue
		}
		c.mu.Lock()
		if len(c.strange) < maxCards {
			c.strange[info.Key] = true
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(key string, k *kept) bool { return !k.own && !there[key] })
	maps.DeleteFunc(c.strange, func(key string, _ bool) bool { return !there[key] })
	return nil
}

// urgent returns the cards, by session, that are new, or whose sessions have changed.
func (c *cards) urgent() map[string][]notify.Card {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string][]notify.Card{}
	for _, k := range c.known {
		if k.soon = k.soon || c.stirred[k.Session]; k.soon && !k.busy {
			k.soon, k.busy, k.at = false, true, c.now()
			out[k.Session] = append(out[k.Session], k.Card)
		}
	}
	clear(c.stirred)
	return out
}

// due returns the cards, by session, that are to be looked at after a list of the sessions with open
// approvals. A session that looks as before is not asked, so that waiting costs nothing.
func (c *cards) due(looks map[string]string) map[string][]notify.Card {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, now := map[string][]notify.Card{}, c.now()
	for _, k := range c.known {
		if k.busy {
			continue
		}
		as, listed := looks[k.Session]
		again := othersAgain
		if k.own {
			again = ownAgain
		}
		ask := false
		switch {
		case k.at.IsZero(): // another worker posted it, and is asked to look first
			k.at, k.looks, k.listed, k.next = now, as, listed, now.Add(listCards/2)
		case !listed, !k.over.IsZero():
			ask = !now.Before(k.next)
		case !k.listed && k.own: // the first list after it was posted
			k.looks, k.listed = as, true
		default:
			ask = as != k.looks || now.Sub(k.at) > again
		}
		if ask {
			k.busy, k.at, k.looks, k.listed = true, now, as, listed
			out[k.Session] = append(out[k.Session], k.Card)
		}
	}
	return out
}

// looked notes what came of a look at a card that is still there. over says that its approval waits
// no more. It returns for how long that has been known.
func (c *cards) looked(card notify.Card, over bool) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, now := c.known[cardKey(card)], c.now()
	if k == nil {
		return 0
	}
	if over && k.over.IsZero() {
		k.over = now
	}
	if k.busy = false; over || !k.listed {
		k.pause = min(max(2*k.pause, firstRetry), lastRetry)
		k.next = now.Add(k.pause)
	} else {
		k.pause = 0
	}
	if k.soon {
		c.tell()
	}
	if k.over.IsZero() {
		return 0
	}
	return now.Sub(k.over)
}

// strip takes the buttons of cards away whose approvals wait no more: at once if a session here has
// changed, and otherwise after a list of the sessions that wait.
func (a *App) strip(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() {
		for ctx.Err() == nil {
			lctx, cancel := context.WithTimeout(ctx, listCards)
			a.pass(lctx, ctx)
			cancel()
			select {
			case <-ctx.Done():
			case <-time.After(listCards/2 + rand.N(listCards/2)):
			}
		}
	})
	both.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-a.cards.more:
				a.look(ctx, a.cards.urgent())
			}
		}
	})
	both.Wait()
}

// pass lists all cards, and the sessions that wait, and looks at what is due.
func (a *App) pass(lists, ctx context.Context) {
	if err := a.cards.list(lists); err != nil {
		if ctx.Err() == nil {
			a.log.Warn("messages in Slack cannot be listed: some keep their buttons for now", "err", err)
		}
		return
	}
	a.cards.mu.Lock()
	none := len(a.cards.known) == 0
	a.cards.mu.Unlock()
	if none {
		return
	}
	looks, err := a.opts.Waiting(lists)
	if err != nil {
		a.log.Debug("the sessions that wait cannot be listed", "err", err)
		return
	}
	a.look(ctx, a.cards.due(looks))
}

// look asks the sessions of cards, and settles those that wait no more.
func (a *App) look(ctx context.Context, due map[string][]notify.Card) {
	var asking sync.WaitGroup
	slots := make(chan struct{}, askedAtOnce)
	for session, list := range due {
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			a.tend(ctx, session, list)
		})
	}
	asking.Wait()
}

// tend asks one session.
func (a *App) tend(ctx context.Context, session string, list []notify.Card) {
	actx, cancel := context.WithTimeout(ctx, askCard)
	approvals, err := a.opts.Asks(actx, session)
	cancel()
	silent := err != nil && errkind.ExitCode(err) != errkind.ExitNotFound
	if silent {
		a.log.Debug("a session does not say what became of its approvals", "session", session, "err", err)
	}
	for _, card := range list {
		i := slices.IndexFunc(approvals, func(ap protocol.Approval) bool { return ap.ID == card.Approval })
		if silent || i >= 0 && waits(approvals[i], card.Digest) {
			a.cards.looked(card, false)
			continue
		}
		outcome := "It waits no more."
		if i >= 0 {
			outcome = became(approvals[i], card.Digest)
		}
		if a.strips(ctx, card, outcome) {
			a.cards.forget(ctx, card)
		}
	}
}

// strips takes the buttons of a card away, and reports whether it is done with the card.
func (a *App) strips(ctx context.Context, card notify.Card, outcome string) bool {
	app, is := a.appOf(card.Channel)
	if !is {
		return a.cards.looked(card, true) > missingFor
	}
	ctx, cancel := context.WithTimeout(ctx, askCard)
	defer cancel()
	err := update(ctx, app.Client(), card, outcome)
	if err == nil {
		return true
	}
	given := a.cards.looked(card, true) > triesFor
	a.log.Warn("Slack keeps the buttons of a decided approval", "approval", card.Approval, "given_up", given, "err", err)
	return given
}

// gone are errors of Slack after which a message has no buttons, or never loses them.
var gone = []string{"message_not_found", "channel_not_found", "cant_update_message", "edit_window_closed", "is_archived"}

// update replaces a card by one without buttons.
func update(ctx context.Context, client *slack.Client, card notify.Card, outcome string) error {
	_, _, _, err := client.UpdateMessageContext(ctx, card.Chat, card.TS, slack.MsgOptionText(outcome, true), slack.MsgOptionBlocks(card.Settled(outcome)...))
	var said slack.SlackErrorResponse
	if errors.As(err, &said) && slices.Contains(gone, said.Err) {
		return nil
	}
	return err
}
