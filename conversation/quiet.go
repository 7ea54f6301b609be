package conversation

import (
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// A turn can be stuck although codex answers: a tool has ended, and the model never goes
// on.

// A quiet is the clock of Limits.Quiet and Limits.Retry. It owns ToolEnded, Retrying and
// RetryingMS of the state, and calls no part.
type quiet struct {
	*core
	since   time.Duration // when the model became silent with nothing to wait for
	retried time.Duration // when codex began to try again, without progress since
}

// resume takes the clocks of an earlier attempt. within says how long ago a time was.
func (q *quiet) resume(within func(ms int64) time.Duration) {
	if q.opt.Serves {
		return // the model could not answer before
	}
	if q.st.AtMS > 0 {
		q.since = -within(q.st.AtMS)
	}
	if q.st.RetryingMS > 0 {
		q.retried = -within(q.st.RetryingMS)
	}
}

// toolEnded starts the clock, unless something else is running. codex has been seen to hide
// the end of a command that the sandbox stopped; the token count that follows shows it.
func (q *quiet) toolEnded() {
	for _, it := range q.st.Items {
		if it.Turn == q.st.Turn && !it.Background && it.Thread == "" {
			return
		}
	}
	q.st.ToolEnded, q.since = true, q.now
}

// words holds the item types that are text of the model or of people.
var words = map[string]bool{"userMessage": true, "agentMessage": true, "reasoning": true, "plan": true}

func (q *quiet) itemEnded(kind string) {
	if q.modelSpoke(); !words[kind] {
		q.toolEnded()
	}
}

func (q *quiet) stillTrying() { q.since = q.now }

const maxRetrying = 300

// retries keeps why codex tries again to reach the model. codex has been seen to wait for
// its network without end.
func (q *quiet) retries(why *protocol.Problem) {
	q.stillTrying()
	if q.st.Retrying == "" {
		q.retried, q.st.RetryingMS = q.now, q.st.AtMS
	}
	q.st.Retrying = wire.Excerpt(q.redact(why.Message), maxRetrying)
}

func (q *quiet) modelSpoke() { q.st.ToolEnded, q.st.Retrying, q.st.RetryingMS = false, "", 0 }

// unreached reports whether codex does nothing but try again to reach its provider.
func (q *quiet) unreached() bool {
	return q.lim.Retry > 0 && q.st.TurnID != "" && q.st.Retrying != "" && len(q.st.Open) == 0
}

func (q *quiet) withRetry(text string) string {
	if q.st.Retrying == "" {
		return text
	}
	return text + "; codex was trying to reach its provider again: " + q.st.Retrying
}

// counts reports whether silence counts: not while a request is open.
func (q *quiet) counts() bool {
	return q.lim.Quiet > 0 && q.st.TurnID != "" && q.st.ToolEnded && len(q.st.Open) == 0
}
