package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A FallBack says when the next upstream is asked in place of the one before. The zero value
// means Usual after the attempts of Limits.
type FallBack struct {
	// On are the kinds of failures after which the next upstream is asked; empty means Usual.
	// Nothing is asked again once a part of an answer has reached codex.
	On []Kind
	// Attempts is how often an upstream is asked before the next one; 0 means Limits.Attempts.
	Attempts int
	// Stay is how long an upstream that failed is asked after all others; 0 means five minutes.
	// Then one request tries it again.
	Stay time.Duration
}

// Usual are the failures that another upstream need not have: there was no connection or no answer
// in time, the provider failed or gave no answer of the Responses API, or it had too many
// requests.
var Usual = []Kind{KindUnreached, KindFailed, KindIdle, KindCut, KindGarbage, KindRateLimit}

// mayFallBack are the kinds that On may have.
var mayFallBack = append(slices.Clone(Usual), KindUsageLimit, KindAuth, KindBadRequest)

func (f FallBack) filled(l Limits) (FallBack, error) {
	for _, k := range f.On {
		if !slices.Contains(mayFallBack, k) {
			return f, fmt.Errorf("after a failure of the kind %q, no other upstream can be asked", k)
		}
	}
	if f.Attempts < 0 || f.Stay < 0 {
		return f, errors.New("the attempts and the time of a fall-back must not be negative")
	}
	if len(f.On) == 0 {
		f.On = Usual
	}
	orElse(&f.Attempts, l.Attempts)
	orElse(&f.Stay, 5*time.Minute)
	return f, nil
}

// next reports whether the next upstream is asked after a result.
func (f FallBack) next(r *result) bool { return !r.sent && slices.Contains(f.On, r.kind) }

// A Standing remembers which upstreams have failed, for all gateways that ask the same ones. The
// zero value remembers none. It is safe for concurrent use.
type Standing struct {
	mu    sync.Mutex
	until map[string]time.Time // by name: asked after the others until then
}

// probing is how long other requests go on with the others while one tries an upstream again. An
// upstream that answers is asked first again at once.
const probing = time.Minute

// order returns the upstreams in the order in which a request asks them: those that have not
// failed lately first. With tried, the first of them has failed, and is tried again.
func (s *Standing) order(all []Upstream, now time.Time) (order []int, tried bool) {
	if s == nil {
		for n := range all {
			order = append(order, n)
		}
		return order, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var late []int
	for n, u := range all {
		until, failed := s.until[u.Name]
		switch {
		case failed && now.Before(until):
			late = append(late, n)
		case failed && len(order) == 0:
			s.until[u.Name] = now.Add(probing)
			order, tried = append(order, n), true
		case failed: // its turn comes when those before it do not answer
			late = append(late, n)
		default:
			order = append(order, n)
		}
	}
	return append(order, late...), tried
}

// failed has an upstream asked after the others for some time.
func (s *Standing) failed(name string, now time.Time, stay time.Duration) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	s.until[name] = now.Add(stay)
}

// answered has an upstream asked in its turn again.
func (s *Standing) answered(name string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, name)
}

// modelFor returns the model that an upstream is asked for in place of the one that codex names.
func (u Upstream) modelFor(model string) string {
	if to, ok := u.Models[model]; ok {
		return to
	}
	best, to := -1, model
	for from, m := range u.Models {
		if begin, any := strings.CutSuffix(from, "*"); any && len(begin) > best && strings.HasPrefix(model, begin) {
			best, to = len(begin), m
		}
	}
	return to
}
