package hostexec

import (
	"context"
	"time"
)

// A spare is a channel whose login shell has run its rc files and waits for a line. With it
// an attachment takes one round trip and need not wait for rc files (version managers take
// half a second). It is a fresh shell, because children of an earlier command might still
// write to the output of a used one.
type spare struct {
	ch    *sshChannel
	since time.Time
}

func (s spare) fit() bool { return s.ch.fit(s.since) }

// fit reports whether a channel opened at born may still be used.
func (s *sshChannel) fit(born time.Time) bool {
	select {
	case <-s.done:
		return false
	default:
		return !s.conn.isDead() && time.Since(born) < maxShellAge
	}
}

func (h *sshHost) session(ctx context.Context, k kind) (*sshChannel, error) {
	if k != control {
		return h.groups[k].session(ctx)
	}
	defer h.refill()
	if ch := h.takeSpare(); ch != nil {
		return ch, nil
	}
	return h.groups[control].session(ctx)
}

func (h *sshHost) takeSpare() *sshChannel {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.spare
	h.spare = nil
	switch {
	case s == nil:
		return nil
	case !s.fit():
		s.ch.Close()
		return nil
	}
	return s.ch
}

func (h *sshHost) refill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.spare != nil || h.refilling || h.closed {
		return
	}
	h.refilling = h.tasks.Go(func() {
		ch, err := h.groups[control].session(h.ctx)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.refilling = false
		if err != nil {
			return // the next caller gets the error
		}
		if h.closed {
			ch.Close()
			return
		}
		h.spare = &spare{ch: ch, since: time.Now()}
	})
}
