package conn

import (
	"context"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

const snapshotWait = 30 * time.Minute

// AskSnapshot requests a snapshot. kept is true if no worker was up.
func AskSnapshot(ctx context.Context, t *Conn, id string) (acc protocol.SnapshotAccepted, kept bool, err error) {
	doing := "take a snapshot of session " + id
	acc.Session = id
	msg := Delivery{Doing: doing, Session: id, Name: protocol.SignalSnapshot, Msg: protocol.TakeSnapshot{By: core.Person()}, Check: TakesMore(doing)}
	kept, err = msg.Deliver(ctx, t.Conn, &acc)
	return acc, kept, err
}

// TakenSnapshot waits for a requested snapshot and returns it.
func TakenSnapshot(ctx context.Context, a *core.App, t *Conn, acc protocol.SnapshotAccepted) (m snapshots.Manifest, err error) {
	v, err := awaitSnapshot(ctx, a, t, acc)
	if err != nil {
		return m, err
	}
	worker, err := AnyWorker(ctx, a, t)
	if err != nil {
		return m, err
	}
	m, err = worker.Snapshot(ctx, v.ID)
	return m, APIFailure("find snapshot "+v.ID, err)
}

func awaitSnapshot(ctx context.Context, a *core.App, t *Conn, acc protocol.SnapshotAccepted) (protocol.SnapshotView, error) {
	doing := "take a snapshot of session " + acc.Session
	var got protocol.SnapshotView
	_, err := AwaitSession(ctx, a, t, acc.Session, doing, snapshotWait, func(v protocol.SessionView) (bool, error) {
		s := v.Snapshot
		switch {
		case s == nil || s.Tried < acc.N && s.N < acc.N:
			return false, GoneOn(doing, v)
		case s.N >= acc.N:
			got = *s
			return true, nil
		case s.Error != nil:
			e := FailureExit(doing, s.Error)
			e.Code = core.ExitFailed
			return false, e
		}
		return false, core.Refused("%s: there is nothing to snapshot yet", doing).Hinted("send the session a message first")
	})
	return got, err
}
