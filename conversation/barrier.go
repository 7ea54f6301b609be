package conversation

import (
	"encoding/json"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// barrier reports whether the pump knows which messages codex has. If an earlier attempt
// may have written one that the journal does not show, barrier asks codex to read the
// thread, which codex answers only after everything written before.
func (d *delivery) barrier() bool {
	need, history := false, false
	for _, s := range d.sends {
		if !s.doubtful() {
			continue
		}
		need = true
		// An earlier process may have received the message and died before it said so.
		history = history || s.Uncertain && s.Kind == SendTurn
	}
	if !need {
		return true
	}
	if d.asks.all[askBarrier] == nil {
		d.asks.all[askBarrier] = &ask{method: wire.MethodRead, limit: d.lim.Request,
			params: wire.ThreadReadParams{ThreadID: d.st.ThreadID}}
	}
	if history && d.asks.all[askHistory] == nil {
		d.asks.all[askHistory] = &ask{method: wire.MethodTurns, limit: d.lim.Request,
			params: wire.TurnsListParams{ThreadID: d.st.ThreadID, Limit: 3, ItemsView: "full"}}
	}
	d.asks.send(askHistory)
	d.asks.send(askBarrier)
	if !d.barred || history && !d.asks.all[askHistory].done {
		return false
	}
	for _, s := range d.sends {
		if s.looked() {
			s.uncertain = false
		}
	}
	return true
}

func (d *delivery) barrierAnswered() { d.barred = true }

// historyRead looks for messages that an earlier codex process took before it died.
func (d *delivery) historyRead(r *wire.Message) {
	d.actsInDoubt()
	var a struct {
		Data []struct {
			wire.Turn
			Items []wire.Item `json:"items"`
		} `json:"data"`
	}
	if r.Error != nil || json.Unmarshal(r.Result, &a) != nil || !wire.Has(d.st.CodexVersion, wire.ClientIDs) {
		// An older codex shows a message only in the journal of the process that had it.
		for _, s := range d.sends {
			if s.doubtful() && s.Kind == SendTurn && s.Incarnation > 0 && s.Incarnation < d.st.Cursor.Incarnation {
				s.settle(protocol.Void, "codex cannot say whether it had the message before its process ended")
			}
		}
		return
	}
	for _, turn := range a.Data {
		for _, it := range turn.Items {
			if it.Type != "userMessage" || it.ClientID == "" || turn.Status == "inProgress" {
				continue
			}
			if s := d.find(it.ClientID); s != nil && !s.settled() && s.uncertain {
				s.settle(protocol.Acknowledged, "")
				switch {
				case s.Kind != SendTurn || d.turns.end != nil:
				case d.st.TurnID == "":
					d.turns.begin(turn.ID, s.Turn)
					d.turns.endTurn(turn.Status, nil)
				case d.st.Foreign:
					d.turns.endedBefore(turn.ID, turn.Status, s.Turn)
				}
			}
		}
	}
}

// ascertain finds out, after a turn's end, which steers came in time. A later one becomes a
// turn.
func (d *delivery) ascertain() {
	if d.canceled || !d.barrier() {
		return
	}
	for _, s := range d.sends {
		if s.Kind == SendSteer && !s.wrote {
			s.settle(protocol.Void, "the turn ended first")
		}
	}
}

func (d *delivery) ascertained() bool {
	for _, s := range d.sends {
		if s.Kind == SendSteer && !s.settled() || s.Kind == sendTell && s.doubtful() {
			return false
		}
	}
	return true
}
