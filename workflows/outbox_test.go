package workflows

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities/notices"
	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/outbox"
)

// A teller stands in for the activities of an outbox.
type teller struct {
	found []protocol.Notice // that the next look finds
	sent  []notices.SendNoticeInput
	per   time.Duration // of the limit: 10 minutes if it is 0
}

// WatchEvents finds what the teller has, and else waits.
func (h *standIn) WatchEvents(ctx context.Context, in notices.WatchEventsInput) (notices.WatchEventsResult, error) {
	out := notices.WatchEventsResult{Cursor: in.Now, Limit: 6, Per: 10 * time.Minute, RetryFor: time.Hour, Standing: protocol.NotifyStanding{File: "rules.yaml", Digest: "d"}}
	h.mu.Lock()
	out.Per = cmp.Or(h.teller.per, out.Per)
	h.mu.Unlock()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		h.mu.Lock()
		all := h.teller.found
		h.teller.found = nil
		h.mu.Unlock()
		if len(all) > 0 {
			out.Notices, out.Seen = all, map[string]time.Time{}
			for _, n := range all {
				out.Seen[n.Event.Key] = in.Now
			}
			return out, nil
		}
		activity.RecordHeartbeat(ctx)
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-activity.GetWorkerStopChannel(ctx):
			return out, nil
		case <-tick.C:
		}
	}
}

// SendNotice does what the channel's name says.
func (h *standIn) SendNotice(_ context.Context, in notices.SendNoticeInput) (notices.SendNoticeResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.teller.sent = append(h.teller.sent, in)
	switch in.Channel {
	case "refuses":
		return notices.SendNoticeResult{Result: notify.Failed, Reason: "the server refused it with status 400"}, nil
	case "dies":
		return notices.SendNoticeResult{Result: notify.Unknown, Reason: "the worker died"}, nil
	case "late":
		return notices.SendNoticeResult{Over: []string{in.Events[0].Key}}, nil
	case "busy":
		n := 0
		for _, was := range h.teller.sent {
			if was.ID == in.ID {
				n++
			}
		}
		if n == 1 {
			return notices.SendNoticeResult{Result: notify.Retry, Reason: "the server answered with status 503"}, nil
		}
	}
	return notices.SendNoticeResult{Result: notify.Sent}, nil
}

// PlanTest reaches a person by one channel.
func (h *standIn) PlanTest(_ context.Context, in notices.PlanTestInput) (notices.PlanTestResult, error) {
	return notices.PlanTestResult{Notices: []protocol.Notice{told(in.Key, "chat", in.To)}}, nil
}

func told(key, channel, person string) protocol.Notice {
	return protocol.Notice{ID: "ntc_" + key + channel + person, Event: protocol.NotifyEvent{Key: key, Kind: protocol.EventApprovalOpened, Session: "s1", Approval: "s1.1"},
		Channel: channel, Person: person, State: protocol.NoticePending}
}

// tells gives the next look something to find.
func (h *standIn) tells(all ...protocol.Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.teller.found = append(h.teller.found, all...)
}

// messages returns what was sent.
func (h *standIn) messages() []notices.SendNoticeInput {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]notices.SendNoticeInput(nil), h.teller.sent...)
}

// outboxOf starts a zone's outbox.
func (r *real) outboxOf() (id string) {
	id = protocol.OutboxID(r.zone)
	r.start(id, protocol.TypeOutbox, outbox.Input{Zone: r.zone})
	r.t.Cleanup(func() { _ = r.c.TerminateWorkflow(context.Background(), id, "", "the test is over") })
	return id
}

func (r *real) notices(id string) protocol.NoticesView {
	return asked[protocol.NoticesView](r, id, protocol.QueryNotices, protocol.NoticesQuery{})
}

func TestEachNoticeOfAnOutboxHasAStateWithItsReason(t *testing.T) {
	r := newReal(t)
	r.work()
	id := r.outboxOf()
	dropped := told("e1", "quiet", "ann")
	dropped.State, dropped.Reason = protocol.NoticeSuppressed, "quiet hours"
	r.host.tells(told("e1", "chat", "ann"), told("e1", "refuses", "ann"), told("e1", "dies", "ann"), told("e1", "late", "ann"), told("e1", "busy", "ann"), dropped)
	r.until("all are done", func() bool { v := r.notices(id); return v.Totals[protocol.NoticeSent] == 2 && len(v.Notices) == 6 })
	for _, n := range r.notices(id).Notices {
		want := map[string]protocol.NoticeState{"chat": protocol.NoticeSent, "busy": protocol.NoticeSent, "refuses": protocol.NoticeFailed, "dies": protocol.NoticeUnknown,
			"late": protocol.NoticeSuppressed, "quiet": protocol.NoticeSuppressed}[n.Channel]
		if n.State != want || (n.Reason == "") != (want == protocol.NoticeSent) || n.DoneAt.IsZero() {
			t.Errorf("the notice by %s is %+v", n.Channel, n)
		}
	}
	ids := map[string]bool{}
	for _, m := range r.host.messages() {
		if m.Channel == "busy" {
			ids[m.ID] = true
		}
	}
	if len(ids) != 1 {
		t.Errorf("the second attempt had another id: %v", ids)
	}
}

func TestTwoHundredApprovalsAtOnceAreOneMessage(t *testing.T) {
	r := newReal(t)
	r.work()
	r.host.mu.Lock()
	r.host.teller.per = 20 * time.Second
	r.host.mu.Unlock()
	id := r.outboxOf()
	var all []protocol.Notice
	for i := range 200 {
		all = append(all, told(fmt.Sprintf("e%03d", i), "chat", "ann"))
	}
	r.host.tells(append(all, told("e000", "chat", "bob"))...)
	r.until("all are sent", func() bool { return r.notices(id).Totals[protocol.NoticeSent] == 201 })
	got := r.host.messages()
	if len(got) != 2 || len(got[0].Events)+len(got[1].Events) != 201 {
		t.Fatalf("%d messages were sent", len(got))
	}
	// A few more are sent one by one, as the limit allows; what is above it waits. What quiet
	// hours hold does not count until it is sent.
	held := told("h", "chat", "ann")
	held.NotBefore, held.Reason = time.Now().Add(time.Hour), "quiet hours"
	r.host.tells(held)
	r.until("it is held", func() bool { v := r.notices(id); return len(v.Notices)+v.Older == 202 })
	for i := range 8 {
		r.host.tells(told(fmt.Sprintf("f%d", i), "chat", "ann"))
		r.until("it is taken", func() bool { v := r.notices(id); return len(v.Notices)+v.Older == 203+i })
	}
	v := r.notices(id)
	waits := 0
	for _, n := range v.Notices {
		if n.State == protocol.NoticePending && n.NotBefore.After(time.Now()) && n.Event.Key != "h" {
			waits++
		}
	}
	if waits != 3 {
		t.Errorf("%d of 8 wait for the limit, want 3 (1 and 5 messages were sent)", waits)
	}
	r.until("all but what quiet hours hold is sent", func() bool { return r.notices(id).Totals[protocol.NoticeSent] == 209 })
	if got = r.host.messages(); len(got) != 8 || len(got[7].Events) != 3 {
		t.Errorf("%d messages were sent, want 8: the last one has what was above the limit", len(got))
	}
	if seen := r.history(id, ""); len(seen.Events) > 16*12 {
		t.Errorf("the history has %d events", len(seen.Events))
	}
}
