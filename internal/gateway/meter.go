package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A Meter keeps what requests use within budgets. It is safe for concurrent use.
type Meter interface {
	// Begin is called before a provider is asked for a model, with the tokens that the request
	// is expected to use. It may wait, for as long as a budget of requests a minute asks for. If it
	// returns an error, the provider is not asked. A *BudgetError ends the turn; after other errors
	// the request is repeated.
	Begin(ctx context.Context, model string, expected Usage) (Running, error)
}

// A Running is a request that a Meter has permitted.
type Running interface {
	// Grow is called within a stream with the tokens so far. After a *BudgetError the stream
	// is ended.
	Grow(ctx context.Context, sofar Usage) error
	// End is called once. A provider that was asked and does not say what it used is taken to have
	// used what was expected, or more if its answer is longer. It used none if it reported a failure
	// in place of an answer.
	End(used Usage)
}

// A BudgetError says that a budget does not permit a request.
type BudgetError struct {
	Kind    Kind // KindBudget, KindTokenBudget, KindSeedBudget or KindTenantBudget
	Message string
}

func (e *BudgetError) Error() string { return e.Message }

const (
	// leastOutput are the tokens that each request is expected to put out.
	leastOutput = 1_000
	// mostInput bounds the tokens that a request is expected to put in: an image is longer than
	// its tokens.
	mostInput = 256 << 10
	// growEvery is after how many bytes of output the Meter is asked again.
	growEvery = 2 << 10
	// meterWait bounds how long a stream waits for the Meter.
	meterWait = 30 * time.Second
)

// expected returns what a request is expected to use: about four bytes make a token.
func (x *exchange) expected() Usage {
	return Usage{Input: min(int64(len(x.text)+3)/4, mostInput), Output: leastOutput, Estimated: true}
}

// model returns the model that an upstream is asked for.
func (x *exchange) model(n int) string {
	return x.g.opts.Upstreams[n].modelFor(x.out.Model)
}

// metered is attempt within the budgets.
func (x *exchange) metered(n int, a ask) *result {
	if x.g.opts.Meter == nil || x.r.Method == http.MethodGet {
		return x.attempt(n, a)
	}
	running, err := x.g.opts.Meter.Begin(x.r.Context(), x.model(n), x.expected())
	var over *BudgetError
	switch {
	case errors.As(err, &over):
		return &result{ending: ending{kind: over.Kind, message: over.Message}, status: http.StatusBadRequest}
	case err != nil && x.r.Context().Err() != nil:
		return x.stopped(&result{})
	case err != nil:
		return &result{ending: ending{kind: KindFailed, message: "the budget is not known: " + err.Error(), passing: true}, status: http.StatusServiceUnavailable}
	}
	x.running = running
	x.least = x.expected() // the request is let go of when an answer begins
	x.asked.Store(false)
	x.answers.Store(false)
	r := x.attempt(n, a)
	if r != nil {
		x.charge(r)
	}
	return r
}

// charge ends the Meter's part of an attempt, and completes what it used.
func (x *exchange) charge(r *result) {
	if x.running == nil {
		return
	}
	if x.charges(r) && (r.usage == nil || r.usage.Estimated) {
		if r.usage == nil {
			least := x.least
			r.usage = &least
		} else {
			r.usage.Input, r.usage.Output = max(r.usage.Input, x.least.Input), max(r.usage.Output, x.least.Output)
		}
	}
	var used Usage
	if r.usage != nil {
		used = *r.usage
	}
	x.settle(used)
}

// settle ends the Meter's part of an attempt, if it has not ended.
func (x *exchange) settle(used Usage) {
	if running := x.running; running != nil {
		x.running = nil
		running.End(used)
	}
}

// charges reports whether a provider may charge for an attempt of which it did not say what it
// used. Otherwise an agent could ask for answers whose use nobody tells, or give up each answer
// before it begins.
func (x *exchange) charges(r *result) bool {
	switch r.kind {
	case KindFailed, KindRateLimit, KindUsageLimit, KindContext, KindBadRequest, KindAuth:
		return false // the provider says so
	case KindGone, KindTimeout:
		return x.asked.Load()
	}
	return x.answers.Load()
}

// estimate returns what an answer of so many bytes is taken to have used.
func (x *exchange) estimate(n int) *Usage {
	use := x.expected()
	use.Output = int64(n+3) / 4
	return &use
}

// afford asks the Meter about a stream from time to time. It returns nil if the stream may go on.
func (f *feeder) afford() *ending {
	running := f.x.running
	if running == nil || f.s.chars-f.asked < growEvery {
		return nil
	}
	f.asked = f.s.chars
	ctx, cancel := context.WithTimeout(f.x.r.Context(), meterWait)
	defer cancel()
	err := running.Grow(ctx, f.sofar())
	var over *BudgetError
	if !errors.As(err, &over) {
		if err != nil { // what the stream uses is counted at its end
			f.x.g.opts.Logger.Warn("a budget was not asked within a stream", "error", err)
		}
		return nil
	}
	return &ending{kind: over.Kind, message: over.Message}
}

func (f *feeder) sofar() Usage {
	return Usage{Input: min(max(0, f.res.Request.ContentLength)/4, mostInput), Output: int64(f.s.chars+3) / 4, Estimated: true}
}

// stop ends a stream for a reason of the gateway's own. It reports an invalid prompt, because
// codex then does not ask again and shows the message.
func (f *feeder) stop(e *ending) *result {
	message := Mark + string(e.kind) + "] " + e.message
	inner := map[string]json.RawMessage{}
	if json.Unmarshal(f.s.first, &inner) != nil || inner == nil {
		inner = map[string]json.RawMessage{"id": json.RawMessage(`"resp_stopped"`), "object": json.RawMessage(`"response"`)}
	}
	inner["status"] = json.RawMessage(`"failed"`)
	inner["error"] = mustJSON(map[string]any{"code": "invalid_prompt", "message": message})
	data := mustJSON(map[string]any{"type": "response.failed", "response": inner})
	return f.step(f.s.last(frame{kind: "response.failed", data: data}.text(), e))
}

// refusal is what codex is told of a request that a budget does not permit.
func (x *exchange) refusal(r *result) {
	x.refuse(r.status, r.kind, fmt.Sprintf("%s (the provider was not asked)", r.message))
}
