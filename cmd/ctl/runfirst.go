package main

import (
	"context"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/workflows"
)

// `ctl run` sends the first message as part of the session's start, so neither exists
// without the other. An update would exist only in the server's memory until a worker took
// it.

// taken waits until a new session has taken or refused its first message. With no worker
// up, it returns an error that says that the session starts later.
func (t *temporal) taken(ctx context.Context, doing string, run client.WorkflowRun, acc workflows.MessageAccepted) error {
	var d workflows.SessionDetail
	err := t.query(ctx, doing, run.GetID(), workflows.QueryDetail, &d)
	switch {
	case ctx.Err() != nil, err == nil && knows(d, acc.MessageID):
		return err
	case exitOf(err) == exitUnreachable:
		id := acc.Session
		return unreachable("%s: no worker answered; it is kept, and runs as soon as there is one", doing).
			hinted("`ctl session follow %s` shows it then, `ctl session close %s` takes it back", id, id).because(err)
	}
	// The session could not start. Its result says why.
	if rerr := t.result(ctx, doing, run, answerWait, nil); rerr != nil {
		return rerr
	}
	return err
}

// makeUp sends the first message to a session that this request has already started, if the
// session does not know it. That happens if an older ctl, which sends the message after the
// start, was interrupted. The session takes a message once, however often it arrives.
func (a *app) makeUp(ctx context.Context, t *temporal, acc *workflows.MessageAccepted, text string, x extras) error {
	msg := delivery{doing: "start session " + acc.Session, session: acc.Session, name: workflows.SignalMessage,
		updateID: acc.MessageID, again: true, check: func(workflows.SessionDetail) error { return nil }}
	d, live, err := msg.look(ctx, t)
	if err != nil || d.View.Turn != nil || knows(d, acc.MessageID) {
		return err
	}
	switch d.View.State {
	case workflows.Failed:
		return nil // the failure is shown later
	case workflows.Closing, workflows.Closed:
		return neverBegan(d, *acc)
	}
	folder := ofSession(acc.Session)
	m, err := a.message(ctx, t, folder, text, acc.MessageID)
	if err == nil {
		err = a.attach(ctx, t, folder, x, &m)
	}
	if err != nil {
		return err
	}
	msg.msg = m
	_, err = msg.send(ctx, t, d, live, nil, acc)
	return err
}

// knows reports whether a session has, or had, a message.
func knows(d workflows.SessionDetail, message string) bool {
	for _, turn := range d.Turns {
		if turn.MessageID == message {
			return true
		}
	}
	for _, m := range d.View.Messages {
		if m.ID == message {
			return true
		}
	}
	return false
}

// neverBegan returns the error for a turn that will never begin.
func neverBegan(d workflows.SessionDetail, acc workflows.MessageAccepted) error {
	return failed("session %s: it is %s, and turn %d never began", acc.Session, d.View.State, acc.N).
		hinted("`ctl transcript %s` says why; start another one (with another --key, where it had one)", acc.Session)
}
