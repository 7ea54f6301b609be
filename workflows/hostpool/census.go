package hostpool

import (
	"math/bits"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// A pool that starts without a former run may replace one that was terminated. So it lists
// all running sessions and asks which slots they hold. It grants none until they have
// answered or AnswersWithin has passed since they were asked. If the run ends before that,
// the next run asks again.

// AnswersWithin bounds how long a pool waits for answers. Only sessions of an older
// version, or without a worker, do not answer. The pool does not count what they hold.
const AnswersWithin = 30 * time.Second

type censusPart struct {
	*poolCore
	slots *slotsPart

	hld workflow.ReceiveChannel
	// calling holds the sessions that have yet to answer, or is nil.
	calling map[string]bool
	drain   func()
}

func (p *censusPart) callRoll(ctx workflow.Context) {
	out, err := p.listSessions(ctx)
	if err != nil {
		return
	}
	defer func() { p.calling, p.st.Calling, p.work = nil, false, true }()
	sent := make([]workflow.Future, len(out.Sessions))
	for i, id := range out.Sessions {
		p.calling[strings.TrimPrefix(id, protocol.SessionID(""))] = true
		sent[i] = workflow.SignalExternalWorkflow(ctx, id, "", lease.SignalCall, lease.RollCall{From: protocol.PoolID(p.zone)})
		if i%500 == 499 { // Temporal allows 2,000 pending at a time
			for _, fut := range sent[i-499 : i+1] {
				_ = fut.Get(ctx, nil)
			}
		}
	}
	for i, fut := range sent {
		if err := fut.Get(ctx, nil); err != nil { // the session has ended
			delete(p.calling, strings.TrimPrefix(out.Sessions[i], protocol.SessionID("")))
		}
	}
	if _, err := workflow.AwaitWithTimeout(ctx, AnswersWithin, func() bool { p.drain(); return len(p.calling) == 0 }); err != nil {
		return
	}
	if n := len(p.calling); n > 0 {
		workflow.GetLogger(ctx).Warn("sessions did not say which slots they hold", "sessions", n)
	}
}

const listing = "look for sessions that may hold slots"

// listSessions retries until it has the list, without which the pool would grant slots
// twice. Meanwhile the pool's view and the waiting sessions show the failure. It returns an
// error only if the workflow ends.
func (p *censusPart) listSessions(ctx workflow.Context) (overseer.FindSessionsResult, error) {
	for {
		out, err := kit.Do(kit.SetUp(ctx, listing), askJobs.FindSessions, overseer.FindSessionsInput{})
		if err == nil {
			p.st.NoList, p.work = nil, true
			return out, nil
		}
		p.cannotList(kit.FailureOf(listing, err), workflow.Now(ctx))
		workflow.GetLogger(ctx).Warn("sessions not yet asked for the slots that they hold", "error", err)
		if err := workflow.Sleep(ctx, kit.PauseAfter(p.st.NoList.Attempt)); err != nil {
			return out, err
		}
	}
}

func (p *censusPart) cannotList(f *protocol.Failure, now time.Time) {
	t := p.st.NoList
	if t == nil {
		t = &kit.Trouble{Doing: listing, Since: now}
		p.st.NoList = t
	}
	t.Attempt++
	t.Kind, t.Error, t.NextAt = f.Kind, kit.Cut(f.Message, kit.MaxTrouble), now.Add(kit.PauseAfter(t.Attempt))
	p.work = true
}

func (p *censusPart) waitingView() *protocol.WaitingView {
	if p.st.NoList == nil {
		return nil
	}
	v := protocol.WaitingView(*p.st.NoList)
	return &v
}

// whyCalling returns the reason that waiting sessions are told. Each change of the text is
// sent to them, so it rounds the number of attempts down to a power of two.
func (p *censusPart) whyCalling() *protocol.Failure {
	const asks = "the pool asks the sessions that run what they hold"
	t := p.st.NoList
	if t == nil {
		return busyWith(asks)
	}
	atLeast := 1 << (bits.Len(uint(t.Attempt)) - 1)
	return busyWith("%s, and cannot list them since %s (failed attempts: at least %d): %s; it tries again, and grants nothing until Temporal lists workflows again",
		asks, kit.Clock(t.Since), atLeast, t.Error)
}

func (p *censusPart) drainHolds() {
	for {
		var h lease.Holds
		if !p.hld.ReceiveAsync(&h) {
			return
		}
		delete(p.calling, h.Holder)
		if h.Host == "" || !protocol.NamePattern.MatchString(h.Holder) || p.lease(h.Holder) != nil {
			continue
		}
		p.st.Leases = append(p.st.Leases, Lease{Holder: h.Holder, Host: h.Host, Epoch: h.Epoch, Seed: h.Seed, Run: h.Run, Tenant: h.Tenant, Since: h.Since, Warm: h.Warm})
		p.st.Epoch = max(p.st.Epoch, h.Epoch)
		p.work = true
		p.slots.coolDown()
	}
}
