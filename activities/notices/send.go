package notices

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
)

// SendNoticeInput is the input of SendNotice.
type SendNoticeInput struct {
	ID      string                 `json:"id"` // of the message: the same for each attempt
	Channel string                 `json:"channel"`
	Person  string                 `json:"person,omitempty"`
	At      time.Time              `json:"at"` // of the first attempt
	Events  []protocol.NotifyEvent `json:"events"`
}

// SendNoticeResult is what came of an attempt.
type SendNoticeResult struct {
	Result notify.Result `json:"result"` // empty if nothing was left to send
	Reason string        `json:"reason,omitempty"`
	After  time.Duration `json:"after,omitempty"` // how long the server asks to wait
	// Over are the keys of events that are over: they were not sent.
	Over []string `json:"over,omitempty"`
}

// sending is the detail of heartbeats once the message may have been sent.
const sending = "sending"

// SendNotice makes one attempt to send a message. Only a worker's death repeats it.
func (a *Activities) SendNotice(ctx context.Context, in SendNoticeInput) (out SendNoticeResult, err error) {
	r, err := a.rules()
	if err != nil {
		return out, err
	}
	// Only a heartbeat that says so has details. They are not read: payloads are bound to their
	// place, and a heartbeat that goes past the SDK has another one.
	again := activity.HasHeartbeatDetails(ctx)
	if again && !r.Repeatable(in.Channel) {
		return SendNoticeResult{Result: notify.Unknown, Reason: "the worker died while it sent the message, so the receiver may have it: it is not sent again"}, nil
	}
	beats := a.beat(ctx, again)
	defer beats.stop()
	// What was perhaps sent stays the same.
	events, ended := a.still(ctx, r, in.Events, again)
	out.Over = ended
	if len(events) == 0 {
		return out, nil
	}
	m := notify.Message{ID: in.ID, Person: in.Person, At: in.At}
	m.Events = append(m.Events, events...)
	if err := beats.sends(ctx); err != nil {
		return out, fmt.Errorf("tell Temporal that a message is being sent: %w", err)
	}
	o, err := a.sender.Send(ctx, r, in.Channel, m)
	if err != nil { // the rules have changed
		return SendNoticeResult{Result: notify.Failed, Reason: err.Error(), Over: out.Over}, nil
	}
	if o.Card != nil && a.site.Posted != nil {
		a.site.Posted(ctx, *o.Card)
	}
	out.Result, out.Reason, out.After = o.Result, o.Reason, o.After
	return out, nil
}

const (
	asksAtOnce = 8
	askWait    = 5 * time.Second
	asksWait   = 20 * time.Second
)

// still returns the events that are not over, with what the message says of them, and the keys
// of the others. An approval that cannot be asked about counts as open. With whole, none is over.
func (a *Activities) still(ctx context.Context, r *notify.Rules, events []protocol.NotifyEvent, whole bool) (all []notify.Told, over []string) {
	open := a.approvals(ctx, events)
	for _, e := range events {
		t := notify.Told{NotifyEvent: e, Link: r.Link(e)}
		if e.Approval != "" {
			list, known := open[e.Session]
			i := slices.IndexFunc(list, func(ap protocol.Approval) bool { return ap.ID == e.Approval })
			if !whole && known && (i < 0 || list[i].State != protocol.ApprovalOpen) {
				over = append(over, e.Key)
				continue
			}
			if i >= 0 && !r.Hidden() {
				t.Summary, t.Ask = list[i].Summary, &list[i]
			}
		}
		all = append(all, t)
	}
	return all, over
}

// approvals asks the sessions of events for their approvals. It leaves out those that do not
// answer soon.
func (a *Activities) approvals(ctx context.Context, events []protocol.NotifyEvent) map[string][]protocol.Approval {
	ctx, cancel := context.WithTimeout(ctx, asksWait)
	defer cancel()
	var mu sync.Mutex
	out := map[string][]protocol.Approval{}
	var g errgroup.Group
	g.SetLimit(asksAtOnce)
	asked := map[string]bool{}
	for _, e := range events {
		if e.Approval == "" || asked[e.Session] {
			continue
		}
		asked[e.Session] = true
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, askWait)
			defer cancel()
			var list []protocol.Approval
			v, err := a.site.Temporal.QueryWorkflow(ctx, protocol.SessionID(e.Session), "", protocol.QueryApprovals)
			if err == nil && v.Get(&list) == nil {
				mu.Lock()
				out[e.Session] = list
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait() // no error is returned above
	return out
}

// beats are an attempt's heartbeats. They go past the SDK, which holds back heartbeats and could
// overwrite a later one by an earlier one.
type beats struct {
	a     *Activities
	token []byte
	end   chan struct{}
	done  chan struct{}

	mu   sync.Mutex
	sent bool // the message may have been sent
}

func (a *Activities) beat(ctx context.Context, again bool) *beats {
	info := activity.GetInfo(ctx)
	b := &beats{a: a, token: info.TaskToken, end: make(chan struct{}), done: make(chan struct{}), sent: again}
	go func() {
		defer close(b.done)
		tick := time.NewTicker(max(info.HeartbeatTimeout/3, time.Second))
		defer tick.Stop()
		for {
			select {
			case <-b.end:
				return
			case <-tick.C:
				b.mu.Lock()
				_ = b.record(ctx) // the next one may succeed
				b.mu.Unlock()
			}
		}
	}()
	return b
}

func (b *beats) record(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	if !b.sent {
		return b.a.site.Temporal.RecordActivityHeartbeat(ctx, b.token)
	}
	return b.a.site.Temporal.RecordActivityHeartbeat(ctx, b.token, sending)
}

// sends returns when Temporal knows that the message may have been sent.
func (b *beats) sends(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = true
	return b.record(ctx)
}

func (b *beats) stop() {
	close(b.end)
	<-b.done
}
