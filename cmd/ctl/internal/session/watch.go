package session

import (
	"context"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/approval"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/internal/protocol"
)

// endedEvery is after how many queries ctl also asks Temporal whether the session runs.
const endedEvery = 25

// watchTurn shows a turn until its end, asks for decisions if a person is at the terminal,
// and prints the result.
func watchTurn(ctx context.Context, a *core.App, t *conn.Conn, acc protocol.MessageAccepted, from int64) error {
	doing := "turn of session " + acc.Session
	if a.Flags.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.Flags.Timeout, core.TimedOut("%s: no end within %s", doing, a.Flags.Timeout).
			Hinted("it goes on; `ctl session follow %s` shows it", acc.Session))
		defer cancel()
	}
	fctx, stopFeed := context.WithCancel(ctx)
	feed := live.StartFeed(fctx, a, t, acc.Session, from)
	defer func() { stopFeed(); <-feed.Done }()
	r := newShowing(a, a.Print(), true, a.Flags.Output == "json" || a.Flags.Quiet)
	defer r.close()
	asked := map[string]bool{}
	var told conn.WaitNews
	looks := 0
	tick := time.NewTicker(core.PollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			r.endLine()
			return context.Cause(ctx)
		case ev := <-feed.Events:
			feed.Had(ev)
			r.event(ev)
			continue
		case <-tick.C:
		}
		looks++
		d, err := look(ctx, a, t, acc.Session)
		if err != nil {
			r.endLine()
			return err
		}
		r.detail(d, t.Silence.Lasted() > 0)
		if news := told.News(d, acc); news != "" && !(a.MayAsk() && len(conn.OpenApprovals(d)) > 0) { // a question at the terminal shows it
			r.endLine()
			a.Note("%s", news)
		}
		turn, ok := conn.FindTurn(d, acc)
		if ok && turn.Done() && turn.FollowedBy > 0 && d.View.State != protocol.Failed {
			r.endLine()
			a.Note("turn %d was cut off; turn %d goes on with it", turn.N, turn.FollowedBy)
			acc = protocol.MessageAccepted{Session: acc.Session, N: turn.FollowedBy, MessageID: messageOf(d, turn.FollowedBy)}
			continue
		}
		if ok && turn.Done() || d.View.State == protocol.Failed {
			catchUp(ctx, feed, r, d.Seq)
			r.close()
			return turnResult(ctx, a, t, d, turn, ok, feed.Seq >= d.Seq)
		}
		if now := d.View.Turn; !ok && now != nil && acc.N > 0 && now.N > acc.N {
			return core.NotFound("%s: turn %d ended too long ago: the session no longer keeps it", doing, acc.N).Hinted("`ctl transcript %s` has it", acc.Session)
		}
		if !ok && d.View.State == protocol.Closed {
			r.endLine()
			return neverBegan(d, acc)
		}
		// A workflow that was terminated from outside still answers queries as if it ran.
		if looks%endedEvery == 0 {
			if kept, err := t.Kept(ctx, acc.Session); err == nil && kept.Error != nil {
				r.endLine()
				return conn.FailureExit(doing, kept.Error)
			}
		}
		open := conn.OpenApprovals(d)
		if len(open) == 0 {
			continue
		}
		if a.Flags.NoInput {
			r.endLine()
			return core.NeedsPerson("%s: approval %s is open: %s", doing, open[0].ID, core.OneLine(approval.Checked(open[0]).Summary, 80)).
				Hinted("`ctl approval show %s`; the session goes on and waits", open[0].ID)
		}
		for _, ap := range open {
			if asked[ap.ID] || !a.MayAsk() {
				continue
			}
			var again bool
			if err := r.aside(func() (err error) { again, err = approval.DecideInline(ctx, a, t, ap); return err }); err != nil {
				return err
			}
			asked[ap.ID] = !again
		}
	}
}

// patience is how long ctl watches without an answer of a worker.
const patience = 5 * time.Minute

// look queries everything that watching needs. If no worker answers, it returns after a
// second what Temporal keeps, because approvals can be decided without a worker. If
// Temporal does not answer either, look tries again. It fails when no worker has answered
// for patience.
func look(ctx context.Context, a *core.App, t *conn.Conn, id string) (protocol.SessionDetail, error) {
	var d protocol.SessionDetail
	live, err := t.AskEither(ctx, "look at session "+id, protocol.SessionID(id), protocol.QueryDetail, &d)
	if err != nil && ctx.Err() != nil {
		return d, context.Cause(ctx) // ctl's own timeout
	}
	if live {
		return d, err
	}
	if err != nil && core.ExitCode(err) != core.ExitUnreachable {
		return d, err
	}
	if t.WaitsForNewer(protocol.SessionID(id)) == "" && t.Silence.Once() {
		a.Note("no worker answers; waiting for one …")
	}
	if t.Silence.Lasted() > patience {
		return d, core.Unreachable("look at session %s: no worker has answered for %s", id, patience).
			Hinted("the session goes on when one is up; `ctl status` shows them")
	}
	select {
	case <-ctx.Done():
		return d, context.Cause(ctx)
	case <-time.After(time.Second):
	}
	if err != nil { // not even Temporal answers
		return look(ctx, a, t, id)
	}
	return d, nil
}

func messageOf(d protocol.SessionDetail, n int) string {
	for _, turn := range d.Turns {
		if turn.N == n {
			return turn.MessageID
		}
	}
	return ""
}

// catchUp shows the remaining entries of an ended turn.
func catchUp(ctx context.Context, f *live.Feed, r *showing, seq int64) {
	if r.quiet {
		return
	}
	patience := time.NewTimer(3 * time.Second)
	defer patience.Stop()
	for f.Seq < seq {
		select {
		case ev := <-f.Events:
			f.Had(ev)
			r.event(ev)
		case <-f.Done:
			return
		case <-patience.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// turnResult prints an ended turn and returns ctl's error. shown says that the text was
// already shown.
func turnResult(ctx context.Context, a *core.App, t *conn.Conn, d protocol.SessionDetail, turn protocol.TurnView, known, shown bool) error {
	doing := "session " + d.View.ID
	if d.View.State == protocol.Failed && (!known || turn.Status == "queued" || turn.Status == "interrupted" || !turn.Done()) {
		return conn.FailureExit(doing, d.View.Error)
	}
	wholeOutput(ctx, a, t, d.View.ID, &turn)
	if turn.FinalTruncated {
		if whole, err := wholeText(ctx, a, t, d.View.ID, turn.N); err == nil && whole != "" {
			turn.FinalText, turn.FinalTruncated = whole, false
		}
	}
	p := a.Print()
	if p.JSON || a.Flags.Quiet {
		if err := p.Show(turn, func(p *core.Printer) { p.Exact(outputOf(turn) + "\n") }); err != nil {
			return err
		}
	} else {
		if !shown && turn.FinalText != "" {
			p.Printf("%s\n", core.Clean(turn.FinalText))
		}
		if turn.DiffStat != "" {
			p.Printf("%s\n", p.Paint(core.Dim, core.Clean(turn.DiffStat)))
		}
	}
	bad := badOutput(turn)
	if turn.Status == "completed" && bad == nil {
		return nil
	}
	if p.JSON {
		return core.ExitStatus(core.ExitFailed)
	}
	if bad != nil {
		return bad
	}
	if f := turn.Error; f != nil {
		e := conn.FailureExit("turn "+turn.Status, f)
		e.Code = core.ExitFailed
		return e
	}
	return core.Failed("the turn ended as %s", turn.Status)
}

func wholeText(ctx context.Context, a *core.App, t *conn.Conn, session string, n int) (string, error) {
	c, err := conn.WorkerFor(ctx, a, t, session)
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

func awaitClosed(ctx context.Context, a *core.App, t *conn.Conn, id string) (protocol.SessionView, error) {
	doing := "close session " + id
	wait := a.Wait(2 * time.Minute)
	ctx, cancel := context.WithTimeoutCause(ctx, wait, core.TimedOut("%s: not all is cleaned up within %s", doing, wait).
		Hinted("it goes on; `ctl session show %s` says what it waits for", id))
	told := make(chan struct{})
	go func() { defer close(told); tellWhyOpen(ctx, a, t, id) }()
	defer func() { cancel(); <-told }()
	var v protocol.SessionView
	err := t.GetWorkflow(ctx, protocol.SessionID(id), "").Get(ctx, &v)
	switch {
	case err == nil:
		return v, nil
	case conn.OutOfTime(ctx, err), ctx.Err() != nil:
		return v, context.Cause(ctx)
	}
	var last protocol.SessionView
	if qerr := t.Query(ctx, doing, protocol.SessionID(id), protocol.QueryState, &last); qerr == nil && last.State == protocol.Failed {
		return last, conn.FailureExit(doing, last.Error)
	}
	return v, t.TaskFailure(doing, t.Explain(ctx, doing, err))
}

// tellWhyOpen says what a closing session waits for, once per reason.
func tellWhyOpen(ctx context.Context, a *core.App, t *conn.Conn, id string) {
	last := ""
	for {
		timer := time.NewTimer(3 * time.Second)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		var v protocol.SessionView
		if t.Query(ctx, "show session "+id, protocol.SessionID(id), protocol.QueryState, &v) != nil || v.State != protocol.Closing || v.Error == nil {
			continue
		}
		if why := v.Error.Message; why != last {
			last = why
			a.Note("session %s is not closed yet: %s\nit is tried again; --discard gives up what cannot be saved", id, core.Clean(why))
		}
	}
}
