package activities

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/seeds"
)

// A keeper brings what codex makes of a rotating login back to its seed, while
// one session holds that on one host. It remembers nothing that matters: every
// look finds the truth on the host and at the seed's workflow, and may be
// killed after any of its steps and done again:
//
//	read auth.json ─▶ compare ─▶ mark "rotated" ─▶ blob ─▶ read back ─▶ move the pointer
//
// Only a later login of the seed's own account is ever stored, and only under
// the lease that the session was given.
type keeper struct {
	*site
	holder string
	h      hostexec.Host
	home   string // CODEX_HOME
	hide   secrets

	looking chan struct{} // holds a token while nobody looks
	// What follows belongs to who looks.
	seed    SeedRef // as it is known to count; its epoch is the lease's
	settled string  // digest of an auth.json that needs no saving
	lost    error   // the lease has ended: wraps errSeedFenced
	marked  RotatedSeed
}

// keeper makes one; nil where there is nothing that rotates.
func (s *site) keeper(h hostexec.Host, session, codexHome string, seed *SeedRef, hide secrets) *keeper {
	if !seed.rotates() || hide.auth == nil {
		return nil
	}
	k := &keeper{site: s, holder: session, h: h, home: codexHome, hide: hide, seed: *seed,
		settled: seeds.AuthDigest(hide.auth), looking: make(chan struct{}, 1)}
	k.looking <- struct{}{}
	return k
}

func (k *keeper) file() string { return path.Join(k.home, "auth.json") }

// A keep is what one look made certain.
type keep int

const (
	keptAsIs   keep = iota // what is there is the seed's, or was before
	keptSaved              // it was rotated, and is the seed's now
	keptNobody             // no login is there: it was removed, or logged out
)

// look compares what the host has with the seed, and saves it if it came later.
// An error means that the host has what no store has, or may have: nothing may
// be wiped then. It wraps errSeedFenced where the lease has ended.
func (k *keeper) look(ctx context.Context) (keep, error) {
	select {
	case <-k.looking:
		defer func() { k.looking <- struct{}{} }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if k.lost != nil {
		return 0, k.lost
	}
	auth, changed, err := readAuth(ctx, k.h, k.file(), k.settled)
	switch {
	case err != nil:
		return 0, fmt.Errorf("look at the login: %w", err)
	case !changed:
		return keptAsIs, nil
	case auth == nil:
		return keptNobody, nil
	}
	k.hide.add(auth)
	out, err := k.settle(ctx, auth)
	if errors.Is(err, errSeedFenced) {
		k.lost = err
	}
	return out, err
}

// settle finds out what a changed auth.json is worth, and does it.
func (k *keeper) settle(ctx context.Context, auth []byte) (keep, error) {
	digest := seeds.AuthDigest(auth)
	rotation, err := compareAuth(k.hide.auth, auth)
	switch {
	case rotation == seeds.RotationTorn:
		return 0, err // it may be whole in a moment
	case rotation == seeds.RotationLoggedOut:
		return keptNobody, nil
	case rotation == seeds.RotationNone:
		k.settled = digest
		return keptAsIs, nil
	}
	// The seed may have gone on since the session was told of it.
	for range maxOvertaken {
		now, err := k.now(ctx)
		if err != nil {
			return 0, err
		}
		if now.Auth == digest {
			k.settled = digest
			return keptSaved, nil
		}
		out, err := k.follow(ctx, now, auth, digest)
		if !errors.Is(err, errOvertaken) {
			return out, err
		}
	}
	return 0, fmt.Errorf("seed %s changes faster than it can be saved", k.seed.Name)
}

// maxOvertaken is how often a save begins again since the seed went on meanwhile.
const maxOvertaken = 3

var errOvertaken = errors.New("the seed has gone on meanwhile")

// now asks for what counts, and whether we still hold it.
func (k *keeper) now(ctx context.Context) (SeedNow, error) {
	if k.desk == nil {
		return SeedNow{}, errors.New("this worker has no way to the seed's workflow")
	}
	now, err := k.desk.now(ctx, k.seed.Name)
	if err != nil {
		return now, err
	}
	epoch, held := now.Holders[k.holder]
	switch {
	case now.Ref == nil:
		return now, fmt.Errorf("%w: there is no seed %s any more", errSeedFenced, k.seed.Name)
	case !held:
		return now, fmt.Errorf("%w: session %s has no lease on seed %s", errSeedFenced, k.holder, k.seed.Name)
	case epoch != k.seed.Epoch:
		return now, fmt.Errorf("%w: seed %s was leased to session %s anew, as %d in place of %d", errSeedFenced, k.seed.Name, k.holder, epoch, k.seed.Epoch)
	}
	return now, nil
}

// follow makes an auth.json what follows the generation that counts now, if it does.
func (k *keeper) follow(ctx context.Context, now SeedNow, auth []byte, digest string) (keep, error) {
	cur := *now.Ref
	cur.Generation, cur.Epoch = now.Generation, k.seed.Epoch
	current := k.hide.auth
	if cur.Blob != k.seed.Blob {
		hide, err := k.hiding(ctx, &cur)
		if err != nil {
			return 0, k.mark(ctx, now, digest, err)
		}
		k.hide.add(hide.auth)
		current = hide.auth
	}
	rotation, err := compareAuth(current, auth)
	switch {
	case err != nil:
		return 0, k.mark(ctx, now, digest, err)
	case rotation != seeds.RotationLater:
		k.settled = digest
		return keptAsIs, nil
	}
	// On record before anything can fail: from here on nobody else is granted it.
	if err := k.mark(ctx, now, digest, nil); err != nil {
		return 0, err
	}
	ref, files, err := k.storeRotated(ctx, &cur, auth)
	if err != nil {
		return 0, k.mark(ctx, now, digest, err)
	}
	saved, err := k.desk.save(ctx, k.seed.Name, SaveSeed{
		Holder: k.holder, Epoch: k.seed.Epoch, From: cur.Generation, Auth: digest, Ref: ref, Files: files,
	})
	if err != nil {
		// The answer may be lost, somebody of ours was quicker, or the lease is
		// another's: what counts now says which.
		again, nerr := k.now(ctx)
		switch {
		case nerr != nil:
			return 0, errors.Join(nerr, err)
		case again.Auth == digest || again.Generation != cur.Generation:
			return 0, errOvertaken
		}
		return 0, fmt.Errorf("save a rotated login: %w", err)
	}
	k.settled, k.marked = digest, RotatedSeed{}
	if saved.Ref != nil {
		k.seed = *saved.Ref
		k.seed.Epoch = cur.Epoch
	}
	k.hide.auth = auth
	k.Logger.Info("a login that codex rotated is saved", "seed", k.seed.Name, "generation", saved.Generation, "session", k.holder)
	return keptSaved, nil
}

// mark says at the seed that the host has what no store has, and why that is
// still so. It returns why.
func (k *keeper) mark(ctx context.Context, now SeedNow, digest string, why error) error {
	m := RotatedSeed{Holder: k.holder, Epoch: k.seed.Epoch, Auth: digest}
	if why != nil {
		m.Reason = k.hide.all.String(why.Error())
	}
	if m == k.marked || now.Rotated != nil && (*now.Rotated == m || why == nil && now.Rotated.Auth == digest && now.Rotated.Holder == k.holder) {
		return why
	}
	// What could not be stored because time ran out is to be said all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	if _, err := k.desk.rotated(ctx, k.seed.Name, m); err != nil {
		if errors.Is(err, errSeedFenced) {
			return err
		}
		return errors.Join(why, err)
	}
	k.marked = m
	return why
}

// unsavedBy says whether the seed waits for something of ours that is not here
// any more, so that nobody can save it.
func (k *keeper) unsavedBy(ctx context.Context) error {
	if k.desk == nil {
		return nil // then nothing was marked either
	}
	now, err := k.now(ctx)
	if err != nil {
		return err
	}
	if r := now.Rotated; r != nil && r.Holder == k.holder && r.Auth != now.Auth {
		return &unsavable{seeds.RotationLoggedOut, fmt.Errorf("seed %s: codex rotated its login, and auth.json is gone from %s on %s before it could be saved (log in again and import it)",
			k.seed.Name, k.home, k.h.Name())}
	}
	return nil
}

const (
	// saveBackEvery is the pause between looks beside a conversation: what
	// changes is noticed, and on its way to the store, well within 15 seconds.
	saveBackEvery = 8 * time.Second
	// lookTimeout bounds one look beside a conversation.
	lookTimeout = 30 * time.Second
	// lastLook bounds the one before a pump's result is returned: what is
	// marked is not lost, and a turn that ended is to be told.
	lastLook = 10 * time.Second
	// markTimeout bounds saying that something is not saved.
	markTimeout = 5 * time.Second
	// tornAgain is the pause before a half-written file is read again.
	tornAgain = 250 * time.Millisecond
)

// beside looks at once, and then again and again, until the returned function
// is called, or the lease turns out to have ended: that is told.
func (k *keeper) beside(ctx context.Context, lost func(error)) (stop func()) {
	if k == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(k.every())
		defer tick.Stop()
		said := ""
		for {
			if err := k.lookOnce(ctx, lookTimeout, &said); errors.Is(err, errSeedFenced) {
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

func (s *site) every() time.Duration {
	if s.saveEvery > 0 {
		return s.saveEvery
	}
	return saveBackEvery
}

// lookOnce looks and logs, but not the same thing each time.
func (k *keeper) lookOnce(ctx context.Context, bound time.Duration, said *string) error {
	look, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	_, err := k.look(look)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text := ""
	if err != nil {
		text = k.hide.all.String(err.Error())
	}
	if text != "" && text != *said {
		k.Logger.Warn("login of a session is not saved", "seed", k.seed.Name, "session", k.holder, "host", k.h.Name(), "error", text)
	}
	*said = text
	return err
}

// last looks before a result is returned, and once more if a file was being
// written just then. It tells whether the lease turned out to be another's.
func (k *keeper) last(ctx context.Context) *Problem {
	if k == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lastLook)
	defer cancel()
	_, err := k.lookWhole(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errSeedFenced):
		kind, hint, _ := failing{}.classify(err)
		return &Problem{Kind: kind, Message: k.hide.all.String(err.Error()), Hint: hint}
	}
	k.Logger.Warn("login of a session is not saved at the end of a pump", "seed", k.seed.Name, "session", k.holder, "host", k.h.Name(), "error", k.hide.all.String(err.Error()))
	return nil
}

// lookWhole is look, with some patience for a file that is being written.
func (k *keeper) lookWhole(ctx context.Context) (out keep, err error) {
	for range 4 {
		var torn *unsavable
		if out, err = k.look(ctx); !errors.As(err, &torn) || torn.rotation != seeds.RotationTorn {
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

// saveBack is for who is about to wipe, or has ended codex: nil means that the
// host has nothing of the login that is not in the store.
func (k *keeper) saveBack(ctx context.Context) error {
	if k == nil {
		return nil
	}
	out, err := k.lookWhole(ctx)
	if err == nil && out == keptNobody {
		err = k.unsavedBy(ctx)
	}
	if err != nil {
		return fmt.Errorf("save the login of seed %s: %w", k.seed.Name, err)
	}
	return nil
}
