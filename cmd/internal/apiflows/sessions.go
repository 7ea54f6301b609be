package apiflows

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/protocol"
)

// listWait bounds a page of a list.
const listWait = 30 * time.Second

// List implements httpapi.Sessions. It shows what Temporal keeps, and asks no session.
func (b *Backend) List(ctx context.Context, in httpapi.Filter, limit int, after []byte) ([]httpapi.Listed, []byte, error) {
	const doing = "list sessions"
	q, err := query(in)
	if err != nil {
		return nil, nil, err
	}
	t, err := b.conn()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	res, err := t.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: t.Namespace, Query: q, PageSize: int32(limit), NextPageToken: after})
	if err != nil {
		return nil, nil, t.Explain(ctx, doing, err)
	}
	list := []httpapi.Listed{}
	for _, info := range res.GetExecutions() {
		v := flows.KeptView(info, t.Codec)
		list = append(list, httpapi.Listed{ID: v.ID, View: flows.AsKnown(v)})
	}
	return list, res.GetNextPageToken(), nil
}

func query(in httpapi.Filter) (string, error) {
	// A run that continued as new is part of the session.
	q := []string{fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew'", protocol.TypeSession)}
	if in.State != "" {
		if !flows.KnownState(in.State) {
			return "", errkind.Usage("state %.40q is not a state of a session", in.State).Hinted("one of %s", strings.Join(flows.StateWords(), ", "))
		}
		q = append(q, fmt.Sprintf("FairleadState = '%s'", in.State))
	}
	if !in.Archived {
		q = append(q, flows.NotArchived)
	}
	for _, f := range []struct {
		what, name, attr string
		value            func(string) string
	}{
		{"host name", in.Host, "FairleadHost", func(name string) string { return name }},
		{"batch id", in.Batch, "FairleadOrigin", protocol.OriginBatch},
		{"schedule name", in.Schedule, "FairleadOrigin", protocol.OriginSchedule},
	} {
		if f.name == "" {
			continue
		}
		if err := errkind.CheckName(f.what, f.name); err != nil {
			return "", err
		}
		q = append(q, fmt.Sprintf("%s = '%s'", f.attr, f.value(f.name)))
	}
	return strings.Join(q, " AND "), nil
}

// Show implements httpapi.Sessions.
func (b *Backend) Show(ctx context.Context, id string) (any, error) {
	t, err := b.conn()
	if err != nil {
		return nil, err
	}
	v, err := view(ctx, t, id)
	if err != nil {
		return nil, err
	}
	return flows.AsKnown(v), nil
}

// view asks a session, or returns what Temporal keeps of it.
func view(ctx context.Context, t *flows.Conn, id string) (protocol.SessionView, error) {
	var v protocol.SessionView
	err := t.Ask(ctx, "show session "+id, protocol.SessionID(id), protocol.QueryState, &v)
	if err == nil && !flows.HasEnded(v.State) {
		t.MarkLeft(&v)
	}
	if err == nil || errkind.ExitCode(err) != errkind.ExitUnreachable || ctx.Err() != nil {
		return v, err
	}
	if kept, kerr := t.Kept(ctx, id); kerr == nil {
		t.MarkLeft(&kept)
		return kept, nil
	}
	return v, err
}

// Send implements httpapi.Sessions.
func (b *Backend) Send(ctx context.Context, key, id string, in httpapi.NewMessage) (acc protocol.MessageAccepted, err error) {
	t, err := b.conn()
	if err != nil {
		return acc, err
	}
	doing := "send to session " + id
	own, err := b.again(ctx, t, key, "m", id, doing, in)
	if err != nil {
		return acc, err
	}
	m, err := b.message(ctx, id, own, in)
	if err != nil {
		return acc, err
	}
	acc = protocol.MessageAccepted{Session: id, MessageID: m.ID}
	msg := flows.Delivery{Doing: doing, Session: id, Name: protocol.SignalMessage, UpdateID: m.ID, Msg: m, Again: true, Check: flows.TakesMore(doing)}
	_, err = msg.Deliver(ctx, t, &acc)
	return acc, err
}

// Turn implements httpapi.Sessions.
func (b *Backend) Turn(ctx context.Context, id string, n int) (v protocol.TurnView, err error) {
	t, err := b.conn()
	if err != nil {
		return v, err
	}
	err = t.Ask(ctx, fmt.Sprintf("show turn %d of session %s", n, id), protocol.SessionID(id), protocol.QueryTurn, &v, protocol.TurnQuery{N: n})
	return v, err
}

// Tell implements httpapi.Sessions.
func (b *Backend) Tell(ctx context.Context, key, id string, msg any) (any, error) {
	t, err := b.conn()
	if err != nil {
		return nil, err
	}
	switch m := msg.(type) {
	case httpapi.Archiving:
		return b.away(ctx, t, key, id, m)
	case protocol.Unsend:
		return b.unsend(ctx, t, key, id, m)
	}
	d := flows.Delivery{Session: id, Check: func(protocol.SessionDetail) error { return nil }}
	by := b.by(ctx)
	plain, request := msg, ""
	switch m := msg.(type) {
	case protocol.Interrupt:
		m.By = by
		d.Doing, d.Name, plain = "interrupt session "+id, protocol.SignalInterrupt, m
		d.Check = flows.TurnRuns(d.Doing)
	case protocol.Close:
		m.By = by
		d.Doing, d.Name, plain, d.Again = "close session "+id, protocol.SignalClose, m, true
	case protocol.Park:
		m.By = by
		d.Doing, d.Name, plain = "park session "+id, protocol.SignalPark, m
		d.Check = flows.TakesMore(d.Doing)
	case protocol.Resume:
		m.By = by
		d.Doing, d.Name, plain = "resume session "+id, protocol.SignalResume, m
		d.Check = flows.TakesMore(d.Doing)
	default:
		return nil, errkind.Failed("a session is told no %T", msg)
	}
	if d.UpdateID, err = b.again(ctx, t, key, d.Name, id, d.Doing, plain); err != nil {
		return nil, err
	}
	if key != "" {
		request = d.UpdateID
	}
	d.Msg = withRequest(plain, request)
	seen, live, lookErr := d.Look(ctx, t)
	v := seen.View
	if lookErr == nil && protocol.Took(seen.Taken, d.Name, by, request) != nil {
		return flows.AsKnown(v), nil
	}
	if _, err := sendOnce(ctx, t, d, request, plain, seen, live, lookErr, &v); err != nil {
		return nil, err
	}
	return flows.AsKnown(v), nil
}

// TakeSnapshot implements httpapi.Sessions.
func (b *Backend) TakeSnapshot(ctx context.Context, key, id string) (acc protocol.SnapshotAccepted, err error) {
	t, err := b.conn()
	if err != nil {
		return acc, err
	}
	doing := "take a snapshot of session " + id
	own, err := b.again(ctx, t, key, protocol.SignalSnapshot, id, doing, nil)
	if err != nil {
		return acc, err
	}
	acc.Session = id
	plain, request := protocol.TakeSnapshot{By: b.by(ctx)}, ""
	if key != "" {
		request = own
	}
	msg := flows.Delivery{Doing: doing, Session: id, Name: protocol.SignalSnapshot, UpdateID: own, Msg: withRequest(plain, request), Check: flows.TakesMore(doing)}
	seen, live, lookErr := msg.Look(ctx, t)
	if was := protocol.Took(seen.Taken, msg.Name, plain.By, request); lookErr == nil && was != nil {
		acc.N = was.N
		return acc, nil
	}
	_, err = sendOnce(ctx, t, msg, request, plain, seen, live, lookErr, &acc)
	return acc, err
}
