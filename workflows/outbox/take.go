package outbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// take makes messages of new notices.
func (o *outbox) take(all []protocol.Notice) {
	now := workflow.Now(o.ctx).UTC()
	waiting := o.waiting()
	known := map[string]bool{}
	for _, m := range o.st.Messages {
		for _, n := range m.Notices {
			known[n.ID] = true
		}
	}
	groups := map[string][]protocol.Notice{}
	var order []string
	for _, n := range all {
		switch {
		case known[n.ID]: // its key was forgotten and found again: it waits already
			continue
		case n.State != protocol.NoticePending:
			o.done(n, n.State, n.Reason)
			continue
		case waiting >= maxWaiting:
			o.done(n, protocol.NoticeFailed, tooMany)
			continue
		}
		known[n.ID] = true
		waiting++
		at := n.Channel + "/" + n.Person + "/" + n.NotBefore.Format(time.RFC3339)
		if groups[at] == nil {
			order = append(order, at)
		}
		groups[at] = append(groups[at], n)
	}
	for _, at := range order {
		o.group(groups[at], now)
	}
}

var tooMany = fmt.Sprintf("%d notices wait already: see why with ctl notify log", maxWaiting)

// waiting returns how many notices wait.
func (o *outbox) waiting() (n int) {
	for _, m := range o.st.Messages {
		n += len(m.Notices)
	}
	return n
}

// group makes messages of notices for one person by one channel, which may be sent at one time.
func (o *outbox) group(all []protocol.Notice, now time.Time) {
	first := &Message{Channel: all[0].Channel, Person: all[0].Person}
	target := first.target()
	o.st.Recent[target] = slices.DeleteFunc(o.st.Recent[target], func(t time.Time) bool { return now.Sub(t) >= o.st.Per || t.After(now) })
	recent := o.st.Recent[target]
	held := all[0].NotBefore
	if !held.After(now) && len(recent)+len(all) <= o.st.Limit {
		for _, n := range all {
			o.st.Messages = append(o.st.Messages, &Message{Channel: n.Channel, Person: n.Person, Notices: []protocol.Notice{n}, NextAt: now})
			o.st.Recent[target] = append(o.st.Recent[target], now)
		}
		return
	}
	for _, n := range all {
		var m *Message
		if held.After(now) {
			m = o.digest(target, func(m *Message) bool { return m.NextAt.Equal(held) })
		} else {
			m = o.digest(target, func(m *Message) bool { return m.Above })
		}
		if m == nil {
			m = &Message{Channel: n.Channel, Person: n.Person, NextAt: now, Digest: true}
			if held.After(now) {
				m.NextAt = held
			} else if m.Above = true; len(recent) >= o.st.Limit && len(recent) > 0 {
				m.NextAt = recent[len(recent)-o.st.Limit].Add(o.st.Per)
			}
			o.st.Messages = append(o.st.Messages, m)
		}
		if m.NextAt.After(now) {
			n.NotBefore = m.NextAt
			if n.Reason == "" {
				n.Reason = fmt.Sprintf("more than %d messages in %s: sent together", o.st.Limit, o.st.Per)
			}
		}
		m.Notices = append(m.Notices, n)
	}
}

// digest returns a message that takes one more notice, or nil.
func (o *outbox) digest(target string, fits func(*Message) bool) *Message {
	for _, m := range o.st.Messages {
		if m.Digest && m.Attempts == 0 && m.target() == target && len(m.Notices) < maxDigest && fits(m) {
			return m
		}
	}
	return nil
}

// messageID names a message by its notices, the same for each attempt.
func messageID(all []protocol.Notice) string {
	//workflowcheck:ignore // a pure function
	h := sha256.New()
	for _, n := range all {
		h.Write([]byte(n.ID + "\n"))
	}
	return "msg_" + hex.EncodeToString(h.Sum(nil)[:12])
}

// finish records what became of a message's notice.
func (o *outbox) finish(m *Message, n protocol.Notice, state protocol.NoticeState, why string) {
	n.Attempts, n.Message = m.Attempts, m.ID
	o.done(n, state, why)
}

func (o *outbox) done(n protocol.Notice, state protocol.NoticeState, why string) {
	n.State, n.Reason, n.DoneAt = state, why, workflow.Now(o.ctx).UTC()
	o.st.Done = append(o.st.Done, n)
	o.st.Totals[string(state)]++
	for len(o.st.Done) > maxDone {
		o.st.Older++
		o.st.Done = without(o.st.Done, leastNeeded(o.st.Done))
	}
}

// without leaves done as it is: a query may read it.
func without(done []protocol.Notice, i int) []protocol.Notice {
	return append(slices.Clone(done[:i]), done[i+1:]...)
}

// leastNeeded returns which notice that is done is dropped first: the oldest one that arrived, or
// that was not to be sent. So a storm of these hides none that was lost.
func leastNeeded(done []protocol.Notice) int {
	i := slices.IndexFunc(done, func(n protocol.Notice) bool {
		return n.State == protocol.NoticeSent || n.State == protocol.NoticeSuppressed
	})
	return max(i, 0)
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

func (o *outbox) view(q protocol.NoticesQuery) protocol.NoticesView {
	v := protocol.NoticesView{Zone: o.zone, Notices: []protocol.Notice{}, Totals: map[protocol.NoticeState]int{}, Older: o.st.Older,
		SeenUntil: o.st.Cursor, Problem: o.st.Problem, Deaf: o.st.Deaf}
	for _, s := range workflow.DeterministicKeys(o.st.Totals) {
		v.Totals[protocol.NoticeState(s)] = o.st.Totals[s]
	}
	add := func(n protocol.Notice) {
		if (q.State == "" || n.State == q.State) && (q.Key == "" || n.Event.Key == q.Key) {
			v.Notices = append(v.Notices, n)
		}
	}
	for _, n := range o.st.Done {
		add(n)
	}
	for _, m := range o.st.Messages {
		for _, n := range m.Notices {
			n.Attempts, n.Message = m.Attempts, m.ID
			if m.Why != "" {
				n.Reason = m.Why
			}
			if m.Attempts > 0 {
				n.NotBefore = m.NextAt
			}
			add(n)
		}
	}
	for _, t := range o.st.Tests {
		add(protocol.Notice{ID: testKey(t), Event: protocol.NotifyEvent{Key: testKey(t), Kind: protocol.EventTest}, Person: t.To, State: protocol.NoticePending, Reason: "a worker with notification rules has yet to plan it"})
	}
	return v
}
