// Package inbox knows which approvals are open in all sessions, and tells when that changes.
//
// An [Inbox] asks only while somebody watches. It learns of changes in three ways, so that any
// worker can serve any session, on a Temporal server of any kind:
//
//   - [Inbox.Interceptor] notices in the worker's own process that a workflow has changed what
//     lists show of it. The session is asked at once.
//   - Temporal's list of the sessions with open approvals is read a few times a second. A
//     session that looks different there is asked.
//   - A list does not tell one approval from the next one. So sessions that look the same are
//     asked again, in turn.
//
// Sessions are asked by queries, which leave no event in their histories.
package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// listEvery is how often Temporal's list is read. A list takes a fifth of the time at most.
	listEvery = 250 * time.Millisecond
	// again is the time after which a session is asked again although its list entry is the same.
	again = time.Second
	// perList is how many of these are asked after one list.
	perList = 8
	// mostAsked is how many sessions are asked at a time.
	mostAsked = 8
	// askWait bounds the wait for a list, or for a session's answer.
	askWait = 5 * time.Second
	// restAfter is the time without a watcher after which an Inbox stops asking.
	restAfter = 30 * time.Second
	// late is how long a session that has open approvals may be missing from a list.
	late = 10 * time.Second
	// recent is how old a session's answer may be to be Recent.
	recent = 2 * time.Second
	// mostKept bounds the open approvals, of all sessions, whose content is kept.
	mostKept = 1000
)

// A Source asks Temporal.
type Source interface {
	// Waiting lists the sessions with open approvals. The text of a session changes when the
	// list shows a change of the session.
	Waiting(ctx context.Context) (looks map[string]string, err error)
	// Asks returns the approvals of a session.
	Asks(ctx context.Context, session string) ([]protocol.Approval, error)
	// Checked returns an approval with what can be found out about its digest.
	Checked(protocol.Approval) protocol.Approval
}

// A State is what an Inbox knows. Nobody changes it.
type State struct {
	Version uint64
	// Asks has a digest of the open approvals of each session that has any.
	Asks map[string]string
	// Stale says that Temporal cannot be asked: Asks may be old.
	Stale bool
}

// An Inbox follows the open approvals of all sessions.
type Inbox struct {
	src Source
	log *slog.Logger
	ctx context.Context // of the worker

	mu       sync.Mutex // guards all below
	state    State
	fresh    bool          // state is of this round of looks
	listedAt time.Time     // when the newest list of this round was read
	changed  chan struct{} // closed when state changes
	known    map[string]*session
	tells    func(session string) // of changes, too; may be nil
	watchers int
	used     time.Time // when somebody last watched
	runs     bool
	slots    chan struct{}
	waits    sync.WaitGroup
}

// A session is what an Inbox knows of one.
type session struct {
	asks   string // a digest of its open approvals; empty if it has none
	looks  string // as last listed
	listed time.Time
	at     time.Time // when it was last asked
	asking bool
	more   bool // it is to be asked once more

	open    []protocol.Approval // its open approvals, Checked; nil if there are none, or too many
	got     time.Time           // when it was asked for them
	changed bool                // it has changed since, or may have

	answered bool // or it was asked in vain
	failed   bool // it was asked in vain the last time
}

// New returns an Inbox. It asks src until ctx ends, while somebody watches.
func New(ctx context.Context, src Source, log *slog.Logger) *Inbox {
	return &Inbox{src: src, log: log, ctx: ctx, changed: make(chan struct{}), known: map[string]*session{}, slots: make(chan struct{}, mostAsked)}
}

// Next waits until the state has another version than after, and returns it. It fails only if ctx
// ends.
func (b *Inbox) Next(ctx context.Context, after uint64) (State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers++
	if !b.runs {
		b.runs = true
		b.waits.Go(b.run)
	}
	defer func() { b.watchers, b.used = b.watchers-1, time.Now() }()
	for !b.fresh || b.state.Version == after {
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		b.mu.Lock()
		if ctx.Err() != nil {
			return State{}, ctx.Err()
		}
	}
	return b.state, nil
}

// Open returns the sessions that are known to have open approvals. There may be others.
func (b *Inbox) Open() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fresh {
		return nil
	}
	return slices.Collect(maps.Keys(b.state.Asks))
}

// Recent returns the open approvals of all sessions, and the state to which they belong. It does not
// wait. known is false unless Temporal's list and each session were asked within the last two seconds,
// and no session is known to have changed since. Nobody changes what it returns.
func (b *Inbox) Recent() (open []protocol.Approval, s State, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.fresh || b.state.Stale || now.Sub(b.listedAt) > recent {
		return nil, State{}, false
	}
	for _, s := range b.known {
		if s.changed || now.Sub(s.got) > recent || s.asks != "" && s.open == nil {
			return nil, State{}, false
		}
		open = append(open, s.open...)
	}
	return open, b.state, true
}

// Tell makes Stir tell f, too, whether somebody watches or not. f must return at once.
func (b *Inbox) Tell(f func(session string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tells = f
}

// Stir says that a session has changed. It returns at once, and asks nothing if nobody watches.
func (b *Inbox) Stir(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tells != nil {
		b.tells(id)
	}
	if !b.runs {
		return
	}
	s := b.known[id]
	if s == nil {
		s = &session{}
		b.known[id] = s
	}
	s.changed = true
	b.ask(id, s)
}

// Wait returns when nothing is asked any more. The context of New must have ended.
func (b *Inbox) Wait() { b.waits.Wait() }

// run reads lists until nobody has watched for a while.
func (b *Inbox) run() {
	for {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(b.ctx, askWait)
		looks, err := b.src.Waiting(ctx)
		cancel()
		took := time.Since(begin)
		b.mu.Lock()
		if b.ctx.Err() != nil || b.watchers == 0 && time.Since(b.used) > restAfter {
			b.runs, b.fresh, b.listedAt, b.known = false, false, time.Time{}, map[string]*session{}
			b.mu.Unlock()
			return
		}
		if err != nil {
			b.log.Debug("the sessions with open approvals cannot be listed", "err", err)
		} else {
			b.listed(begin, looks)
		}
		b.publish(err != nil)
		b.mu.Unlock()
		select {
		case <-b.ctx.Done():
		case <-time.After(max(listEvery, 4*took)):
		}
	}
}

// listed takes a list that was read at a time. The caller has the lock.
func (b *Inbox) listed(at time.Time, looks map[string]string) {
	b.listedAt = at
	for id, as := range looks {
		s := b.known[id]
		if s == nil {
			s = &session{}
			b.known[id] = s
		}
		s.listed = at
		if s.looks != as || s.at.IsZero() {
			s.looks, s.changed = as, true
			b.ask(id, s)
		}
	}
	var rest []string
	for id, s := range b.known {
		_, is := looks[id]
		switch {
		case s.asking, s.failed && at.Sub(s.at) < late:
		case !is && (s.asks == "" || s.failed && at.Sub(s.listed) > late && at.Sub(s.at) > late):
			delete(b.known, id)
		case !is && s.looks != "": // it was listed before: it has none any more
			s.looks, s.changed = "", true
			b.ask(id, s)
		case at.Sub(s.at) >= again:
			rest = append(rest, id)
		}
	}
	slices.SortFunc(rest, func(x, y string) int { return b.known[x].at.Compare(b.known[y].at) })
	for _, id := range rest[:min(perList, len(rest))] {
		b.ask(id, b.known[id])
	}
}

// ask asks a session, once more if it is being asked. The caller has the lock.
func (b *Inbox) ask(id string, s *session) {
	if s.asking {
		s.more = true
		return
	}
	s.asking = true
	b.waits.Go(func() {
		for more := true; more; {
			more = b.asked(id, s)
		}
	})
}

// asked asks a session once. It reports whether it is to be asked once more.
func (b *Inbox) asked(id string, s *session) (more bool) {
	b.slots <- struct{}{}
	b.mu.Lock()
	began := time.Now()
	s.more, s.at = false, began
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(b.ctx, askWait)
	list, err := b.src.Asks(ctx, id)
	cancel()
	<-b.slots
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.failed = err != nil; s.failed {
		b.log.Debug("a session does not say what it asks", "session", id, "err", err)
	} else {
		b.keep(s, list, began)
	}
	if more = s.more && b.ctx.Err() == nil; !more {
		s.asking, s.more, s.answered = false, false, true
		s.changed = s.changed && s.failed
	}
	if b.known[id] == s {
		b.publish(b.state.Stale)
	}
	return more
}

// keep takes the answer of a session that was asked at a time. The caller has the lock.
func (b *Inbox) keep(s *session, list []protocol.Approval, at time.Time) {
	open := slices.DeleteFunc(list, func(ap protocol.Approval) bool {
		return ap.State != protocol.ApprovalOpen && ap.State != protocol.ApprovalUnjudged
	})
	s.got, s.asks = at, digest(open)
	kept := len(open)
	for _, other := range b.known {
		if other != s {
			kept += len(other.open)
		}
	}
	s.open = nil
	if kept > mostKept {
		return
	}
	for _, ap := range open {
		s.open = append(s.open, b.src.Checked(ap))
	}
}

// publish makes a new state if something is different. The first one of a round waits until all
// sessions of the first list have answered. The caller has the lock.
func (b *Inbox) publish(stale bool) {
	if !b.fresh && !stale {
		if b.listedAt.IsZero() {
			return
		}
		for _, s := range b.known {
			if !s.answered {
				return
			}
		}
	}
	asks := map[string]string{}
	for id, s := range b.known {
		if s.asks != "" {
			asks[id] = s.asks
		}
	}
	if b.fresh && b.state.Stale == stale && maps.Equal(b.state.Asks, asks) {
		return
	}
	b.fresh = true
	b.state = State{b.state.Version + 1, asks, stale}
	close(b.changed)
	b.changed = make(chan struct{})
}

// digest differs when open approvals do. It is empty if there are none.
func digest(open []protocol.Approval) string {
	if len(open) == 0 {
		return ""
	}
	var b strings.Builder
	for _, ap := range open {
		_ = json.NewEncoder(&b).Encode([]any{ap.ID, ap.State, ap.Digest, ap.ExpiresAt, ap.Missing})
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:8])
}
