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

// A noticing looks at a login before what codex wrote is folded, so that a token that
// was rotated, and printed, a moment ago is known. It costs a round trip for each item
// that ends and each request, and none for what was in the journal, or on its way to us,
// at the last look. Pieces of a text that streams, which are stored nowhere, cause a
// look only every other second.
type noticing struct {
	*site
	session, file string
	h             hostexec.Host
	hide          secrets
	read          *atomic.Int64 // how far the journal was read

	known string    // digest of the auth.json that was there last
	seen  int64     // what ends at or before this was written before the last look began
	next  time.Time // no look before this for a piece, or for anything after a failed look
	fell  bool      // the last look failed
}

// noticing begins with a look, when size bytes of the journal are there. It returns nil if
// nothing rotates.
func (k *keeper) noticing(ctx context.Context, size int64, read *atomic.Int64) *noticing {
	if k == nil {
		return nil
	}
	n := &noticing{site: k.site, session: k.holder, file: k.file(), h: k.h, hide: k.hide, read: read, known: seeds.AuthDigest(k.hide.auth)}
	n.look(ctx, size)
	return n
}

// before returns the function to be called before a line is folded.
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

// look learns the secrets that are on the host by now. The first come bytes of the journal
// were written before it.
func (n *noticing) look(ctx context.Context, come int64) {
	bound, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	auth, changed, err := readAuth(bound, n.h, n.file, n.known)
	n.next = n.Now().Add(streamEvery)
	if err != nil {
		if !n.fell { // once; the next call to the host tells why
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
