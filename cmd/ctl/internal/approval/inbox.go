package approval

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/inbox"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// listWait bounds a look at all approvals, so that a lost connection shows.
const listWait = 8 * time.Second

// showInbox shows approvals in full screen.
func showInbox(ctx context.Context, a *core.App, t *conn.Conn, session string) error {
	s := &source{a: a, t: t, session: session, seen: map[string]protocol.Approval{}, places: map[string]place{}}
	s.back = a.Behind()
	defer s.back.Close()
	var err error
	if s.tb, err = conn.Open(ctx, s.back); err != nil {
		return err
	}
	conf, err := a.Config()
	if err != nil {
		return err
	}
	s.signs = a.SignWith != "" || conf.SignWith != ""
	return inbox.Run(ctx, a, s)
}

// A source implements inbox.Source for the approvals of all sessions, or of one.
type source struct {
	a       *core.App // at the terminal
	t       *conn.Conn
	back    *core.App // behind the screen
	tb      *conn.Conn
	session string
	signs   bool // a key signs each decision, and may need a passphrase

	mu     sync.Mutex                   // guards what follows
	seen   map[string]protocol.Approval // in full, by id
	places map[string]place             // by session
}

func (s *source) List(ctx context.Context, keep []string) ([]inbox.Item, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listWait, errors.New("no answer within "+listWait.String()))
	defer cancel()
	list, err := s.tb.Approvals(ctx, s.session, false, nil)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	var sessions []string
	for _, id := range keep {
		session, _, _ := core.CutLast(id)
		if !slices.ContainsFunc(list, func(ap protocol.Approval) bool { return ap.ID == id }) && !slices.Contains(sessions, session) {
			sessions = append(sessions, session)
		}
	}
	for _, session := range sessions {
		var some []protocol.Approval
		if _, err := s.tb.AskEither(ctx, "look at the approvals of session "+session, protocol.SessionID(session), protocol.QueryApprovals, &some); err != nil {
			if core.ExitCode(err) == core.ExitNotFound {
				continue
			}
			return nil, causeOf(ctx, err)
		}
		for _, ap := range some {
			if slices.Contains(keep, ap.ID) && !slices.ContainsFunc(list, func(o protocol.Approval) bool { return o.ID == ap.ID }) {
				list = append(list, Checked(ap))
			}
		}
	}
	var items []inbox.Item
	for _, ap := range list {
		items = append(items, s.item(ctx, ap))
	}
	return items, nil
}

// causeOf returns the cause of the context's end, if it has ended, and otherwise err.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// item returns an approval in full, with its card. The content is read once, the state each
// time.
func (s *source) item(ctx context.Context, ap protocol.Approval) inbox.Item {
	s.mu.Lock()
	full, known := s.seen[ap.ID]
	at := s.places[ap.Session]
	s.mu.Unlock()
	it := inbox.Item{False: ap.DigestCheck == protocol.DigestOther}
	var open *unsure
	if !known && !it.False {
		var err error
		full, err = wholeAndChecked(ctx, s.back, s.tb, "show approval "+ap.ID, ap)
		switch {
		case errors.As(err, &open), err == nil:
		case errors.Is(err, protocol.ErrOtherContent):
			it.False = true
		default:
			full, it.Unsure = ap, "the whole request could not be read: "+core.OneLine(err.Error(), 200)
		}
		known = err == nil
	}
	if at == (place{}) {
		at = placeFor(ctx, s.tb, ap.Session)
	}
	s.mu.Lock()
	if known && !it.False {
		s.seen[ap.ID] = full
	}
	s.places[ap.Session] = at
	s.mu.Unlock()
	if !it.False {
		now := ap
		ap = full
		ap.State, ap.Decision, ap.Delivery, ap.VoidReason, ap.ExpiresAt = now.State, now.Decision, now.Delivery, now.VoidReason, now.ExpiresAt
		ap.Agreed, ap.Missing = now.Agreed, now.Missing
	}
	if open != nil {
		it.Unsure = open.Error()
	}
	c := card{ap, at}
	it.Approval, it.Headline, it.Asked, it.Facts, it.Details = ap, c.headline(), append(c.asked(), c.questions()...), c.facts(time.Now()), c.details()
	it.Aside = s.signs || ap.Signed
	return it
}

// decision is about what was shown: it carries that digest.
func decision(it inbox.Item, d inbox.Decision) protocol.Decide {
	return protocol.Decide{Approval: it.Approval.ID, Digest: it.Approval.Digest, Outcome: d.Outcome, Scope: d.Scope, Reason: d.Reason}
}

func (s *source) Decide(ctx context.Context, it inbox.Item, d inbox.Decision) (protocol.Approval, error) {
	return carryOut(ctx, s.back, s.tb, decision(it, d), nil)
}

func (s *source) Ask(ctx context.Context, it inbox.Item, d *inbox.Decision) error {
	defer s.a.Lend()
	if d == nil {
		_, err := DecideInline(ctx, s.a, s.t, it.Approval)
		return err
	}
	_, err := carryOut(ctx, s.a, s.t, decision(it, *d), nil)
	return err
}

// entriesBefore is how many entries of a session are shown that were there before.
const entriesBefore = 60

func (s *source) Follow(ctx context.Context, session string, send func(api.Event)) {
	var d protocol.SessionDetail
	_, _ = s.tb.AskEither(ctx, "look at session "+session, protocol.SessionID(session), protocol.QueryDetail, &d) // without it, from the beginning
	feed := live.StartFeed(ctx, s.back, s.tb, session, max(d.Seq-entriesBefore, 1))
	for {
		select {
		case ev := <-feed.Events:
			feed.Had(ev)
			send(ev)
		case <-feed.Done:
			return
		}
	}
}
