package logins

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"go.temporal.io/api/serviceerror"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// A Keeper saves the logins that codex makes of a rotating login while one session holds
// the seed on one host. It has no state that must survive. A look may be killed after any
// step and repeated:
//
//	read auth.json ─▶ compare ─▶ mark "rotated" ─▶ blob ─▶ read back ─▶ move the pointer
//
// It stores only a later login of the seed's account, and only under the session's lease.
type Keeper struct {
	site   *site.Site
	holder string
	H      hostexec.Host
	home   string
	hide   site.Secrets
	Left   bool // codex has ended, and the login is about to be wiped

	looking chan struct{}    // has a token while no look runs, which guards the fields below
	seed    protocol.SeedRef // newest known generation, with the lease's epoch
	settled string           // digest of an auth.json that need not be saved
	lost    error            // the lease has ended: ErrSeedFenced
	marked  inquiry.RotatedSeed
}

// NewKeeper returns nil if no login rotates.
func NewKeeper(s *site.Site, h hostexec.Host, session, codexHome string, seed *protocol.SeedRef, hide site.Secrets) *Keeper {
	if !folder.LoginRotates(seed) || hide.Auth == nil {
		return nil
	}
	k := &Keeper{site: s, holder: session, H: h, home: codexHome, hide: hide, seed: *seed,
		settled: seeds.AuthDigest(hide.Auth), looking: make(chan struct{}, 1)}
	k.looking <- struct{}{}
	return k
}

func (k *Keeper) file() string { return path.Join(k.home, "auth.json") }

// A Keep is the result of a look.
type Keep int

const (
	KeptAsIs   Keep = iota // the seed's login, or an earlier one
	KeptSaved              // the login was rotated and is saved
	KeptNobody             // no login: removed, or logged out
)

// Look saves the host's login if it is later than the seed's. An error means that the host
// has, or may have, a login that is not in the store, so nothing may be wiped. It wraps
// ErrSeedFenced if the lease has ended.
func (k *Keeper) Look(ctx context.Context) (Keep, error) {
	select {
	case <-k.looking:
		defer func() { k.looking <- struct{}{} }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if k.lost != nil {
		return 0, k.lost
	}
	auth, changed, err := kit.ReadAuth(ctx, k.H, k.file(), k.settled)
	switch {
	case err != nil:
		return 0, fmt.Errorf("look at the login: %w", err)
	case !changed:
		return KeptAsIs, nil
	case auth == nil:
		return KeptNobody, nil
	}
	k.hide.Add(auth)
	out, err := k.settle(ctx, auth)
	if errors.Is(err, kit.ErrSeedFenced) {
		k.lost = err
	}
	return out, err
}

func (k *Keeper) settle(ctx context.Context, auth []byte) (Keep, error) {
	digest := seeds.AuthDigest(auth)
	rotation, err := kit.CompareAuth(k.hide.Auth, auth)
	switch {
	case rotation == seeds.RotationTorn:
		return 0, err // may be complete in a moment
	case rotation == seeds.RotationLoggedOut:
		return KeptNobody, nil
	case rotation == seeds.RotationNone, rotation == seeds.RotationEarlier:
		k.settled = digest
		return KeptAsIs, nil
	}
	// The seed may have a newer generation than the lease.
	for range maxOvertaken {
		now, err := k.now(ctx)
		if err != nil {
			return 0, err
		}
		if now.Auth == digest {
			k.settled = digest
			return KeptSaved, nil
		}
		out, err := k.follow(ctx, now, auth, digest)
		if !errors.Is(err, errOvertaken) {
			return out, err
		}
	}
	return 0, fmt.Errorf("seed %s changes faster than it can be saved", k.seed.Name)
}

const maxOvertaken = 3

var errOvertaken = errors.New("the seed has gone on meanwhile")

// now fails if the lease has ended.
func (k *Keeper) now(ctx context.Context) (inquiry.SeedNow, error) {
	if k.site.Desk == nil {
		return inquiry.SeedNow{}, errors.New("this worker has no connection to Temporal")
	}
	now, err := k.site.Desk.Now(ctx, k.seed.Name)
	if err != nil {
		return now, err
	}
	epoch, held := now.Holders[k.holder]
	switch {
	case k.Left && now.Forgot(k.holder, k.seed.Epoch) && now.IsFree(k.holder):
		return now, nil
	case now.Ref == nil:
		return now, fmt.Errorf("%w: there is no seed %s any more", kit.ErrSeedFenced, k.seed.Name)
	case !held:
		return now, fmt.Errorf("%w: session %s has no lease on seed %s", kit.ErrSeedFenced, k.holder, k.seed.Name)
	case epoch != k.seed.Epoch:
		return now, fmt.Errorf("%w: seed %s was leased to session %s again, with epoch %d in place of %d", kit.ErrSeedFenced, k.seed.Name, k.holder, epoch, k.seed.Epoch)
	}
	return now, nil
}

// follow saves an auth.json as the next generation, if it is later than the newest.
func (k *Keeper) follow(ctx context.Context, now inquiry.SeedNow, auth []byte, digest string) (Keep, error) {
	cur := *now.Ref
	cur.Generation, cur.Epoch = now.Generation, k.seed.Epoch
	current := k.hide.Auth
	if cur.Blob != k.seed.Blob {
		hide, err := site.Hiding(ctx, k.site, &cur)
		if err != nil {
			return 0, k.mark(ctx, now, digest, err)
		}
		k.hide.Add(hide.Auth)
		current = hide.Auth
	}
	rotation, err := kit.CompareAuth(current, auth)
	switch {
	case err != nil:
		return 0, k.mark(ctx, now, digest, err)
	case rotation != seeds.RotationLater:
		k.settled = digest
		return KeptAsIs, nil
	}
	// From now on nobody else is granted the seed, whatever fails.
	if err := k.mark(ctx, now, digest, nil); err != nil {
		return 0, err
	}
	ref, files, err := storeRotated(ctx, k.site, &cur, auth)
	if err != nil {
		return 0, k.mark(ctx, now, digest, err)
	}
	saved, err := k.site.Desk.Save(ctx, k.seed.Name, inquiry.SaveSeed{
		Holder: k.holder, Epoch: k.seed.Epoch, From: cur.Generation, Auth: digest, Ref: ref, Files: files, Left: k.Left,
	})
	if err != nil {
		// The answer was lost, another attempt was faster, or another session has the
		// lease.
		again, nerr := k.now(ctx)
		switch {
		case nerr != nil:
			return 0, errors.Join(nerr, err)
		case again.Auth == digest || again.Generation != cur.Generation:
			return 0, errOvertaken
		}
		return 0, fmt.Errorf("save a rotated login: %w", err)
	}
	k.settled, k.marked = digest, inquiry.RotatedSeed{}
	if saved.Ref != nil {
		k.seed = *saved.Ref
		k.seed.Epoch = cur.Epoch
	}
	k.hide.Auth = auth
	k.site.Logger.Info("a login that codex rotated is saved", "seed", k.seed.Name, "generation", saved.Generation, "session", k.holder)
	return KeptSaved, nil
}

// mark reports to the seed a login that is not in the store, and why. It returns why,
// joined with an error of the report, or only ErrSeedFenced if the lease has ended.
func (k *Keeper) mark(ctx context.Context, now inquiry.SeedNow, digest string, why error) error {
	m := inquiry.RotatedSeed{Holder: k.holder, Epoch: k.seed.Epoch, Auth: digest, Left: k.Left}
	if why != nil {
		m.Reason = k.hide.All.String(why.Error())
	}
	if m == k.marked || now.Rotated != nil && (*now.Rotated == m || why == nil && now.Rotated.Auth == digest && now.Rotated.Holder == k.holder) {
		return why
	}
	// Time may have run out for the store.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	if _, err := k.site.Desk.Rotated(ctx, k.seed.Name, m); err != nil {
		if errors.Is(err, kit.ErrSeedFenced) {
			return err
		}
		return errors.Join(why, err)
	}
	k.marked = m
	return why
}

// unsavedBy returns an error if the seed waits for a login of this session that is not on
// the host any more.
func (k *Keeper) unsavedBy(ctx context.Context) error {
	if k.site.Desk == nil {
		return nil // without a desk, nothing was marked
	}
	now, err := k.now(ctx)
	var gone *serviceerror.NotFound
	switch {
	case k.Left && (errors.As(err, &gone) || errors.Is(err, kit.ErrSeedFenced) && now.Forgot(k.holder, k.seed.Epoch)):
		return nil // no workflow waits for it
	case err != nil:
		return err
	}
	if r := now.Rotated; r != nil && r.Holder == k.holder && r.Auth != now.Auth {
		return &kit.Unsavable{Rotation: seeds.RotationLoggedOut, Err: fmt.Errorf("seed %s: codex rotated its login, and auth.json is gone from %s on %s before it could be saved (log in again and import it)",
			k.seed.Name, k.home, k.H.Name())}
	}
	return nil
}

const (
	// saveBackEvery has a change saved well within 15 seconds.
	saveBackEvery = 8 * time.Second
	// LookTimeout bounds a look during a conversation.
	LookTimeout = 30 * time.Second
	// lastLook bounds the look at the end of a turn, which should not wait: a marked login
	// is not lost.
	lastLook    = 10 * time.Second
	markTimeout = 5 * time.Second
	tornAgain   = 250 * time.Millisecond
)

// Beside looks at once and then every few seconds until stop is called. If the lease has
// ended, it calls lost and looks no more.
func (k *Keeper) Beside(ctx context.Context, lost func(error)) (stop func()) {
	if k == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(Every(k.site))
		defer tick.Stop()
		said := ""
		for {
			if err := k.LookOnce(ctx, LookTimeout, &said); errors.Is(err, kit.ErrSeedFenced) {
				lost(err)
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// Every returns the pause between two looks.
func Every(s *site.Site) time.Duration {
	if s.SaveEvery > 0 {
		return s.SaveEvery
	}
	return saveBackEvery
}

// LookOnce logs an error unless it is the same as last time.
func (k *Keeper) LookOnce(ctx context.Context, bound time.Duration, said *string) error {
	look, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	_, err := k.Look(look)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text := ""
	if err != nil {
		text = k.hide.All.String(err.Error())
	}
	if text != "" && text != *said {
		k.site.Logger.Warn("login of a session is not saved", "seed", k.seed.Name, "session", k.holder, "host", k.H.Name(), "error", text)
	}
	*said = text
	return err
}

// Last looks once more before a result is returned. It returns a Problem if the lease has
// ended.
func (k *Keeper) Last(ctx context.Context) *protocol.Problem {
	if k == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lastLook)
	defer cancel()
	_, err := k.lookWhole(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kit.ErrSeedFenced):
		kind, hint, _ := kit.Failing{}.Classify(err)
		return &protocol.Problem{Kind: kind, Message: k.hide.All.String(err.Error()), Hint: hint}
	}
	k.site.Logger.Warn("login of a session is not saved at the end of a pump", "seed", k.seed.Name, "session", k.holder, "host", k.H.Name(), "error", k.hide.All.String(err.Error()))
	return nil
}

func (k *Keeper) lookWhole(ctx context.Context) (out Keep, err error) {
	for range 4 {
		var torn *kit.Unsavable
		if out, err = k.Look(ctx); !errors.As(err, &torn) || torn.Rotation != seeds.RotationTorn {
			return out, err
		}
		select {
		case <-time.After(tornAgain):
		case <-ctx.Done():
			return out, err
		}
	}
	return out, err
}

// SaveBack is called before a wipe, or after codex was ended. Nil means that the host has
// no login that is not in the store.
func (k *Keeper) SaveBack(ctx context.Context) error {
	if k == nil {
		return nil
	}
	out, err := k.lookWhole(ctx)
	if err == nil && out == KeptNobody {
		err = k.unsavedBy(ctx)
	}
	if err != nil {
		return fmt.Errorf("save the login of seed %s: %w", k.seed.Name, err)
	}
	return nil
}

func (k *Keeper) ref(ctx context.Context) protocol.SeedRef {
	select {
	case <-k.looking:
		defer func() { k.looking <- struct{}{} }()
	case <-ctx.Done():
	}
	return k.seed
}

// WatchLogin leaves a watch for the login on the host.
func (k *Keeper) WatchLogin(ctx context.Context, dir string, fence hostexec.Fence) error {
	note, err := json.Marshal(k.ref(ctx))
	if err != nil {
		return err
	}
	return process.WatchFile(ctx, k.H, dir, k.file(), base64.RawURLEncoding.EncodeToString(note), fence)
}
