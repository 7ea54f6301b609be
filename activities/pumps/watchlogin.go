package pumps

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"time"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
)

// codex may refresh a login while no pump is attached. So the last pump leaves a watch for
// auth.json, with a note of the seed and the lease. In one round trip for all, the host
// compares two file times for each and starts no program. Only a changed auth.json is read.

// leaveLogin leaves a watch for the login of an idle session, whose process needs none.
func leaveLogin(ctx context.Context, s *site.Site, in RunPumpInput, n int32, at protocol.Cursor, keep *logins.Keeper) {
	if keep == nil {
		return
	}
	ctx, cancel := kit.Afterwards(ctx)
	defer cancel()
	if err := keep.WatchLogin(ctx, folder.ServerDir(in.Layout, at.Incarnation), folder.FenceOf(in.Claim, in.Layout.Dir, n)); err != nil {
		// The turn's result matters more, and the next pump looks, too.
		s.Logger.Warn("login of an idle session is not looked after", "session", in.Claim.Session, "host", keep.H.Name(), "error", err)
	}
}

// loginOfNote reads WatchLogin's note. The host may have changed it, so the seed's workflow
// checks it again.
func loginOfNote(note string) (*protocol.SeedRef, error) {
	data, err := base64.RawURLEncoding.DecodeString(note)
	ref := new(protocol.SeedRef)
	if err == nil {
		err = json.Unmarshal(data, ref)
	}
	if err == nil && (!folder.LoginRotates(ref) || !kit.NameRule.MatchString(ref.Name)) {
		err = errors.New("it names no rotating seed")
	}
	if err != nil {
		return nil, fmt.Errorf("the note beside a login: %w", err)
	}
	return ref, nil
}

const firstLook = 500 * time.Millisecond

// WatchLogins looks at the logins of waiting sessions until ctx ends.
func (w *Watcher) WatchLogins(ctx context.Context) {
	every, failures, said := logins.Every(w.Site), 0, map[string]*string{}
	// The former watcher may have died some time ago.
	for pause := min(every, firstLook); ; {
		select {
		case <-time.After(pause*4/5 + rand.N(pause*2/5+1)):
		case <-ctx.Done():
			return
		}
		switch err := w.LookAtLogins(ctx, said); {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
		default:
			if failures++; failures == 1 {
				w.Site.Logger.Warn("logins of waiting sessions cannot be looked at", "host", w.In.Host.Name, "error", err)
			}
		}
		if pause = every; failures > 0 {
			pause = max(every, min(every<<min(failures-1, 5), maxWatchPause))
		}
	}
}

// LookAtLogins saves the logins that have changed.
func (w *Watcher) LookAtLogins(ctx context.Context, said map[string]*string) error {
	h, err := w.Site.Host(w.In.Host)
	if err != nil {
		return err
	}
	root, err := hostexec.Root(ctx, h, w.In.Host)
	if err != nil {
		return err
	}
	found, err := process.LookFiles(ctx, h, path.Join(root, "sessions"))
	if err != nil {
		return err
	}
	known := w.keepers
	w.keepers = make(map[string]*logins.Keeper, len(found))
	for _, f := range found {
		key := f.Session + " " + f.Note
		k := known[key]
		if k == nil {
			if k, err = w.keeperOf(ctx, h, root, f); err != nil {
				w.Site.Logger.Warn("login of a waiting session is not looked at", "session", f.Session, "host", h.Name(), "error", err)
				continue
			}
		}
		w.keepers[key] = k
		if said[key] == nil {
			said[key] = new(string)
		}
		_ = k.LookOnce(ctx, logins.LookTimeout, said[key]) // logged by LookOnce
	}
	return nil
}

func (w *Watcher) keeperOf(ctx context.Context, h hostexec.Host, root string, f process.ChangedFile) (*logins.Keeper, error) {
	if err := kit.CheckID("session", f.Session); err != nil {
		return nil, err
	}
	ref, err := loginOfNote(f.Note)
	if err != nil {
		return nil, err
	}
	hide, err := site.Hiding(ctx, w.Site, ref)
	if err != nil {
		return nil, err
	}
	k := logins.NewKeeper(w.Site, h, f.Session, folder.LayoutOf(root, f.Session).CodexHome, ref, hide)
	if k == nil {
		return nil, errors.New("its seed has no login")
	}
	return k, nil
}
