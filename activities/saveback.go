package activities

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"go.temporal.io/api/serviceerror"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// A keeper saves the logins that codex makes of a rotating login to their seed, while
// one session holds the seed on one host. It keeps no state that must survive: every
// look reads the host and asks the seed's workflow. A look may be killed after any step
// and repeated:
//
//	read auth.json ─▶ compare ─▶ mark "rotated" ─▶ blob ─▶ read back ─▶ move the pointer
//
// A keeper stores only a later login of the seed's own account, and only under the
// lease that the session was given.
type keeper struct {
	site   *site
	holder string
	h      hostexec.Host
	home   string // CODEX_HOME
	hide   secrets
	left   bool // codex has ended, and the login is about to be wiped: see RotatedSeed

	looking chan struct{} // holds a token while no look runs
	// Only the holder of the token in looking may use the fields below.
	seed    protocol.SeedRef // the newest generation known; its epoch is the lease's
	settled string           // digest of an auth.json that need not be saved
	lost    error            // the lease has ended: wraps errSeedFenced
	marked  RotatedSeed
}

// newKeeper returns a keeper; nil if there is no login that rotates.
func newKeeper(s *site, h hostexec.Host, session, codexHome string, seed *protocol.SeedRef, hide secrets) *keeper {
	if !loginRotates(seed) || hide.auth == nil {
		return nil
	}
	k := &keeper{site: s, holder: session, h: h, home: codexHome, hide: hide, seed: *seed,
		settled: seeds.AuthDigest(hide.auth), looking: make(chan struct{}, 1)}
	k.looking <- struct{}{}
	return k
}

func (k *keeper) file() string { return path.Join(k.home, "auth.json") }

// A keep is the result of one look.
type keep int

const (
	keptAsIs   keep = iota // the login is the seed's, or an earlier one
	keptSaved              // the login was rotated, and is the seed's now
	keptNobody             // no login is there: the file was removed, or somebody logged out
)

// look compares the login on the host with the seed, and saves it if it is later. An
// error means that the host has, or may have, a login that is not in the store, so
// nothing may be wiped. The error wraps errSeedFenced if the lease has ended.
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

// settle compares a changed auth.json with the seed, and saves it if it is later.
func (k *keeper) settle(ctx context.Context, auth []byte) (keep, error) {
	digest := seeds.AuthDigest(auth)
	rotation, err := compareAuth(k.hide.auth, auth)
	switch {
	case rotation == seeds.RotationTorn:
		return 0, err // it may be complete in a moment
	case rotation == seeds.RotationLoggedOut:
		return keptNobody, nil
	case rotation == seeds.RotationNone, rotation == seeds.RotationEarlier:
		k.settled = digest
		return keptAsIs, nil
	}
	// The seed may have a newer generation since the lease was granted.
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

// maxOvertaken is how often a save is tried while the seed's generation changes.
const maxOvertaken = 3

var errOvertaken = errors.New("the seed has gone on meanwhile")

// now asks the seed's workflow for its state. It fails if the lease has ended.
func (k *keeper) now(ctx context.Context) (SeedNow, error) {
	if k.site.desk == nil {
		return SeedNow{}, errors.New("this worker has no way to the seed's workflow")
	}
	now, err := k.site.desk.now(ctx, k.seed.Name)
	if err != nil {
		return now, err
	}
	epoch, held := now.Holders[k.holder]
	switch {
	case k.left && now.forgot(k.seed.Epoch) && now.isFree(k.holder):
		return now, nil
	case now.Ref == nil:
		return now, fmt.Errorf("%w: there is no seed %s any more", errSeedFenced, k.seed.Name)
	case !held:
		return now, fmt.Errorf("%w: session %s has no lease on seed %s", errSeedFenced, k.holder, k.seed.Name)
	case epoch != k.seed.Epoch:
		return now, fmt.Errorf("%w: seed %s was leased to session %s anew, as %d in place of %d", errSeedFenced, k.seed.Name, k.holder, epoch, k.seed.Epoch)
	}
	return now, nil
}

// follow saves an auth.json as the next generation, if it is a later login than that of
// the newest generation.
func (k *keeper) follow(ctx context.Context, now SeedNow, auth []byte, digest string) (keep, error) {
	cur := *now.Ref
	cur.Generation, cur.Epoch = now.Generation, k.seed.Epoch
	current := k.hide.auth
	if cur.Blob != k.seed.Blob {
		hide, err := hiding(ctx, k.site, &cur)
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
	// The seed is marked before anything can fail. From now on nobody else is granted
	// the seed.
	if err := k.mark(ctx, now, digest, nil); err != nil {
		return 0, err
	}
	ref, files, err := storeRotated(ctx, k.site, &cur, auth)
	if err != nil {
		return 0, k.mark(ctx, now, digest, err)
	}
	saved, err := k.site.desk.save(ctx, k.seed.Name, SaveSeed{
		Holder: k.holder, Epoch: k.seed.Epoch, From: cur.Generation, Auth: digest, Ref: ref, Files: files, Left: k.left,
	})
	if err != nil {
		// Perhaps the answer was lost, another attempt was faster, or another session
		// has the lease. The seed's state shows which.
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
	k.site.Logger.Info("a login that codex rotated is saved", "seed", k.seed.Name, "generation", saved.Generation, "session", k.holder)
	return keptSaved, nil
}

// mark reports to the seed that the host has a login that is not in the store, and why
// the login is not saved yet. It returns why, joined with the error of the report. If
// the lease has ended, it returns only errSeedFenced.
func (k *keeper) mark(ctx context.Context, now SeedNow, digest string, why error) error {
	m := RotatedSeed{Holder: k.holder, Epoch: k.seed.Epoch, Auth: digest, Left: k.left}
	if why != nil {
		m.Reason = k.hide.all.String(why.Error())
	}
	if m == k.marked || now.Rotated != nil && (*now.Rotated == m || why == nil && now.Rotated.Auth == digest && now.Rotated.Holder == k.holder) {
		return why
	}
	// The mark is sent even if the store failed because time ran out.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	if _, err := k.site.desk.rotated(ctx, k.seed.Name, m); err != nil {
		if errors.Is(err, errSeedFenced) {
			return err
		}
		return errors.Join(why, err)
	}
	k.marked = m
	return why
}

// unsavedBy returns an error if the seed waits for a login of this session that is
// not on the host any more, so that nobody can save it.
func (k *keeper) unsavedBy(ctx context.Context) error {
	if k.site.desk == nil {
		return nil // without a desk, nothing was marked either
	}
	now, err := k.now(ctx)
	var gone *serviceerror.NotFound
	switch {
	case k.left && (errors.As(err, &gone) || errors.Is(err, errSeedFenced) && now.forgot(k.seed.Epoch)):
		return nil // no workflow waits for a login of this lease
	case err != nil:
		return err
	}
	if r := now.Rotated; r != nil && r.Holder == k.holder && r.Auth != now.Auth {
		return &unsavable{seeds.RotationLoggedOut, fmt.Errorf("seed %s: codex rotated its login, and auth.json is gone from %s on %s before it could be saved (log in again and import it)",
			k.seed.Name, k.home, k.h.Name())}
	}
	return nil
}

const (
	// saveBackEvery is the pause between looks during a conversation. A change is
	// noticed, and is being saved, well within 15 seconds.
	saveBackEvery = 8 * time.Second
	// lookTimeout is the time limit for one look during a conversation.
	lookTimeout = 30 * time.Second
	// lastLook is the time limit for the look before a pump's result is returned. It is
	// short, because a marked login is not lost, and the end of a turn should not wait.
	lastLook = 10 * time.Second
	// markTimeout is the time limit for the call that reports an unsaved login to the
	// seed.
	markTimeout = 5 * time.Second
	// tornAgain is the pause before a half-written file is read again.
	tornAgain = 250 * time.Millisecond
)

// beside looks at once, and then every few seconds until stop is called. If the lease
// has ended, it calls lost and looks no more.
func (k *keeper) beside(ctx context.Context, lost func(error)) (stop func()) {
	if k == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every(k.site))
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

func every(s *site) time.Duration {
	if s.saveEvery > 0 {
		return s.saveEvery
	}
	return saveBackEvery
}

// lookOnce looks once, and logs an error unless it is the same as last time.
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
		k.site.Logger.Warn("login of a session is not saved", "seed", k.seed.Name, "session", k.holder, "host", k.h.Name(), "error", text)
	}
	*said = text
	return err
}

// last looks at the login once more before a result is returned, and repeats the look
// while the file is half-written. It returns a Problem if the lease has ended.
func (k *keeper) last(ctx context.Context) *protocol.Problem {
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
		return &protocol.Problem{Kind: kind, Message: k.hide.all.String(err.Error()), Hint: hint}
	}
	k.site.Logger.Warn("login of a session is not saved at the end of a pump", "seed", k.seed.Name, "session", k.holder, "host", k.h.Name(), "error", k.hide.all.String(err.Error()))
	return nil
}

// lookWhole is look, repeated a few times while the file is half-written.
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

// saveBack is called before a wipe, or after codex was ended. If it returns nil, the
// host has no login that is not in the store.
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

// ref returns the newest generation of the seed that is known.
func (k *keeper) ref(ctx context.Context) protocol.SeedRef {
	select {
	case <-k.looking:
		defer func() { k.looking <- struct{}{} }()
	case <-ctx.Done():
	}
	return k.seed
}

// watchLogin leaves a watch for the login of a session.
func (k *keeper) watchLogin(ctx context.Context, dir string, fence hostexec.Fence) error {
	note, err := json.Marshal(k.ref(ctx))
	if err != nil {
		return err
	}
	return process.WatchFile(ctx, k.h, dir, k.file(), base64.RawURLEncoding.EncodeToString(note), fence)
}
