package pumps

import (
	"encoding/json"
	"slices"
	"sync"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// A presence tells viewers how far a pump is, long before it returns.
type presence struct {
	site  *site.Site
	topic string

	mu   sync.Mutex
	now  protocol.SessionLive
	told []byte // what viewers know
}

func attachedTo(s *site.Site, session string, st conversation.PumpState) *presence {
	p := &presence{site: s, topic: records.SessionTopic(session), now: protocol.SessionLive{
		Attached: true, Seq: st.Seq, ThreadID: st.ThreadID, TurnID: st.TurnID, Offset: st.Cursor.Offset, Use: useOf(st), Progress: st.Progress, Notices: st.Notices.Newest,
	}}
	p.tell()
	return p
}

// moved records a pump's place, and publishes it only if the thread, the turn, the progress
// or the notices have changed.
func (p *presence) moved(at conversation.Place) {
	p.mu.Lock()
	news := at.ThreadID != p.now.ThreadID || at.TurnID != p.now.TurnID || at.Progress != p.now.Progress || at.Notices != p.now.Notices
	p.now.Progress, p.now.Notices = at.Progress, at.Notices
	p.now.ThreadID, p.now.TurnID, p.now.Offset, p.now.Seq = at.ThreadID, at.TurnID, at.Offset, at.Seq
	p.mu.Unlock()
	if news {
		p.tell()
	}
}

func (p *presence) settled(d protocol.Delivery) {
	if d.State != protocol.Acknowledged {
		return
	}
	p.mu.Lock()
	p.now.Acknowledged = append(slices.Clip(p.now.Acknowledged), d.ID)
	p.mu.Unlock()
	p.tell()
}

func (p *presence) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	data, err := json.Marshal(p.now)
	if err != nil || string(data) == string(p.told) { // encoding cannot fail
		return
	}
	p.told = data
	site.Publish(p.site, p.topic, records.LiveState, 0, p.now)
}

func (p *presence) gone(reason conversation.PumpReason, seq int64) {
	site.Publish(p.site, p.topic, records.LiveState, 0, protocol.SessionLive{Reason: string(reason), Seq: seq})
}
