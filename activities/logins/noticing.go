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
	// streamEvery is the pause between looks at a login while a text streams.
	streamEvery = 2 * time.Second
	// noticeTimeout is the time limit for such a look.
	noticeTimeout = 5 * time.Second
)

// A noticing looks at a login before the conversation folds what codex wrote. So it
// knows also a token that codex has just rotated and a command has just printed. Each
// item that ends and each request costs a round trip, unless it was in the journal, or
// on its way to us, at the last look. Pieces of a text that streams are stored nowhere,
// and cause a look only every other second.
type noticing struct {
	site          *site.Site
	session, file string
	h             hostexec.Host
	hide          site.Secrets
	read          *atomic.Int64 // how far the journal was read

	known string    // digest of the auth.json that was there last
	seen  int64     // offset up to which the journal was written when the last look began
	next  time.Time // no look before this for a piece, or for anything after a failed look
	fell  bool      // the last look failed
}

// Noticing returns a noticing and makes its first look. size is the present size of the
// journal. It returns nil if no login rotates.
func (k *Keeper) Noticing(ctx context.Context, size int64, read *atomic.Int64) *noticing {
	if k == nil {
		return nil
	}
	n := &noticing{site: k.site, session: k.holder, file: k.file(), h: k.H, hide: k.hide, read: read, known: seeds.AuthDigest(k.hide.Auth)}
	n.look(ctx, size)
	return n
}

// Before returns the function to be called before a line is folded.
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

// look reads the secrets of the login that is on the host now. The first come bytes of the
// journal were written before this look.
func (n *noticing) look(ctx context.Context, come int64) {
	bound, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	auth, changed, err := kit.ReadAuth(bound, n.h, n.file, n.known)
	n.next = n.site.Now().Add(streamEvery)
	if err != nil {
		if !n.fell { // logged only once; the next call to the host reports the cause
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
