package activities

import (
	"encoding/json"
	"slices"
	"sync"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// A presence tells viewers where an attached pump is. A person who decided
// something waits to hear that codex has it, long before the pump returns.
type presence struct {
	site  *site
	topic string

	mu   sync.Mutex
	now  protocol.SessionLive
	told []byte // as JSON, what viewers know
}

// attachedTo begins a presence and tells of it.
func (s *site) attachedTo(session string, st conversation.PumpState) *presence {
	p := &presence{site: s, topic: SessionTopic(session), now: protocol.SessionLive{
		Attached: true, Seq: st.Seq, ThreadID: st.ThreadID, TurnID: st.TurnID, Offset: st.Cursor.Offset, Use: useOf(st), Progress: st.Progress,
	}}
	p.tell()
	return p
}

// moved takes a pump's place; only news of its thread or turn is told at once.
func (p *presence) moved(at conversation.Place) {
	p.mu.Lock()
	news := at.ThreadID != p.now.ThreadID || at.TurnID != p.now.TurnID || at.Progress != p.now.Progress
	p.now.Progress = at.Progress
	p.now.ThreadID, p.now.TurnID, p.now.Offset, p.now.Seq = at.ThreadID, at.TurnID, at.Offset, at.Seq
	p.mu.Unlock()
	if news {
		p.tell()
	}
}

// settled takes what became of a send.
func (p *presence) settled(d protocol.Delivery) {
	if d.State != protocol.Acknowledged {
		return
	}
	p.mu.Lock()
	p.now.Acknowledged = append(slices.Clip(p.now.Acknowledged), d.ID)
	p.mu.Unlock()
	p.tell()
}

// tell publishes what viewers do not know yet.
func (p *presence) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	data, err := json.Marshal(p.now)
	if err != nil || string(data) == string(p.told) { // it has no member that could fail
		return
	}
	p.told = data
	p.site.publish(p.topic, LiveState, 0, p.now)
}

// gone tells that the pump let go, and why.
func (p *presence) gone(reason conversation.PumpReason, seq int64) {
	p.site.publish(p.topic, LiveState, 0, protocol.SessionLive{Reason: string(reason), Seq: seq})
}
