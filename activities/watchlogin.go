package activities

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
)

// While a session waits or is idle, no pump is attached to its codex, but codex may go
// on and refresh a login. So the last pump left a watch for auth.json, with a note that
// names the seed and the lease. The host's watcher looks at all such watches in one
// round trip. In it, the host compares two file times for each watch and starts no
// program. The watcher reads only an auth.json that has changed. On a host without such
// watches, a look costs only the round trip.

// leaveLogin leaves a watch for the login of a session whose turn has ended. Such a
// session needs no watch of its process.
func leaveLogin(ctx context.Context, s *site, in RunPumpInput, n int32, at protocol.Cursor, keep *keeper) {
	if keep == nil {
		return
	}
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if err := keep.watchLogin(ctx, serverDir(in.Layout, at.Incarnation), fenceOf(in.Claim, in.Layout.Dir, n)); err != nil {
		// The turn's result matters more, and the next pump looks by itself.
		s.Logger.Warn("login of an idle session is not looked after", "session", in.Claim.Session, "host", keep.h.Name(), "error", err)
	}
}

// loginOfNote reads the note that watchLogin left. The host may have put anything
// there. So the seed's workflow, which knows the holders, checks the seed and the lease
// again.
func loginOfNote(note string) (*protocol.SeedRef, error) {
	data, err := base64.RawURLEncoding.DecodeString(note)
	ref := new(protocol.SeedRef)
	if err == nil {
		err = json.Unmarshal(data, ref)
	}
	if err == nil && (!loginRotates(ref) || !nameRule.MatchString(ref.Name)) {
		err = errors.New("it names no rotating seed")
	}
	if err != nil {
		return nil, fmt.Errorf("the note beside a login: %w", err)
	}
	return ref, nil
}

// firstLook is the pause before the first look of a watch.
const firstLook = 500 * time.Millisecond

// watchLogins looks at the logins of waiting sessions until ctx ends.
func (w *watcher) watchLogins(ctx context.Context) {
	every, failures, said := every(w.site), 0, map[string]*string{}
	// The former watcher may have died some time ago.
	for pause := min(every, firstLook); ; {
		select {
		case <-time.After(pause*4/5 + rand.N(pause*2/5+1)):
		case <-ctx.Done():
			return
		}
		switch err := w.lookAtLogins(ctx, said); {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
		default:
			if failures++; failures == 1 {
				w.site.Logger.Warn("logins of waiting sessions cannot be looked at", "host", w.in.Host.Name, "error", err)
			}
		}
		if pause = every; failures > 0 {
			pause = max(every, min(every<<min(failures-1, 5), maxWatchPause))
		}
	}
}

// lookAtLogins saves the logins that have changed.
func (w *watcher) lookAtLogins(ctx context.Context, said map[string]*string) error {
	h, err := w.site.host(w.in.Host)
	if err != nil {
		return err
	}
	root, err := hostexec.Root(ctx, h, w.in.Host)
	if err != nil {
		return err
	}
	found, err := process.LookFiles(ctx, h, path.Join(root, "sessions"))
	if err != nil {
		return err
	}
	known := w.keepers
	w.keepers = make(map[string]*keeper, len(found))
	for _, f := range found {
		key := f.Session + " " + f.Note
		k := known[key]
		if k == nil {
			if k, err = w.keeperOf(ctx, h, root, f); err != nil {
				w.site.Logger.Warn("login of a waiting session is not looked at", "session", f.Session, "host", h.Name(), "error", err)
				continue
			}
		}
		w.keepers[key] = k
		if said[key] == nil {
			said[key] = new(string)
		}
		_ = k.lookOnce(ctx, lookTimeout, said[key]) // lookOnce has logged the error
	}
	return nil
}

func (w *watcher) keeperOf(ctx context.Context, h hostexec.Host, root string, f process.ChangedFile) (*keeper, error) {
	if err := checkID("session", f.Session); err != nil {
		return nil, err
	}
	ref, err := loginOfNote(f.Note)
	if err != nil {
		return nil, err
	}
	hide, err := hiding(ctx, w.site, ref)
	if err != nil {
		return nil, err
	}
	k := newKeeper(w.site, h, f.Session, layoutOf(root, f.Session).CodexHome, ref, hide)
	if k == nil {
		return nil, errors.New("its seed has no login")
	}
	return k, nil
}
