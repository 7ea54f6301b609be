package conversation

import (
	"encoding/json"

	"fairlead.dev/fairlead/internal/protocol"
)

// barrier reports whether it is now certain which messages codex has. If an earlier
// attempt may have written one and the journal does not show it, codex is asked to
// read the thread: it answers that only after it has answered everything written
// before.
func (d *delivery) barrier() bool {
	need, history := false, false
	for _, s := range d.sends {
		if !s.doubtful() {
			continue
		}
		need = true
		// An earlier codex process may have received the message and died before saying so.
		history = history || s.Uncertain && s.Kind == SendTurn
	}
	if !need {
		return true
	}
	if d.asks.all[askBarrier] == nil {
		d.asks.all[askBarrier] = &ask{method: methodRead, limit: d.lim.Request,
			params: threadReadParams{ThreadID: d.st.ThreadID}}
	}
	if history && d.asks.all[askHistory] == nil {
		d.asks.all[askHistory] = &ask{method: methodTurns, limit: d.lim.Request,
			params: turnsListParams{ThreadID: d.st.ThreadID, Limit: 3, ItemsView: "full"}}
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
// Their turns ended with it.
func (d *delivery) historyRead(r *message) {
	d.actsInDoubt()
	var a struct {
		Data []struct {
			wireTurn
			Items []wireItem `json:"items"`
		} `json:"data"`
	}
	if r.Error != nil || json.Unmarshal(r.Result, &a) != nil || !Has(d.st.CodexVersion, ClientIDs) {
		// An older codex: the journal has to be enough. But a message for another process
		// is not in this journal.
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

// ascertain finds out, after the end of a turn, whether messages that were to steer
// the turn came in time. Those that did not will become turns of their own.
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

// ascertained reports whether that is known, and whether a Tell in doubt is
// resolved. A message that this pump has written is answered in any case.
func (d *delivery) ascertained() bool {
	for _, s := range d.sends {
		if s.Kind == SendSteer && !s.settled() || s.Kind == sendTell && s.doubtful() {
			return false
		}
	}
	return true
}
