package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// outputPiece bounds one event of output, in bytes.
const outputPiece = 64 << 10

// exec streams a command's output.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	id, err := named(r, "id of a command", "id")
	v := &execViewer{id: id, store: s.opts.Store}
	if err == nil {
		v.out, err = number(r, "out", 0)
	}
	if err == nil {
		v.err, err = number(r, "err", 0)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	name := records.ExecTopic(id)
	v.topic = s.opts.Hub.enter(name)
	defer s.opts.Hub.leave(name, v.topic, nil)
	st := newStream(w)
	v.emit, v.flush = st.emit, st.flush
	err = v.run(r.Context(), s.opts.Alive)
	s.finish(st, err, Event{Kind: KindEnd, Result: v.result})
}

type execViewer struct {
	id       string
	topic    *topic
	store    *store.Store
	emit     func(Event) error
	flush    func() error
	out, err int64 // next positions
	result   *protocol.ExecResult
	looked   time.Time
	trouble
}

func (v *execViewer) run(ctx context.Context, alive time.Duration) error {
	keepalive := time.NewTicker(alive)
	defer keepalive.Stop()
	poll := time.NewTimer(pollAway)
	defer poll.Stop()
	look := true
	for {
		changed, moved, behind, err := v.fromMemory()
		if err != nil {
			return err
		}
		if moved {
			continue
		}
		if v.done() {
			return nil
		}
		if look || behind && time.Since(v.looked) > pollSoon {
			moved, err := v.fromStore(ctx)
			if err != nil {
				return err
			}
			if moved {
				look = true
				continue
			}
			look = false
		}
		if behind {
			poll.Reset(pollSoon)
		} else {
			poll.Reset(pollAway)
		}
		if err := v.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-poll.C:
			look = true
		case <-keepalive.C:
			if err := v.emit(Event{Kind: KindAlive}); err != nil {
				return err
			}
		}
	}
}

func (v *execViewer) done() bool {
	return v.result != nil && v.out >= v.result.Stdout && v.err >= v.result.Stderr
}

func (v *execViewer) fromMemory() (changed <-chan struct{}, moved, behind bool, err error) {
	t := v.topic
	var pieces []*protocol.ExecChunk
	t.mu.Lock()
	changed = t.changed
	if t.result != nil {
		r := *t.result
		v.result = &r
	}
	for _, s := range []struct {
		name string
		w    *window
		pos  *int64
	}{{records.Stdout, &t.out, &v.out}, {records.Stderr, &t.err, &v.err}} {
		if p, ok := s.w.from(*s.pos, outputPiece); ok {
			pieces = append(pieces, &protocol.ExecChunk{Stream: s.name, At: *s.pos, Data: p})
			*s.pos += int64(len(p))
		} else if s.w.end() > *s.pos {
			behind = true
		}
	}
	if v.result != nil && !v.done() && len(pieces) == 0 {
		behind = true
	}
	t.mu.Unlock()
	for _, p := range pieces {
		if err := v.emit(Event{Kind: KindOutput, Output: p}); err != nil {
			return changed, false, behind, err
		}
	}
	return changed, len(pieces) > 0, behind, nil
}

func (v *execViewer) fromStore(ctx context.Context) (moved bool, err error) {
	v.looked = time.Now()
	// Read the end first: then the store has all output of an ended command.
	if v.result == nil {
		result, ended, err := records.ReadExecEnd(ctx, v.store, v.id)
		if err != nil {
			return false, v.bad(ctx, err)
		}
		if ended {
			v.result, moved = &result, true
		}
	}
	for _, s := range []struct {
		name string
		pos  *int64
	}{{records.Stdout, &v.out}, {records.Stderr, &v.err}} {
		for c, err := range records.ReadExec(ctx, v.store, v.id, s.name, *s.pos) {
			if err != nil {
				return moved, v.bad(ctx, err)
			}
			if err := v.emit(Event{Kind: KindOutput, Output: &c}); err != nil {
				return moved, err
			}
			*s.pos = c.At + int64(len(c.Data)) // further on if old output was dropped
			moved = true
		}
	}
	if moved {
		v.trouble = trouble{}
		return true, nil
	}
	if v.result != nil && !v.done() {
		return false, v.bad(ctx, errMissing)
	}
	v.trouble = trouble{}
	return false, nil
}

var errMissing = errors.New("the command has ended and some of its output is not in the store")

// bad returns nil until the store has failed for too long.
func (v *execViewer) bad(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if v.trouble.last == nil {
		v.trouble.since = time.Now()
	}
	v.trouble.last = err
	if time.Since(v.trouble.since) < storeWait {
		return nil
	}
	kind := ErrStore
	if errors.Is(err, errMissing) {
		kind = ErrGap
	}
	return problem(0, kind, "read the output of command %s: %v", v.id, err)
}
