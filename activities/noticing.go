package activities

import (
	"context"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/seeds"
)

const (
	// streamEvery is the pause between looks at a login while a text streams.
	streamEvery = 2 * time.Second
	// noticeTimeout bounds such a look.
	noticeTimeout = 5 * time.Second
)

// A noticing looks at a login before what codex wrote is folded: a token that
// codex rotated, and a command printed, a moment ago is known then. It costs a
// round trip for each item that ends and each request, not for what was in the
// journal, or on its way to us, when somebody looked last. Of a text that
// streams only the whole is worth one: pieces of it, which are stored nowhere,
// are looked before every other second.
type noticing struct {
	*site
	session, file string
	h             hostexec.Host
	hide          secrets
	read          *atomic.Int64 // how far the journal was read

	known string    // digest of the auth.json that was there last
	seen  int64     // what ends here was written before the last look began
	next  time.Time // when a piece is worth a look again, or anything after one that failed
	fell  bool      // the last look failed
}

// noticing begins with a look, at which size bytes of the journal are there.
// Nil where there is nothing that rotates.
func (k *keeper) noticing(ctx context.Context, size int64, read *atomic.Int64) *noticing {
	if k == nil {
		return nil
	}
	n := &noticing{site: k.site, session: k.holder, file: k.file(), h: k.h, hide: k.hide, read: read, known: seeds.AuthDigest(k.hide.auth)}
	n.look(ctx, size)
	return n
}

// before returns what is called before a line is folded.
func (n *noticing) before(ctx context.Context) func(end int64, piece bool) {
	if n == nil {
		return nil
	}
	return func(end int64, piece bool) {
		if end <= n.seen || (piece || n.fell) && n.Now().Before(n.next) {
			return
		}
		n.look(ctx, max(end, n.read.Load()))
	}
}

// look learns the secrets that are on the host by now. What has come until it
// begins was written before.
func (n *noticing) look(ctx context.Context, come int64) {
	bound, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	auth, changed, err := readAuth(bound, n.h, n.file, n.known)
	n.next = n.Now().Add(streamEvery)
	if err != nil {
		if !n.fell { // once: whoever talks to the host next learns why
			n.Logger.Warn("a login was not looked at before what codex wrote is shown", "session", n.session, "host", n.h.Name(), "error", n.hide.all.String(err.Error()))
		}
		n.fell = true
		return
	}
	n.seen, n.fell = max(n.seen, come), false
	if changed && auth != nil {
		n.hide.add(auth)
		n.known = seeds.AuthDigest(auth)
	}
}
