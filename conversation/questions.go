package conversation

import (
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// The questions part sends requests that no turn needs: for the models, and to set the
// thread's name. It owns Named of the state. It may call the asks.
type questions struct {
	*core
	asks   *asks
	models protocol.ModelList
	during bool // the name was last sent during a turn
}

// expect prepares what is asked outside an opening.
func (q *questions) expect() {
	if q.in.Models && q.asks.all[askModels] == nil {
		q.asks.all[askModels] = &ask{method: wire.MethodModelList, params: struct{}{}, limit: q.lim.Request, optional: true}
	}
	q.asks.all[askNaming] = &ask{method: wire.MethodName, limit: q.lim.Request, optional: true}
}

func (q *questions) ask() {
	if q.in.Models {
		q.asks.send(askModels)
		q.asks.tired(askModels, "list its models")
	}
	if q.unnamed() {
		a := q.asks.all[askNaming]
		a.params = nameParams{ThreadID: q.st.ThreadID, Name: q.in.Thread.Name}
		if !a.sent {
			q.during = q.st.TurnID != ""
		}
		q.asks.send(askNaming)
		if q.asks.tired(askNaming, "take the thread's name") {
			q.st.Named = q.in.Thread.Name
		}
	}
}

func (q *questions) settled() bool {
	return (!q.in.Models || q.asks.all[askModels].done) && !q.unnamed()
}

// unnamed reports whether codex has yet to be told the name. A thread that never had a turn
// cannot store one.
func (q *questions) unnamed() bool {
	return q.in.Thread.Name != q.st.Named && q.in.Thread.Name != "" && q.st.Turn > 0 && q.st.ThreadID != ""
}

func (q *questions) modelsListed(r *wire.Message) {
	if r.Error != nil {
		q.warn("codex could not list its models: " + r.Error.Message)
		return
	}
	q.models = protocol.ModelList{Models: ParseModels(r.Result), Codex: q.st.CodexVersion}
	if q.models.Models == nil {
		q.models.Models = []protocol.Model{}
	}
}

// namings bounds the tries to set a name during a turn.
const namings = 6

// threadNamed handles codex's answer. During a turn codex may refuse the name because it
// has not written the thread's history yet (0.169.0: "failed to set thread name: … rollout
// … is empty"), so it is sent again. Otherwise a refusal is final.
func (q *questions) threadNamed(try int, r *wire.Message) {
	a := q.asks.all[askNaming]
	if r.Error != nil && try < a.try {
		a.done = false // a later attempt's answer counts
		return
	}
	if r.Error != nil && q.during && try+1 < namings {
		a.done, a.sent, a.try, a.next = false, false, try+1, q.now+backoff(try)
		return
	}
	q.st.Named = q.in.Thread.Name
	if r.Error != nil {
		q.warn("codex did not take the thread's name: " + strings.TrimSpace(r.Error.Message))
	}
}

type nameParams struct {
	ThreadID string `json:"threadId"`
	Name     string `json:"name"`
}
