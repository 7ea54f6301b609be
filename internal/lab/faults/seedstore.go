package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

// storeAway makes every save fail for a while, also at the close. Nothing may
// be wiped before it is saved.
func storeAway(ctx context.Context, l *loginRun) error {
	r := l.session("a")
	if err := l.begun(ctx, r); err != nil {
		return err
	}
	back, err := l.storeGone()
	if err != nil {
		return err
	}
	err = l.rotatedOnHost(ctx, r)
	if err == nil {
		err = l.notSaved(ctx, func(protocol.SeedView) bool { return false })
	}
	if err == nil {
		err = r.signal(ctx, r.id, protocol.SignalClose, protocol.Close{By: "faults"})
	}
	scenario.Sleep(ctx, 10*time.Second)
	if err == nil {
		l.stillThere(r)
	}
	if err := errors.Join(err, back()); err != nil {
		return err
	}
	if err := l.close(ctx, r); err != nil {
		return err
	}
	return l.successor(ctx)
}

// notSaved waits until the seed reports a rotated login that is not saved, or
// until the condition or holds.
func (l *loginRun) notSaved(ctx context.Context, or func(protocol.SeedView) bool) error {
	return again(ctx, "rotated and not saved", func(ctx context.Context) error {
		v, err := l.view(ctx)
		if err == nil && v.Rotated == nil && !or(v) {
			err = fmt.Errorf("the seed is %s, %s, of generation %d", v.State, v.Health, v.Generation)
		}
		return err
	})
}

// stillThere checks that what could not be stored is on the host.
func (l *loginRun) stillThere(r *run) {
	if refreshIn(r.auth()) != l.issuer.Newest(l.first).Refresh {
		l.res.Find(lostRotations, "the login was wiped with no store to keep it in")
	}
}

// storeSlow delays each write by seconds, from before a login is rotated until
// it is given back. At save the login is rotated twice, the second time perhaps
// before the first is stored; at release the session is closed as soon as the
// new login is on the host.
func storeSlow(step string) func(context.Context, *loginRun) error {
	return func(ctx context.Context, l *loginRun) error {
		r := l.session("a")
		if err := l.begun(ctx, r); err != nil {
			return err
		}
		by := 2*time.Second + time.Duration(l.rng.Int64N(int64(3*time.Second)))
		slow, err := slowDown(l.storeDir(), writing, by)
		if err != nil {
			return err
		}
		r.logf("each write takes %s", by)
		err = l.rotatedOnHost(ctx, r)
		if err == nil && step == "save" {
			err = l.rotates(ctx, r)
		}
		if err == nil {
			err = l.close(ctx, r)
		}
		n, ended := slow.end()
		r.logf("%d writes were slow", n)
		if err := errors.Join(err, ended); err != nil {
			return err
		}
		return l.successor(ctx)
	}
}

// storeReadOnly makes the store refuse writes but not reads: at rotate before
// codex rotates, at save when the new login is on the host, at release when a
// login that is not saved is to be given back. A session that asks for the seed
// meanwhile must not get the old login, although it can be read.
func storeReadOnly(step string) func(context.Context, *loginRun) error {
	return func(ctx context.Context, l *loginRun) error {
		r, next := l.session("a"), l.session("z")
		if err := l.begun(ctx, r); err != nil {
			return err
		}
		before, err := l.view(ctx)
		if err != nil {
			return err
		}
		if step == "save" {
			if err := l.rotatedOnHost(ctx, r); err != nil {
				return err
			}
			r.pause(ctx, 300*time.Millisecond)
		}
		restore, err := hosttest.ReadOnly(ctx, l.storeDir())
		if err != nil {
			return err
		}
		r.logf("the store is read-only")
		err = l.whileReadOnly(ctx, step, before.Generation, r, next)
		if err := errors.Join(err, restore()); err != nil {
			return err
		}
		r.logf("the store is as it was")
		if step != "release" {
			if err := l.rotates(ctx, r); err != nil {
				return err
			}
		}
		if err := l.close(ctx, r); err != nil {
			return err
		}
		return l.follows(ctx, next)
	}
}

// whileReadOnly runs the part with the read-only store. A turn does not end
// meanwhile, because its transcript cannot be stored either.
func (l *loginRun) whileReadOnly(ctx context.Context, step string, before int64, r, next *run) error {
	if step != "save" {
		if err := l.rotatedOnHost(ctx, r); err != nil {
			return err
		}
	}
	if step == "release" {
		if err := r.signal(ctx, r.id, protocol.SignalClose, protocol.Close{By: "faults"}); err != nil {
			return err
		}
	}
	// At save the login may have been stored before the strike.
	saved := func(v protocol.SeedView) bool { return step == "save" && v.Generation > before }
	if err := l.notSaved(ctx, saved); err != nil {
		return err
	}
	if err := l.open(ctx, next); err != nil {
		return err
	}
	scenario.Sleep(ctx, 10*time.Second)
	l.stillThere(r)
	v, err := l.view(ctx)
	if err == nil && v.Rotated == nil && !saved(v) {
		l.res.Find(lostRotations, "the seed says that it is saved, and it cannot be")
	}
	if slices.Contains(v.HeldBy, next.id) || len(next.auth()) > 0 {
		l.res.Find(twoHolders, "%s", next.id+" got the seed while what was rotated was not saved")
	}
	return err
}

// storeTorn truncates the seed's blob: it must not be planted.
func storeTorn(ctx context.Context, l *loginRun) error {
	v, err := l.view(ctx)
	if err != nil {
		return err
	}
	var blob string
	_ = filepath.WalkDir(l.storeDir(), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(path, filepath.Base(v.Ref.Blob)) {
			blob = path
		}
		return nil
	})
	whole, err := os.ReadFile(blob)
	if err != nil {
		return err
	}
	if err := os.WriteFile(blob, whole[:len(whole)-len(whole)/3], 0o600); err != nil {
		return err
	}
	r := l.session("a")
	if err := l.open(ctx, r); err != nil {
		return err
	}
	_, err = r.until(ctx, r.id, "to fail", func(d protocol.SessionDetail) bool { return d.View.State == protocol.Failed && d.View.Error != nil })
	if auth := r.auth(); len(auth) > 0 {
		l.res.Find(wrong, "a torn seed was planted")
	}
	if err := errors.Join(err, os.WriteFile(blob, whole, 0o600)); err != nil {
		return err
	}
	return l.successor(ctx)
}
