package session

import (
	"context"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/start"
	"fairlead.dev/fairlead/internal/protocol"
)

// `ctl run` sends the first message with the session's start, because an update exists only
// in the server's memory until a worker takes it.

// taken waits until a new session has taken or refused its first message. If no worker is
// up, the error says that the session starts later.
func taken(ctx context.Context, t *conn.Conn, doing string, run client.WorkflowRun, acc protocol.MessageAccepted) error {
	var d protocol.SessionDetail
	err := t.Query(ctx, doing, run.GetID(), protocol.QueryDetail, &d)
	switch {
	case ctx.Err() != nil, err == nil && knows(d, acc.MessageID):
		return err
	case core.ExitCode(err) == core.ExitUnreachable:
		id := acc.Session
		return core.Unreachable("%s: no worker answered; Temporal keeps the session, which starts when a worker is up", doing).
			Hinted("`ctl session follow %s` shows it then, `ctl session close %s` takes it back", id, id).Because(err)
	}
	// The session could not start: its result says why.
	if rerr := t.Result(ctx, doing, run, conn.AnswerWait, nil); rerr != nil {
		return rerr
	}
	return err
}

// makeUp sends the first message to a session that this request has already started without
// it. An older ctl sends the message after the start and may have been interrupted. The
// session takes the message once.
func makeUp(ctx context.Context, a *core.App, t *conn.Conn, acc *protocol.MessageAccepted, text string, x start.Extras) error {
	msg := conn.Delivery{Doing: "start session " + acc.Session, Session: acc.Session, Name: protocol.SignalMessage,
		UpdateID: acc.MessageID, Again: true, Check: func(protocol.SessionDetail) error { return nil }}
	d, live, err := msg.Look(ctx, t.Conn)
	if err != nil || d.View.Turn != nil || knows(d, acc.MessageID) {
		return err
	}
	switch d.View.State {
	case protocol.Failed:
		return nil // the caller shows the failure
	case protocol.Closing, protocol.Closed:
		return neverBegan(d, *acc)
	}
	folder := start.OfSession(acc.Session)
	m, err := start.Message(ctx, a, t, folder, text, acc.MessageID)
	if err == nil {
		err = start.Attach(ctx, a, t, folder, x, &m)
	}
	if err != nil {
		return err
	}
	msg.Msg = m
	_, err = msg.Send(ctx, t.Conn, d, live, nil, acc)
	return err
}

// knows reports whether a session ever had a message.
func knows(d protocol.SessionDetail, message string) bool {
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

// neverBegan is the error for a turn that will never begin.
func neverBegan(d protocol.SessionDetail, acc protocol.MessageAccepted) error {
	return core.Failed("session %s: it is %s, and turn %d never began", acc.Session, d.View.State, acc.N).
		Hinted("`ctl transcript %s` says why; start another one (with another --key, where it had one)", acc.Session)
}
