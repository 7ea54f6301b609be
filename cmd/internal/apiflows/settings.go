package apiflows

import (
	"context"
	"time"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/cmd/internal/schedules"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/internal/protocol"
)

// changes are the parts of a Backend that change settings, each once for a key.
type changes struct{ *Backend }

// SetSession implements httpapi.Sessions. Settings and budget are two commands.
func (b changes) SetSession(ctx context.Context, key, id string, in httpapi.SessionSettings) (any, error) {
	if in.Budget != nil && in.Budget.By != "" {
		return nil, errkind.Usage("budget.by: who asks is known from the request")
	}
	t, err := b.conn()
	if err != nil {
		return nil, err
	}
	doing := "set session " + id
	return b.tellOnce(ctx, t, key, protocol.SignalSet, id, doing, in, func(own string, out *protocol.SessionView) error {
		if in.Name != nil || in.Model != "" || in.Effort != "" || in.AnyModel {
			set := flows.Delivery{Doing: doing, Session: id, Name: protocol.SignalSet, UpdateID: own, Again: true, Check: flows.TakesMore(doing),
				Msg: protocol.Set{By: b.by(ctx), Model: in.Model, Effort: in.Effort, Name: in.Name, AnyModel: in.AnyModel}}
			if _, err := set.Deliver(ctx, t, out); err != nil {
				return err
			}
		}
		if in.Budget == nil {
			return nil
		}
		bounds := *in.Budget
		bounds.By = b.by(ctx)
		set := flows.Delivery{Doing: "set the budget of session " + id, Session: id, Name: protocol.SignalBudget, UpdateID: own + "-budget", Again: true, Check: flows.TakesMore(doing), Msg: bounds}
		_, err := set.Deliver(ctx, t, out)
		return err
	})
}

// tellOnce tells a session something, once for a key, and returns its view.
func (b changes) tellOnce(ctx context.Context, t *flows.Conn, key, name, id, doing string, what any, tell func(own string, out *protocol.SessionView) error) (any, error) {
	var v protocol.SessionView
	err := b.once(ctx, t, key, name, id, doing, what, func(own string) error { return tell(own, &v) })
	if err == nil && v.ID == "" { // it was told before, or Temporal keeps it for the next worker
		v, err = view(ctx, t, id)
	}
	if err != nil {
		return nil, err
	}
	return flows.AsKnown(v), nil
}

// once acts once for a key. What it acts on knows the id of the command in one run of its workflow, and
// Temporal keeps that the command is done.
func (b changes) once(ctx context.Context, t *flows.Conn, key, kind, id, doing string, what any, act func(own string) error) error {
	own, err := b.again(ctx, t, key, kind, id, doing, what)
	if err != nil {
		return err
	}
	if key == "" {
		return act(own)
	}
	done, err := flows.RequestOf(key+"-done", kind, id)
	if err != nil {
		return err
	}
	done.Doing, done.Called = doing, idempotencyKey
	if was, err := done.Claimed(ctx, t); err != nil || was != nil {
		return err
	}
	if err := act(own); err != nil {
		return err
	}
	return done.Take(ctx, t, b.opts.Zone)
}

// away puts a session away, or takes it out again.
func (b changes) away(ctx context.Context, t *flows.Conn, key, id string, in httpapi.Archiving) (any, error) {
	name, doing, check := protocol.SignalUnarchive, "unarchive session "+id, flows.TakesMore
	if in.Away {
		name, doing, check = protocol.SignalArchive, "archive session "+id, flows.Quiet
	}
	return b.tellOnce(ctx, t, key, name, id, doing, in, func(own string, out *protocol.SessionView) error {
		d := flows.Delivery{Doing: doing, Session: id, Name: name, UpdateID: own, Msg: protocol.Archive{By: b.by(ctx)}, Check: check(doing)}
		_, err := d.Deliver(ctx, t, out)
		return err
	})
}

// unsend takes back a message.
func (b changes) unsend(ctx context.Context, t *flows.Conn, key, id string, in protocol.Unsend) (any, error) {
	doing := "take back message " + in.Message + " of session " + id
	return b.tellOnce(ctx, t, key, protocol.SignalUnsend, id, doing, in, func(own string, out *protocol.SessionView) error {
		asked := in
		asked.By = b.by(ctx)
		d := flows.Delivery{Doing: doing, Session: id, Name: protocol.SignalUnsend, UpdateID: own, Msg: asked, Check: flows.TakesMore(doing)}
		_, err := d.Deliver(ctx, t, out)
		return err
	})
}

// Act implements httpapi.Sessions.
func (b changes) Act(ctx context.Context, key, id string, act protocol.Act, review *protocol.Review) (acc protocol.MessageAccepted, err error) {
	t, err := b.conn()
	if err != nil {
		return acc, err
	}
	doing := string(act) + " session " + id
	own, err := b.again(ctx, t, key, "m", id, doing, review)
	if err != nil {
		return acc, err
	}
	m := protocol.Message{ID: own, Do: act, Review: review, By: b.by(ctx)}
	acc = protocol.MessageAccepted{Session: id, MessageID: m.ID}
	msg := flows.Delivery{Doing: doing, Session: id, Name: protocol.SignalMessage, UpdateID: m.ID, Msg: m, Again: true, Check: flows.TakesMore(doing)}
	_, err = msg.Deliver(ctx, t, &acc)
	return acc, err
}

// Models implements httpapi.Sessions. It does not ask codex.
func (b changes) Models(ctx context.Context, id string) (v protocol.ModelsView, err error) {
	t, err := b.conn()
	if err != nil {
		return v, err
	}
	_, err = t.AskEither(ctx, "models of session "+id, protocol.SessionID(id), protocol.QueryModels, &v)
	if v.Models == nil {
		v.Models = []protocol.Model{}
	}
	return v, err
}

// pushWait bounds the wait for a push, which goes on after it.
const pushWait = 2 * time.Minute

// Push implements httpapi.Sessions.
func (b changes) Push(ctx context.Context, key, id string, in httpapi.Pushing) (out httpapi.Pushed, err error) {
	if err := workspaces.CheckRef(in.Branch); err != nil {
		return out, errkind.Usage("branch: %v", err)
	}
	t, err := b.conn()
	if err != nil {
		return out, err
	}
	doing := "push the work of session " + id
	own, err := b.again(ctx, t, key, protocol.UpdatePush, id, doing, in)
	if err != nil {
		return out, err
	}
	var done workspaces.PushWorkspaceResult
	t.Side = longer{t.Side, pushWait}
	err = t.UpdateWithin(ctx, pushWait, doing, protocol.SessionID(id), protocol.UpdatePush, own, &done, protocol.Push{ID: own, Branch: in.Branch, Message: in.Message, By: b.by(ctx)})
	return httpapi.Pushed{Branch: done.Branch, Commit: done.Commit, Already: done.Already, Refused: done.Refused}, err
}

// longer is a side that waits longer for what takes longer.
type longer struct {
	flows.Side
	wait time.Duration
}

func (l longer) Wait(def time.Duration) time.Duration { return min(def, l.wait) }

// PutHost implements httpapi.Fleet.
func (b changes) PutHost(ctx context.Context, key, zone, name string, in httpapi.NewHost) (v protocol.HostView, err error) {
	if err := errkind.CheckName("host name", name); err != nil {
		return v, err
	}
	if name == protocol.LocalHost {
		return v, errkind.Usage("host %s is the worker's own machine, and is not reached over SSH", name).Hinted("`ctl host add %s` adds it", name)
	}
	for _, k := range in.HostKeys {
		if err := flows.CheckHostKey(k); err != nil {
			return v, errkind.Usage("host_keys: %v", err)
		}
	}
	t, err := b.in(zone)
	if err != nil {
		return v, err
	}
	doing := "add host " + name
	put := protocol.PutHost{Labels: in.Labels, Slots: in.Slots, Jump: in.Jump, Zone: zone, Replace: in.Replace,
		Spec: protocol.HostSpec{Name: name, Address: in.Address, Port: in.Port, User: in.User, HostKeys: in.HostKeys, Root: in.Root}}
	err = b.once(ctx, t, key, protocol.UpdatePutHost, name, doing, []any{zone, in}, func(own string) error {
		return t.Update(ctx, doing, protocol.PoolID(zone), protocol.UpdatePutHost, own, &v, put)
	})
	if err == nil && v.Name == "" {
		return t.Host(ctx, doing, zone, name)
	}
	return v, flows.NoZone(zone, err)
}

// RemoveHost implements httpapi.Fleet.
func (b changes) RemoveHost(ctx context.Context, zone string, in protocol.RemoveHost) (v protocol.HostView, err error) {
	t, err := b.in(zone)
	if err != nil {
		return v, err
	}
	err = t.Update(ctx, "remove host "+in.Name, protocol.PoolID(zone), protocol.UpdateRemoveHost, "", &v, in)
	return v, flows.NoZone(zone, err)
}

// SetPool implements httpapi.Fleet.
func (b changes) SetPool(ctx context.Context, key, zone string, in protocol.SetPool) (protocol.PoolView, error) {
	asked := in
	in.By = b.by(ctx)
	return b.changePool(ctx, key, zone, protocol.UpdateSetPool, in, asked)
}

// PausePool implements httpapi.Fleet.
func (b changes) PausePool(ctx context.Context, key, zone string, in protocol.PausePool) (protocol.PoolView, error) {
	asked := in
	in.By = b.by(ctx)
	return b.changePool(ctx, key, zone, protocol.UpdatePausePool, in, asked)
}

func (b changes) changePool(ctx context.Context, key, zone, update string, in, asked any) (v protocol.PoolView, err error) {
	t, err := b.in(zone)
	if err != nil {
		return v, err
	}
	doing := "change zone " + zone
	err = b.once(ctx, t, key, update, zone, doing, asked, func(own string) error {
		return t.Update(ctx, doing, protocol.PoolID(zone), update, own, &v, in)
	})
	if err == nil && v.Zone == "" {
		return t.Pool(ctx, zone)
	}
	return v, flows.NoZone(zone, err)
}

// verifyWait is enough for a slow issuer, whose answer would be lost otherwise.
const verifyWait = 2 * time.Minute

// ChangeSeed implements httpapi.Fleet.
func (b changes) ChangeSeed(ctx context.Context, key, name string, msg any) (v protocol.SeedView, err error) {
	update, asked, what, wait := "", msg, "", flows.AnswerWait
	by := b.by(ctx)
	switch m := msg.(type) {
	case protocol.SetSeed:
		if m.Policy != nil && *m.Policy != "" {
			if _, err := policy.Parse([]byte(*m.Policy)); err != nil {
				return v, errkind.Usage("policy: %v", err)
			}
		}
		if m.Pools != nil {
			for _, pool := range *m.Pools {
				if err := errkind.CheckName("pool name", pool); err != nil {
					return v, err
				}
			}
		}
		m.By = by
		update, what, msg = protocol.UpdateSetSeed, "set", m
	case protocol.VerifySeed:
		m.By = by
		update, what, msg, wait = protocol.UpdateVerifySeed, "verify", m, verifyWait
	case protocol.ReviveSeed:
		m.By = by
		update, what, msg = protocol.UpdateReviveSeed, "revive", m
	case protocol.DeleteSeed:
		update, what = protocol.UpdateDeleteSeed, "delete"
	default:
		return v, errkind.Failed("a seed is told no %T", msg)
	}
	t, err := b.conn()
	if err != nil {
		return v, err
	}
	if _, err := t.Seed(ctx, name); err != nil {
		return v, err
	}
	doing := what + " seed " + name
	t.Side = longer{t.Side, wait}
	err = b.once(ctx, t, key, update, name, doing, asked, func(own string) error {
		return t.UpdateWithin(ctx, wait, doing, protocol.SeedID(name), update, own, &v, msg)
	})
	if err == nil && v.Name == "" {
		return t.Seed(ctx, name)
	}
	return v, err
}

// SetBatch implements httpapi.Batches. Only the call that begins a request changes the batch. So a late
// repetition does not undo what others set since.
func (b changes) SetBatch(ctx context.Context, key, id string, in httpapi.BatchSettings) (v protocol.BatchView, err error) {
	t, err := b.conn()
	if err != nil {
		return v, err
	}
	doing := "set batch " + id
	err = b.once(ctx, t, key, protocol.SignalSetBatch, id, doing, in, func(string) error {
		if v, err = t.Batch(ctx, "set", id); err != nil {
			return err
		}
		if v.Window == in.Window && !protocol.BatchOver(v.State) {
			return nil // as is asked
		}
		if err := b.neverBegun(ctx, t, key, protocol.SignalSetBatch, id, doing); err != nil {
			return err
		}
		v, err = t.SetBatch(ctx, v, protocol.SetBatch{By: b.by(ctx), Window: in.Window})
		return err
	})
	if err == nil && v.ID == "" {
		return t.Batch(ctx, "set", id)
	}
	return v, err
}

// RetryBatch implements httpapi.Batches.
func (b changes) RetryBatch(ctx context.Context, key, id string, in httpapi.RetryingBatch) (v protocol.BatchView, err error) {
	t, err := b.conn()
	if err != nil {
		return v, err
	}
	doing := "retry batch " + id
	err = b.once(ctx, t, key, protocol.SignalRetryBatch, id, doing, in, func(string) error {
		if v, err = t.Batch(ctx, "retry", id); err != nil {
			return err
		}
		r := protocol.RetryBatch{By: b.by(ctx), Rest: in.Rest}
		if err := flows.Retriable(v, r); err != nil {
			return err
		}
		if err := b.neverBegun(ctx, t, key, protocol.SignalRetryBatch, id, doing); err != nil {
			return err
		}
		return t.RetryBatch(ctx, v, r)
	})
	if err != nil {
		return v, err
	}
	return t.Batch(ctx, "retry", id)
}

// neverBegun refuses a request whose key has begun an act that cannot be repeated safely: an earlier
// call may have been carried out, although nothing says that it is done.
func (b changes) neverBegun(ctx context.Context, t *flows.Conn, key, kind, id, doing string) error {
	if key == "" {
		return nil
	}
	begun, err := flows.RequestOf(key+"-begun", kind, id)
	if err != nil {
		return err
	}
	begun.Doing, begun.Called = doing, idempotencyKey
	if first, err := begun.Bind(ctx, t, b.opts.Zone); err != nil || first {
		return err
	}
	return errkind.Refused("%s: a request with this key came before, and it is not known whether it was carried out", doing).
		Hinted("GET /v1/batches/%s shows how the batch is; send the request with a new key to carry it out now", id)
}

// BackfillSchedule implements httpapi.Batches. As a trigger, it cannot be repeated safely.
func (b changes) BackfillSchedule(ctx context.Context, key, name string, in httpapi.Backfill) (out httpapi.Backfilled, err error) {
	overlap := in.Overlap
	if overlap == "" {
		overlap = "buffer-all"
	}
	policy, err := schedules.ParseOverlap(overlap)
	if err != nil {
		return out, asFields(err)
	}
	h, err := b.hand(ctx)
	if err != nil {
		return out, err
	}
	plan, err := h.PlanBackfill(ctx, name, in.From, in.To, policy)
	if err != nil {
		return out, asFields(err)
	}
	if key != "" {
		doing := "backfill schedule " + name
		_, first, err := b.first(ctx, h.Conn, key, "backfill", name, doing, in)
		if err != nil {
			return out, err
		}
		if !first {
			return out, errkind.Refused("%s: a request with this key came before, and a backfill cannot be repeated safely", doing).
				Hinted("GET /v1/schedules/%s shows what it began", name)
		}
	}
	return httpapi.Backfilled{Name: name, Times: plan.Times}, asFields(h.Backfill(ctx, plan))
}
