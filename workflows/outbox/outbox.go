package outbox

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/notices"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// jobs is a nil pointer: the workflow uses only the names of the methods.
var jobs *notices.Activities

type outbox struct {
	ctx  workflow.Context
	zone string
	st   *State
	roll *kit.Rollover
	wake *kit.Wake

	work     bool // something is to be done
	sends    int  // activities that send
	planning bool
	watching bool
	unwatch  workflow.CancelFunc
}

// Run is the workflow Outbox.
func Run(ctx workflow.Context, in Input) error {
	o := &outbox{ctx: ctx, zone: in.Zone, st: in.Carry, roll: kit.NewRollover(ctx), wake: kit.NewWake(ctx, "the next message is due")}
	if o.st == nil {
		now := workflow.Now(ctx).UTC()
		o.st = &State{Begun: now, Cursor: now}
	}
	if o.st.Seen == nil {
		o.st.Seen = map[string]time.Time{}
	}
	if o.st.Recent == nil {
		o.st.Recent = map[string][]time.Time{}
	}
	if o.st.Totals == nil {
		o.st.Totals = map[string]int{}
	}
	authority.Record(ctx, &o.st.Audit).Keep()
	if err := o.listen(); err != nil {
		return err
	}
	for {
		if !o.roll.Due() {
			o.watch()
			o.plan()
			o.send()
		}
		err := workflow.Await(ctx, func() bool { return o.work || o.wake.Due() || o.roll.Due() })
		if err != nil {
			return err
		}
		o.work = false
		if o.wake.Due() {
			o.wake.Off()
		}
		if o.roll.Due() {
			return o.rollOver()
		}
	}
}

func (o *outbox) listen() error {
	return kit.FirstError(
		workflow.SetQueryHandler(o.ctx, protocol.QueryNotices, func(q protocol.NoticesQuery) (protocol.NoticesView, error) { return o.view(q), nil }),
		workflow.SetQueryHandler(o.ctx, protocol.QueryNotifyRules, func() (protocol.NotifyStanding, error) { return o.st.Standing, nil }),
		workflow.SetUpdateHandlerWithOptions(o.ctx, protocol.UpdateTestNotify,
			func(_ workflow.Context, in protocol.TestNotify) (protocol.TestNotifyAccepted, error) {
				o.roll.Took()
				in.Auth = nil // it was judged
				o.st.Tests = append(o.st.Tests, in)
				o.work = true
				return protocol.TestNotifyAccepted{Key: testKey(in)}, nil
			},
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in protocol.TestNotify) error { return o.checkTest(in) }}),
	)
}

func testKey(in protocol.TestNotify) string { return protocol.EventTest + "/" + in.ID }

func (o *outbox) checkTest(in protocol.TestNotify) error {
	switch {
	case !protocol.NamePattern.MatchString(in.ID):
		return kit.Refuse(protocol.RefusedBadInput, "the test's id is not a name")
	case len(in.To) > maxWord || len(in.By) > maxWord:
		return kit.Refuse(protocol.RefusedBadInput, "a name has more than %d bytes", maxWord)
	case len(o.st.Tests) >= maxTests:
		return kit.Refuse(protocol.RefusedState, "%d tests wait already: no worker with notification rules takes them", maxTests)
	case o.waiting() >= maxWaiting:
		return kit.Refuse(protocol.RefusedState, "%s", tooMany)
	}
	return nil
}

// watch keeps one activity watching.
func (o *outbox) watch() {
	if o.watching {
		return
	}
	o.watching = true
	now := workflow.Now(o.ctx).UTC()
	in := notices.WatchEventsInput{Zone: o.zone, Now: now, Since: o.st.Cursor, Begun: o.st.Begun, Standing: o.st.Standing.Digest + o.st.Standing.Broken, Deaf: len(o.st.Deaf), Silent: maps.Clone(o.st.Silent)}
	in.Seen = append(in.Seen, workflow.DeterministicKeys(o.st.Seen)...)
	ctx, cancel := workflow.WithCancel(workflow.WithActivityOptions(o.ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 2 * time.Hour, HeartbeatTimeout: kit.Beat, WaitForCancellation: true, Summary: "watch for events",
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second},
	}))
	o.unwatch = cancel
	workflow.Go(ctx, func(ctx workflow.Context) {
		out, err := kit.Do(ctx, jobs.WatchEvents, in)
		o.watching, o.work = false, true
		if err != nil {
			return // it was cancelled: the cursor stays
		}
		o.st.Standing, o.st.Limit, o.st.Per, o.st.RetryFor = out.Standing, out.Limit, out.Per, out.RetryFor
		o.st.Problem, o.st.Deaf, o.st.Silent = kit.Cut(out.Problem, maxWord), out.Deaf, out.Silent
		if out.Cursor.After(o.st.Cursor) {
			o.st.Cursor = out.Cursor
		}
		for _, key := range workflow.DeterministicKeys(out.Seen) {
			o.st.Seen[key] = out.Seen[key]
		}
		o.forget()
		o.take(out.Notices)
	})
}

// forget drops the keys of events that cannot be found any more.
func (o *outbox) forget() {
	oldest := o.st.Cursor.Add(-notices.Overlap)
	for _, key := range workflow.DeterministicKeys(o.st.Seen) {
		if !o.st.Seen[key].After(oldest) {
			delete(o.st.Seen, key)
		}
	}
	over := len(o.st.Seen) - maxSeen
	if over <= 0 {
		return
	}
	// The cursor moves on, so that what is dropped is not found again.
	all := workflow.DeterministicKeys(o.st.Seen)
	slices.SortStableFunc(all, func(a, b string) int { return o.st.Seen[a].Compare(o.st.Seen[b]) })
	last := o.st.Seen[all[over-1]]
	for _, key := range all {
		if !o.st.Seen[key].After(last) {
			delete(o.st.Seen, key)
		}
	}
	o.st.Cursor = last.Add(notices.Overlap)
	o.st.Problem = fmt.Sprintf("more than %d events at once: what is listed late, from before %s, is not told", maxSeen, last.Format(time.RFC3339))
}

// plan asks a worker whom the oldest test reaches.
func (o *outbox) plan() {
	if o.planning || len(o.st.Tests) == 0 {
		return
	}
	o.planning = true
	t := o.st.Tests[0]
	workflow.Go(o.ctx, func(ctx workflow.Context) {
		in := notices.PlanTestInput{Key: testKey(t), To: t.To, By: t.By, Now: workflow.Now(ctx).UTC()}
		out, err := kit.Do(kit.UntilDone(ctx, "plan a test"), jobs.PlanTest, in)
		o.planning, o.work = false, true
		o.st.Tests = o.st.Tests[1:]
		if err != nil {
			out.Problem = kit.FailureOf("plan the test", err).Message
		}
		if out.Problem != "" {
			o.done(protocol.Notice{ID: testKey(t), Event: protocol.NotifyEvent{Key: testKey(t), Kind: protocol.EventTest, At: in.Now}, Channel: "", Person: t.To, CreatedAt: in.Now},
				protocol.NoticeFailed, out.Problem)
			return
		}
		waiting := o.waiting()
		for _, n := range out.Notices { // a test is not held back
			if waiting++; waiting > maxWaiting {
				o.done(n, protocol.NoticeFailed, tooMany)
				continue
			}
			o.st.Messages = append(o.st.Messages, &Message{Channel: n.Channel, Person: n.Person, Notices: []protocol.Notice{n}, NextAt: in.Now})
		}
	})
}

// send begins to send what is due, and sets the alarm for what is due next.
func (o *outbox) send() {
	now := workflow.Now(o.ctx)
	var next time.Time
	for _, m := range slices.Clone(o.st.Messages) {
		switch {
		case m.sending:
		case m.NextAt.After(now):
			if next.IsZero() || m.NextAt.Before(next) {
				next = m.NextAt
			}
		case o.sends < maxSending:
			o.attempt(m, now)
		}
	}
	if next.IsZero() {
		o.wake.Off()
	} else {
		o.wake.Set(next)
	}
}

func (o *outbox) attempt(m *Message, now time.Time) {
	o.expire(m, now)
	if len(m.Notices) == 0 {
		o.drop(m)
		return
	}
	if m.Attempts == 0 {
		if m.Digest { // it counts from now on: until then it holds back no other message
			o.st.Recent[m.target()] = append(o.st.Recent[m.target()], now.UTC())
		}
		m.FirstAt, m.ID, m.Digest = now.UTC(), messageID(m.Notices), false
	}
	m.Attempts++
	m.sending = true
	o.sends++
	in := notices.SendNoticeInput{ID: m.ID, Channel: m.Channel, Person: m.Person, At: m.FirstAt}
	for _, n := range m.Notices {
		in.Events = append(in.Events, n.Event)
	}
	ctx := workflow.WithActivityOptions(o.ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 3 * time.Minute, HeartbeatTimeout: kit.Beat, Summary: kit.Cut("tell "+cmp.Or(m.Person, m.Channel)+" by "+m.Channel, 100),
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second},
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		out, err := kit.Do(ctx, jobs.SendNotice, in)
		m.sending = false
		o.sends--
		o.work = true
		if err != nil { // not retried: what the attempt did is not known
			out = notices.SendNoticeResult{Result: notify.Unknown, Reason: kit.FailureOf("send it", err).Message}
		}
		o.sent(m, out, workflow.Now(ctx))
	})
}

// expire drops notices of approvals that have expired.
func (o *outbox) expire(m *Message, now time.Time) {
	m.Notices = slices.DeleteFunc(m.Notices, func(n protocol.Notice) bool {
		if at := n.Event.ExpiresAt; at.IsZero() || now.Before(at) {
			return false
		}
		state, why := protocol.NoticeSuppressed, "the approval expired before it could be sent"
		if m.Why != "" {
			state, why = protocol.NoticeFailed, why+"; the newest of "+attempts(m.Attempts)+": "+m.Why
		}
		o.finish(m, n, state, why)
		return true
	})
}

// sent takes the outcome of an attempt.
func (o *outbox) sent(m *Message, out notices.SendNoticeResult, now time.Time) {
	m.Notices = slices.DeleteFunc(m.Notices, func(n protocol.Notice) bool {
		if !slices.Contains(out.Over, n.Event.Key) {
			return false
		}
		o.finish(m, n, protocol.NoticeSuppressed, "decided, or over, before it was sent")
		return true
	})
	m.Why = kit.Cut(out.Reason, 500)
	state, why := protocol.NoticePending, m.Why
	switch out.Result {
	case notify.Sent:
		state = protocol.NoticeSent
	case notify.Failed:
		state = protocol.NoticeFailed
	case notify.Unknown:
		state = protocol.NoticeUnknown
	case notify.Retry:
		if now.Sub(m.FirstAt) >= o.st.RetryFor {
			state, why = protocol.NoticeFailed, "given up after "+attempts(m.Attempts)+" in "+now.Sub(m.FirstAt).Round(time.Second).String()+": "+m.Why
		}
	}
	if state != protocol.NoticePending {
		for _, n := range m.Notices {
			o.finish(m, n, state, why)
		}
		m.Notices = nil
	}
	if len(m.Notices) == 0 {
		o.drop(m)
		return
	}
	m.NextAt = now.Add(max(pause(m.Attempts), out.After)).UTC()
	if last := m.FirstAt.Add(o.st.RetryFor); m.NextAt.After(last) && last.After(now) {
		m.NextAt = last // the last attempt
	}
}

func (o *outbox) drop(m *Message) {
	o.st.Messages = slices.DeleteFunc(o.st.Messages, func(x *Message) bool { return x == m })
}

// pause is before the next attempt.
func pause(attempts int) time.Duration {
	return min(5*time.Second<<min(max(attempts-1, 0), 10), 10*time.Minute)
}

// rollOver ends the run when no message is being sent.
func (o *outbox) rollOver() error {
	if o.unwatch != nil && o.watching {
		o.unwatch()
	}
	if err := workflow.Await(o.ctx, func() bool {
		return o.sends == 0 && !o.planning && !o.watching && workflow.AllHandlersFinished(o.ctx) && o.roll.Due()
	}); err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(o.ctx, protocol.TypeOutbox, Input{Zone: o.zone, Carry: o.st})
}
