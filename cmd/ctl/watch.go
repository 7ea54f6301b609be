package main

import (
	"context"
	"time"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/workflows"
)

// pollEvery is the interval at which ctl queries a session. A query adds no event to the
// history.
const pollEvery = 200 * time.Millisecond

// endedEvery is the number of queries after which ctl also asks Temporal whether the
// session still runs.
const endedEvery = 25

// watchTurn shows a turn until it has ended. It asks for decisions if a person is at the
// terminal, and prints the result.
func (a *app) watchTurn(ctx context.Context, t *temporal, acc workflows.MessageAccepted, from int64) error {
	doing := "turn of session " + acc.Session
	if a.flags.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.flags.timeout, timedOut("%s: no end within %s", doing, a.flags.timeout).
			hinted("it goes on; `ctl session follow %s` shows it", acc.Session))
		defer cancel()
	}
	fctx, stopFeed := context.WithCancel(ctx)
	feed := a.startFeed(fctx, t, acc.Session, from)
	defer func() { stopFeed(); <-feed.done }()
	r := &renderer{p: a.print(), quiet: a.flags.output == "json" || a.flags.quiet, skipOwn: true}
	asked := map[string]bool{}
	var told waitNews
	looks := 0
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			r.endLine()
			return context.Cause(ctx)
		case ev := <-feed.events:
			feed.had(ev)
			r.event(ev)
			continue
		case <-tick.C:
		}
		looks++
		d, err := a.look(ctx, t, acc.Session)
		if err != nil {
			r.endLine()
			return err
		}
		if news := told.news(d, acc); news != "" && !(a.mayAsk() && len(openApprovals(d)) > 0) { // otherwise the question itself says it
			r.endLine()
			a.note("%s", news)
		}
		turn, ok := findTurn(d, acc)
		if ok && turn.Done() && turn.FollowedBy > 0 && d.View.State != workflows.Failed {
			r.endLine()
			a.note("turn %d was cut off; turn %d goes on with it", turn.N, turn.FollowedBy)
			acc = workflows.MessageAccepted{Session: acc.Session, N: turn.FollowedBy, MessageID: messageOf(d, turn.FollowedBy)}
			continue
		}
		if ok && turn.Done() || d.View.State == workflows.Failed {
			a.catchUp(ctx, feed, r, d.Seq)
			r.endLine()
			return a.turnResult(ctx, t, d, turn, ok, feed.seq >= d.Seq)
		}
		if now := d.View.Turn; !ok && now != nil && acc.N > 0 && now.N > acc.N {
			return notFound("%s: turn %d ended too long ago to be at hand", doing, acc.N).hinted("`ctl transcript %s` has it", acc.Session)
		}
		if !ok && d.View.State == workflows.Closed {
			r.endLine()
			return neverBegan(d, acc)
		}
		// A workflow that was terminated from outside still answers queries as if it ran.
		if looks%endedEvery == 0 {
			if kept, err := t.kept(ctx, acc.Session); err == nil && kept.Error != nil {
				r.endLine()
				return failureExit(doing, kept.Error)
			}
		}
		open := openApprovals(d)
		if len(open) == 0 {
			continue
		}
		if a.flags.noInput {
			r.endLine()
			return needsPerson("%s: approval %s is open: %s", doing, open[0].ID, oneLine(open[0].Summary, 80)).
				hinted("`ctl approval show %s`; the session goes on and waits", open[0].ID)
		}
		for _, ap := range open {
			if asked[ap.ID] || !a.mayAsk() {
				continue
			}
			r.endLine()
			again, err := a.decideInline(ctx, t, ap)
			if err != nil {
				return err
			}
			asked[ap.ID] = !again
		}
	}
}

// patience is how long ctl watches a session while no worker answers.
const patience = 5 * time.Minute

// look queries everything that watching needs. With no worker up it returns what Temporal
// keeps, because approvals can be decided all the same. It waits for a worker that is away.
func (a *app) look(ctx context.Context, t *temporal, id string) (workflows.SessionDetail, error) {
	var d workflows.SessionDetail
	live, err := t.askEither(ctx, "look at session "+id, workflows.SessionID(id), workflows.QueryDetail, &d)
	if err != nil && ctx.Err() != nil {
		return d, context.Cause(ctx) // our own time was over
	}
	if live {
		return d, err
	}
	if err != nil && exitOf(err) != exitUnreachable {
		return d, err
	}
	if t.silence.once() {
		a.note("no worker answers; waiting for one …")
	}
	if t.silence.lasted() > patience {
		return d, unreachable("look at session %s: no worker has answered for %s", id, patience).
			hinted("the session goes on when one is up; `ctl status` shows them")
	}
	select {
	case <-ctx.Done():
		return d, context.Cause(ctx)
	case <-time.After(time.Second):
	}
	if err != nil { // not even Temporal answers
		return a.look(ctx, t, id)
	}
	return d, nil
}

// findTurn returns the turn that a message began or went into.
func findTurn(d workflows.SessionDetail, acc workflows.MessageAccepted) (found workflows.TurnView, ok bool) {
	for _, turn := range d.Turns {
		if turn.MessageID == acc.MessageID {
			return turn, true
		}
		if turn.N == acc.N {
			found, ok = turn, true
		}
	}
	return found, ok
}

// messageOf returns the id of the message that began a turn, if known.
func messageOf(d workflows.SessionDetail, n int) string {
	for _, turn := range d.Turns {
		if turn.N == n {
			return turn.MessageID
		}
	}
	return ""
}

func openApprovals(d workflows.SessionDetail) []workflows.Approval {
	var out []workflows.Approval
	for _, ap := range d.Approvals {
		if ap.State == workflows.ApprovalOpen {
			out = append(out, ap)
		}
	}
	return out
}

// A feed receives a session's events in the background.
type feed struct {
	events chan api.Event
	done   chan struct{}
	seq    int64 // of the newest entry handed over; used by the receiver only
}

// had records an event; the receiver calls it for each one.
func (f *feed) had(ev api.Event) {
	switch ev.Kind {
	case api.KindEntry:
		f.seq = ev.Entry.Seq
	case api.KindVoid:
		f.seq = ev.Void - 1
	}
}

// startFeed follows a session until ctx ends, changing workers when needed. If no worker
// can be reached, there are no events.
func (a *app) startFeed(ctx context.Context, t *temporal, session string, from int64) *feed {
	f := &feed{events: make(chan api.Event), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for ctx.Err() == nil {
			c, err := a.workerFor(ctx, t, session)
			if err == nil {
				for ev, ferr := range c.Feed(ctx, session, from) {
					if ferr != nil {
						err = ferr
						break
					}
					switch ev.Kind {
					case api.KindEntry:
						from = ev.Entry.Seq + 1
					case api.KindVoid:
						from = ev.Void
					}
					select {
					case f.events <- ev:
					case <-ctx.Done():
						return
					}
				}
				if err == nil {
					return // the feed has ended
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	return f
}

// catchUp shows the remaining entries of a turn that has ended.
func (a *app) catchUp(ctx context.Context, f *feed, r *renderer, seq int64) {
	if r.quiet {
		return
	}
	patience := time.NewTimer(3 * time.Second)
	defer patience.Stop()
	for f.seq < seq {
		select {
		case ev := <-f.events:
			f.had(ev)
			r.event(ev)
		case <-f.done:
			return
		case <-patience.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// turnResult prints a turn that has ended and returns the error for ctl's exit code. shown
// says that its text was already shown.
func (a *app) turnResult(ctx context.Context, t *temporal, d workflows.SessionDetail, turn workflows.TurnView, known, shown bool) error {
	doing := "session " + d.View.ID
	if d.View.State == workflows.Failed && (!known || turn.Status == "queued" || turn.Status == "interrupted" || !turn.Done()) {
		return failureExit(doing, d.View.Error)
	}
	a.wholeOutput(ctx, t, d.View.ID, &turn)
	if turn.FinalTruncated {
		if whole, err := a.wholeText(ctx, t, d.View.ID, turn.N); err == nil && whole != "" {
			turn.FinalText, turn.FinalTruncated = whole, false
		}
	}
	p := a.print()
	if p.json || a.flags.quiet {
		if err := p.show(turn, func(p *printer) { p.printf("%s\n", outputOf(turn)) }); err != nil {
			return err
		}
	} else {
		if !shown && turn.FinalText != "" {
			p.printf("%s\n", clean(turn.FinalText))
		}
		if turn.DiffStat != "" {
			p.printf("%s\n", p.paint(dim, clean(turn.DiffStat)))
		}
	}
	bad := badOutput(turn)
	if turn.Status == "completed" && bad == nil {
		return nil
	}
	if p.json {
		return exitStatus(exitFailed)
	}
	if bad != nil {
		return bad
	}
	if f := turn.Error; f != nil {
		e := failureExit("turn "+turn.Status, f)
		e.code = exitFailed
		return e
	}
	return failed("the turn ended as %s", turn.Status)
}

// wholeText returns a turn's final text from the transcript.
func (a *app) wholeText(ctx context.Context, t *temporal, session string, n int) (string, error) {
	c, err := a.workerFor(ctx, t, session)
	if err != nil {
		return "", err
	}
	text := ""
	for e, err := range c.Transcript(ctx, session, 1) {
		if err != nil {
			return "", err
		}
		if e.Turn == n && e.Type == "assistant" {
			if text != "" {
				text += "\n\n"
			}
			text += e.Text
		}
	}
	return text, nil
}

// awaitClosed waits until a session has ended.
func (a *app) awaitClosed(ctx context.Context, t *temporal, id string) (workflows.SessionView, error) {
	doing := "close session " + id
	wait := a.wait(2 * time.Minute)
	ctx, cancel := context.WithTimeoutCause(ctx, wait, timedOut("%s: not all is cleaned up within %s", doing, wait).
		hinted("it goes on; `ctl session show %s` says what it waits for", id))
	told := make(chan struct{})
	go func() { defer close(told); a.tellWhyOpen(ctx, t, id) }()
	defer func() { cancel(); <-told }()
	var v workflows.SessionView
	err := t.GetWorkflow(ctx, workflows.SessionID(id), "").Get(ctx, &v)
	switch {
	case err == nil:
		return v, nil
	case outOfTime(ctx, err), ctx.Err() != nil:
		return v, context.Cause(ctx)
	}
	var last workflows.SessionView
	if qerr := t.query(ctx, doing, workflows.SessionID(id), workflows.QueryState, &last); qerr == nil && last.State == workflows.Failed {
		return last, failureExit(doing, last.Error)
	}
	return v, t.taskFailure(doing, t.explain(ctx, doing, err))
}

// tellWhyOpen says what a closing session waits for, once for each reason.
func (a *app) tellWhyOpen(ctx context.Context, t *temporal, id string) {
	last := ""
	for {
		timer := time.NewTimer(3 * time.Second)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		var v workflows.SessionView
		if t.query(ctx, "show session "+id, workflows.SessionID(id), workflows.QueryState, &v) != nil || v.State != workflows.Closing || v.Error == nil {
			continue
		}
		if why := v.Error.Message; why != last {
			last = why
			a.note("session %s is not closed yet: %s\nit is tried again; --discard gives up what cannot be saved", id, clean(why))
		}
	}
}
