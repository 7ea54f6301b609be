package logins

import (
	"context"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/seeds"
)

const (
	// streamEvery is the pause between looks while a text streams.
	streamEvery   = 2 * time.Second
	noticeTimeout = 5 * time.Second
)

// A noticing looks at a login before the conversation folds what codex wrote, so that it
// knows a token that codex has just rotated. It costs a round trip for each item that ends
// and each request that was written after the last look began. Pieces of a text that
// streams, which are stored nowhere, cause a look every other second.
type noticing struct {
	site          *site.Site
	session, file string
	h             hostexec.Host
	hide          site.Secrets
	read          *atomic.Int64 // how far the journal was read

	known string    // digest of the last auth.json
	seen  int64     // length of the journal when the last look began
	next  time.Time // no look before this for a piece, or after a failed look
	fell  bool
}

// Noticing returns a noticing after its first look; nil if no login rotates. size is the
// journal's present size.
func (k *Keeper) Noticing(ctx context.Context, size int64, read *atomic.Int64) *noticing {
	if k == nil {
		return nil
	}
	n := &noticing{site: k.site, session: k.holder, file: k.file(), h: k.H, hide: k.hide, read: read, known: seeds.AuthDigest(k.hide.Auth)}
	n.look(ctx, size)
	return n
}

// Before returns the function that the pump calls before it folds a line.
func (n *noticing) Before(ctx context.Context) func(end int64, piece bool) {
	if n == nil {
		return nil
	}
	return func(end int64, piece bool) {
		if end <= n.seen || (piece || n.fell) && n.site.Now().Before(n.next) {
			return
		}
		n.look(ctx, max(end, n.read.Load()))
	}
}

// look reads the host's login. come bytes of the journal were written before.
func (n *noticing) look(ctx context.Context, come int64) {
	bound, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	auth, changed, err := kit.ReadAuth(bound, n.h, n.file, n.known)
	n.next = n.site.Now().Add(streamEvery)
	if err != nil {
		if !n.fell { // the next call to the host reports the cause
			n.site.Logger.Warn("a login was not looked at before what codex wrote is shown", "session", n.session, "host", n.h.Name(), "error", n.hide.All.String(err.Error()))
		}
		n.fell = true
		return
	}
	n.seen, n.fell = max(n.seen, come), false
	if changed && auth != nil {
		n.hide.Add(auth)
		n.known = seeds.AuthDigest(auth)
	}
}
