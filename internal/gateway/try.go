package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var (
	errTotal = errors.New("the request took too long")
	errBegin = errors.New("the provider did not begin to answer in time")
	errIdle  = errors.New("the provider was silent for too long")
	errGone  = errors.New("codex went away")
)

// A result is what became of one attempt.
type result struct {
	ending
	status int           // for codex, if nothing was sent
	pause  time.Duration // that the provider asks for
	sent   bool          // something reached codex
	header http.Header   // for codex, if nothing was sent
	body   []byte        // likewise
}

// try asks one upstream after the other until something is sent or nothing is left to try. If x.feed
// is set then, the answer is to be followed.
func (x *exchange) try(a ask) {
	var last, passed *result // passed is the first failure that may pass
	var of string            // its upstream
	order, again := x.g.opts.Standing.order(x.g.opts.Upstreams, time.Now())
	if order[0] != 0 {
		x.out.FellBack = x.g.opts.Upstreams[0].Name + ": failed a short time ago"
	}
	for i, n := range order {
		x.hold = nil
		if i+1 < len(order) {
			x.hold = x.g.back.On
		}
		u, attempts := x.g.opts.Upstreams[n], x.g.limit.Attempts
		if i+1 < len(order) {
			attempts = x.g.back.Attempts
		}
		if i == 0 && again { // the others wait for their turn
			attempts = 1
		}
		over := false
		if last, over = x.insist(n, attempts, a); over {
			return
		}
		if passed == nil && last.passing {
			passed, of = last, u.Name
		}
		// In place of another one that is away, an upstream is wrong that refuses the key or the request.
		wrong := (passed != nil || order[0] != 0) && (last.kind == KindAuth || last.kind == KindBadRequest)
		if wrong {
			x.failed(u.Name)
		}
		if i+1 == len(order) || !wrong && !x.g.back.next(last) {
			if wrong && passed != nil {
				x.g.opts.Logger.Warn("a further upstream refuses a request to a model", "upstream", u.Name, "kind", last.kind, "message", x.clean(last.message))
				last, x.out.Upstream = passed, of
			}
			break
		}
		if last.kind != KindBadRequest { // which is about this request
			x.failed(u.Name)
		}
		x.out.FellBack = x.clean(fmt.Sprintf("%s: %s", u.Name, last.kind))
		x.g.opts.Logger.Warn("a request to a model goes to the next upstream", "upstream", u.Name, "next", x.g.opts.Upstreams[order[i+1]].Name, "kind", last.kind)
	}
	x.finish(last)
}

// insist asks one upstream up to so many times. over means that codex has its answer, or that the
// answer has begun: last is nil then.
func (x *exchange) insist(n, attempts int, a ask) (last *result, over bool) {
	u, pause := x.g.opts.Upstreams[n], x.g.limit.FirstPause
	for attempt := 1; ; attempt++ {
		x.out.Attempts++
		x.out.Upstream, x.out.Asked = u.Name, x.model(n)
		if last = x.metered(n, a); last == nil {
			return nil, true
		}
		if last.sent || last.kind == KindCompleted {
			x.stands(u.Name, last.kind)
			x.finish(last)
			return last, true
		}
		if !last.passing {
			return last, false
		}
		x.g.opts.Logger.Info("a request to a model failed", "upstream", u.Name, "attempt", attempt, "kind", last.kind, "message", x.clean(last.message))
		wait := pause/2 + rand.N(pause)
		if last.pause > 0 {
			wait = last.pause + rand.N(pause)
		}
		pause = min(2*pause, x.g.limit.LongPause)
		if last.pause > x.g.limit.LongPause || attempt >= attempts {
			return last, false
		}
		t := time.NewTimer(min(wait, x.g.limit.LongPause))
		select {
		case <-t.C:
		case <-x.r.Context().Done():
			t.Stop()
			x.finish(x.stopped(last))
			return last, true
		}
	}
}

// failed remembers that an upstream failed to answer. Other requests, such as for the list of
// models, say nothing of its answers.
func (x *exchange) failed(upstream string) {
	if x.r.Method == http.MethodPost {
		x.g.opts.Standing.failed(upstream, time.Now(), x.g.back.Stay)
	}
}

// stands remembers how the answer of an upstream ended that reached codex, which repeats a
// request whose answer broke off.
func (x *exchange) stands(upstream string, kind Kind) {
	switch {
	case kind == KindCompleted, kind == KindIncomplete, kind == KindContext:
		if x.r.Method == http.MethodPost {
			x.g.opts.Standing.answered(upstream)
		}
	case kind != KindBadRequest && slices.Contains(x.g.back.On, kind):
		x.failed(upstream)
	}
}

// stopped returns the result of a request whose context has ended.
func (x *exchange) stopped(r *result) *result {
	if errors.Is(context.Cause(x.r.Context()), errTotal) {
		r.kind, r.message, r.status = KindTimeout, errTotal.Error(), http.StatusGatewayTimeout
	} else {
		r.kind, r.message = KindGone, errGone.Error()
	}
	r.passing, r.body, r.header = false, nil, nil
	return r
}

// finish answers codex, if nothing was sent yet, and records the outcome. It cuts a stream
// that is not complete.
func (x *exchange) finish(r *result) {
	x.out.Kind, x.out.Message, x.out.Rebuilt = r.kind, x.clean(r.message), r.rebuilt
	if r.usage != nil {
		x.out.Usage = r.usage
	}
	if r.sent {
		x.out.Status = http.StatusOK
		switch r.kind {
		case KindCut, KindGarbage, KindIdle, KindTimeout, KindUnreached, KindGone:
			x.cut()
		}
		return
	}
	switch {
	case r.kind == KindGone:
		x.cut()
	case r.kind == KindAuth:
		// codex would repeat a 401 with another token of the session.
		x.refuse(http.StatusBadRequest, KindAuth, "the provider "+x.out.Upstream+" refuses the key of this session's seed: "+x.clean(r.message))
	case r.kind == KindBudget, r.kind == KindTokenBudget, r.kind == KindSeedBudget, r.kind == KindTenantBudget:
		x.refusal(r)
	case r.body != nil:
		x.g.copyAnswered(x.w.Header(), r.header)
		x.out.Status = r.status
		x.w.WriteHeader(r.status)
		_, _ = x.w.Write(x.g.scrubBody(r.body)) // codex may be gone
	default:
		if r.pause > 0 {
			x.w.Header().Set("Retry-After", strconv.Itoa(int(min(r.pause, time.Hour)/time.Second)))
		}
		x.refuse(r.status, r.kind, fmt.Sprintf("%s after %d attempts: %s", x.out.Upstream, x.out.Attempts, x.clean(r.message)))
	}
}

// cut closes the connection in mid-answer. It does not return.
func (x *exchange) cut() {
	panic(http.ErrAbortHandler)
}

const maxErrorBody = 64 << 10

// attempt asks one upstream once. It returns nil if the answer has begun to reach codex: x.feed
// has the rest of it.
func (x *exchange) attempt(n int, a ask) *result {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	f := &feeder{x: x, ctx: ctx, cancel: cancel}
	begin := x.g.limit.Begin
	if !a.stream || x.g.opts.Upstreams[n].Whole {
		begin = x.g.limit.Idle // the answer begins when it is complete
	}
	f.timer = time.AfterFunc(begin, func() {
		if f.begun.Load() {
			cancel(errIdle)
		} else {
			cancel(errBegin)
		}
	})
	defer func() {
		if x.feed == nil {
			f.close()
		}
	}()
	r := f.ask(n, a)
	if r == nil {
		x.feed = f
	}
	return r
}

// ask does the work of attempt, which starts the timer and closes the feeder.
func (f *feeder) ask(n int, a ask) *result {
	x := f.x
	req, err := x.request(f.ctx, n, a)
	if err != nil {
		return f.lost(err, KindUnreached)
	}
	if f.res, err = x.g.do(req); err != nil {
		return f.lost(err, KindUnreached)
	}
	x.answers.Store(f.res.StatusCode == http.StatusOK)
	if encoding := f.res.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return f.lost(errors.New("the answer is compressed, which was not asked for"), KindGarbage)
	}
	if f.res.StatusCode != http.StatusOK {
		return f.status()
	}
	if !a.stream {
		return f.whole()
	}
	f.s, f.scrub.secrets = newStream(x.g.limit.Answer, x.hold), x.g.searched
	if x.g.opts.Upstreams[n].Whole {
		return f.translate()
	}
	if kind, _, _ := strings.Cut(f.res.Header.Get("Content-Type"), ";"); kind != "text/event-stream" {
		return f.lost(fmt.Errorf("the answer has the type %q, expected an event stream", excerpt(kind)), KindGarbage)
	}
	f.split.most, f.buf = x.g.limit.Event, make([]byte, readSize)
	return f.follow(true)
}

// follow carries the answer that has begun to codex, to its end. ServeHTTP calls it with little on
// its stack, because the stack keeps its size for as long as the answer lasts.
func (x *exchange) follow() {
	f := x.feed
	r := f.follow(false)
	f.close()
	x.charge(r)
	x.stands(x.out.Upstream, r.kind)
	x.finish(r)
}

// lost returns the result of an attempt that ended by an error.
func (f *feeder) lost(err error, kind Kind) *result {
	// The address may have a secret in its query.
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	r := &result{ending: ending{kind: kind, message: err.Error(), passing: true}, status: http.StatusBadGateway, sent: f.sent}
	switch cause := context.Cause(f.ctx); {
	case f.x.r.Context().Err() != nil:
		return f.x.stopped(r)
	case errors.Is(cause, errIdle), errors.Is(cause, errBegin):
		r.kind, r.message, r.status = KindIdle, cause.Error(), http.StatusGatewayTimeout
	}
	return r
}

// close ends an attempt.
func (f *feeder) close() {
	if f.res != nil {
		f.res.Body.Close()
	}
	f.timer.Stop()
	f.cancel(nil)
}

// do asks a provider in a goroutine of its own. It takes a deep stack, which the goroutine that
// follows the answer would keep.
func (g *Gateway) do(req *http.Request) (res *http.Response, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, err = g.http.Do(req) // which ends with the request's context
	}()
	<-done
	return res, err
}

// bounded reads at most so many bytes.
func bounded(r io.Reader, most int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("the answer has more than %d bytes", most)
	}
	return b, err
}

// status handles an answer that is an error.
func (f *feeder) status() *result {
	res := f.res
	text, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil {
		return f.lost(err, KindUnreached)
	}
	var told struct {
		Error *providerError `json:"error"`
	}
	said := strings.TrimSpace(string(text))
	e := &providerError{}
	if json.Unmarshal(text, &told) == nil && told.Error != nil {
		e, said = told.Error, told.Error.Message
	}
	r := &result{ending: *endingOf(e), status: res.StatusCode, header: res.Header, body: text}
	r.message = fmt.Sprintf("status %d: %s", res.StatusCode, said)
	if seconds, err := strconv.ParseFloat(res.Header.Get("Retry-After"), 64); err == nil && seconds > 0 && seconds < 1e6 {
		r.pause = time.Duration(seconds * float64(time.Second))
	} else if at, err := http.ParseTime(res.Header.Get("Retry-After")); err == nil {
		r.pause = max(0, time.Until(at))
	}
	switch c := res.StatusCode; {
	case c == http.StatusUnauthorized || c == http.StatusForbidden:
		r.kind, r.passing = KindAuth, false
	case c == http.StatusTooManyRequests:
		if r.kind != KindUsageLimit {
			r.kind, r.passing = KindRateLimit, true
		}
	case c >= 500 || c == http.StatusRequestTimeout:
		r.kind, r.passing = KindFailed, true
	case c < 400:
		r.kind, r.passing, r.status, r.body = KindGarbage, true, http.StatusBadGateway, nil
	case r.kind == KindFailed:
		r.kind, r.passing = KindBadRequest, false
	}
	return r
}

// whole relays an answer that is no stream.
func (f *feeder) whole() *result {
	x, res := f.x, f.res
	text, err := bounded(res.Body, x.g.limit.Answer)
	if err != nil {
		return f.lost(err, KindCut)
	}
	if !json.Valid(text) {
		return f.lost(errors.New("the answer is no JSON"), KindGarbage)
	}
	r, _ := parseResponse(text)
	x.out.FirstByte = time.Since(x.out.At)
	use := r.Usage.usage()
	if use == nil && x.r.Method == http.MethodPost {
		n := 0
		for _, it := range r.Output {
			n += len(it)
		}
		use = x.estimate(n)
	}
	return &result{ending: ending{kind: KindCompleted, usage: use}, status: http.StatusOK, header: res.Header, body: text}
}

// readSize is how much of an answer is read at once, in bytes. An event has a few hundred.
const readSize = 1 << 10

// A feeder makes one attempt, and carries a stream to codex.
type feeder struct {
	x      *exchange
	ctx    context.Context
	cancel context.CancelCauseFunc
	// timer ends an attempt whose provider is silent. Each sign of life starts it again.
	timer *time.Timer
	begun atomic.Bool // something was sent, for the timer

	res   *http.Response // nil until the provider answers
	s     *stream
	scrub scrubber
	split splitter
	buf   []byte

	sent  bool
	asked int // bytes of output of which the Meter was told
}

// take goes on with events of the provider. It returns nil if the answer goes on.
func (f *feeder) take(frames []frame) *result {
	for _, fr := range frames {
		if r := f.step(f.s.feed(fr)); r != nil {
			return r
		}
		if e := f.afford(); e != nil {
			return f.stop(e)
		}
	}
	return nil
}

// follow reads a stream to its end or, to begin, until something was sent. It returns nil then.
func (f *feeder) follow(begin bool) *result {
	for !begin || !f.sent {
		n, err := f.res.Body.Read(f.buf)
		if n > 0 {
			if r := f.read(f.buf[:n]); r != nil {
				return r
			}
		}
		if err != nil {
			return f.over(err)
		}
	}
	return nil
}

// read goes on with bytes of the provider. It returns nil if the answer goes on.
func (f *feeder) read(b []byte) *result {
	if f.begun.Load() {
		f.timer.Reset(f.x.g.limit.Idle)
	}
	frames, bad := f.split.feed(b)
	for _, fr := range frames {
		if r := f.take(f.scrub.take(fr)); r != nil {
			return r
		}
	}
	if bad != nil {
		return f.result(garbage(bad.Error()).end)
	}
	return nil
}

// over follows the end of the bytes.
func (f *feeder) over(err error) *result {
	if errors.Is(err, io.EOF) {
		if r := f.take(f.scrub.flush()); r != nil {
			return r
		}
		return f.step(f.s.over(true))
	}
	if f.s.done { // the provider had said that it was done
		if st := f.s.over(false); st.send != nil {
			return f.step(st)
		}
	}
	r := f.lost(err, KindCut)
	f.estimate(&r.ending)
	return r
}

// translate makes a stream of a whole answer.
func (f *feeder) translate() *result {
	text, err := bounded(f.res.Body, f.x.g.limit.Answer)
	if err != nil {
		return f.lost(err, KindCut)
	}
	frames, err := eventsOf(text)
	if err != nil {
		return f.lost(err, KindGarbage)
	}
	f.s.most *= 4 // the events repeat the answer
	for _, fr := range frames {
		if r := f.take(f.scrub.take(fr)); r != nil {
			return r
		}
	}
	return f.step(f.s.over(true))
}

// step sends what is due. It returns nil if the answer goes on.
func (f *feeder) step(st step) *result {
	if len(st.send) > 0 {
		h := f.x.w.Header()
		if !f.sent {
			f.x.text = nil
			f.x.g.copyAnswered(h, f.res.Header)
			h.Set("Content-Type", "text/event-stream")
			h.Set("Cache-Control", "no-store")
			f.x.out.FirstByte = time.Since(f.x.out.At)
			f.begun.Store(true)
			f.timer.Reset(f.x.g.limit.Idle)
		}
		f.sent = true
		// codex that does not read is given up, too.
		to := http.NewResponseController(f.x.w)
		_ = to.SetWriteDeadline(time.Now().Add(f.x.g.limit.Idle)) // not every connection has one
		_, err := f.x.w.Write(st.send)
		if err == nil {
			err = to.Flush()
		}
		if err != nil {
			gone := &ending{kind: KindGone, message: errGone.Error()}
			return f.result(gone)
		}
	}
	if st.end == nil {
		return nil
	}
	return f.result(st.end)
}

func (f *feeder) result(e *ending) *result {
	f.estimate(e)
	return &result{ending: *e, status: http.StatusBadGateway, sent: f.sent}
}

// estimate fills in the usage that the provider did not tell: about four characters make a
// token.
func (f *feeder) estimate(e *ending) {
	if e.usage == nil && f.sent {
		use := f.sofar()
		e.usage = &use
	}
}
