package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/protocol"
)

// seedSteps: the session asks for the seed, it is planted, codex rotates it,
// the rotation is saved, the seed is given back.
var seedSteps = []string{"acquire", "plant", "rotate", "save", "release"}

var seedRows = func() []row {
	var out []row
	short := map[string]bool{"worker killed, save": true, "codex killed, rotate": true, "TCP reset, plant": true, "host rebooted, save": true}
	for _, f := range []*fault{faultOf("worker killed"), faultOf("codex killed"), faultOf("host rebooted"), faultOf("TCP reset")} {
		for _, step := range seedSteps {
			out = append(out, row{f.name, step, short[f.name+", "+step], ofSeed(struckAt(f, step))})
		}
	}
	return append(out,
		row{"two sessions race", "acquire", true, ofSeed(race)},
		row{"an old holder wakes up", "save", true, ofSeed(oldHolder)},
		row{"the store is away for 10 s", "save", true, ofSeed(storeAway)},
		row{"the store is slow to write", "save", false, ofSeed(storeSlow("save"))},
		row{"the store is slow to write", "release", true, ofSeed(storeSlow("release"))},
		row{"the store is read-only for 10 s", "rotate", false, ofSeed(storeReadOnly("rotate"))},
		row{"the store is read-only for 10 s", "save", false, ofSeed(storeReadOnly("save"))},
		row{"the store is read-only for 10 s", "release", true, ofSeed(storeReadOnly("release"))},
		row{"the store returns a torn object", "acquire", false, ofSeed(storeTorn)},
		row{"token endpoint: 429", "rotate", true, ofSeed(issuerFails("rate_limited"))},
		row{"token endpoint: 500", "rotate", false, ofSeed(issuerFails("server_error"))},
		row{"token endpoint: no answer", "rotate", false, ofSeed(issuerFails("drop"))},
	)
}()

func faultOf(name string) *fault {
	for _, f := range faults {
		if f.name == name {
			return f
		}
	}
	panic("there is no fault " + name)
}

// struckAt brings a session to a step and lets the fault strike there. The
// session then continues, rotates once more, and is closed.
func struckAt(f *fault, step string) func(context.Context, *loginRun) error {
	return func(ctx context.Context, l *loginRun) error {
		r := l.session("a")
		var err error
		switch step {
		case "acquire", "plant":
			err = l.atStart(ctx, r, f, step)
		case "rotate":
			err = l.atRotation(ctx, r, f)
		case "save":
			err = l.atSave(ctx, r, f)
		case "release":
			err = l.atRelease(ctx, r, f)
		}
		if err != nil {
			return err
		}
		if step != "release" {
			if err := l.goesOn(ctx, r); err != nil {
				return err
			}
			if err := l.rotates(ctx, r); err != nil {
				return err
			}
		}
		if err := l.close(ctx, r); err != nil {
			return err
		}
		return l.successor(ctx)
	}
}

func (l *loginRun) atStart(ctx context.Context, r *run, f *fault, step string) error {
	if err := l.open(ctx, r); err != nil {
		return err
	}
	if step == "plant" {
		if err := again(ctx, "the folder of "+r.id, func(context.Context) error { _, err := os.Stat(r.dir()); return err }); err != nil {
			return err
		}
	}
	r.pause(ctx, 400*time.Millisecond)
	return l.strike(ctx, r, f)
}

// atRotation strikes while the issuer holds the request. If the fault ends
// codex, the issuer has not rotated yet: a rotation that reached nobody cannot
// be saved.
func (l *loginRun) atRotation(ctx context.Context, r *run, f *fault) error {
	if err := l.begun(ctx, r); err != nil {
		return err
	}
	kind := "held"
	if f.ends {
		kind = "hang"
	}
	l.issuer.Fail(scriptedauth.Fault{Kind: kind})
	l.issuer.Expire("")
	if err := r.send(ctx, "hello, rotate"); err != nil {
		return err
	}
	if err := l.awaitHolding(ctx); err != nil {
		return err
	}
	r.pause(ctx, 200*time.Millisecond)
	err := l.strike(ctx, r, f)
	l.issuer.Release()
	return err
}

func (l *loginRun) awaitHolding(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scenario.Patience)
	defer cancel()
	return l.issuer.AwaitHolding(ctx, 1)
}

// atSave strikes when the new login is on the host's disk.
func (l *loginRun) atSave(ctx context.Context, r *run, f *fault) error {
	if err := l.begun(ctx, r); err != nil {
		return err
	}
	if err := l.rotatedOnHost(ctx, r); err != nil {
		return err
	}
	r.pause(ctx, 300*time.Millisecond)
	return l.strike(ctx, r, f)
}

func (l *loginRun) rotatedOnHost(ctx context.Context, r *run) error {
	before := l.issuer.Newest(l.first).Refresh
	l.issuer.Expire("")
	if err := r.send(ctx, "hello, rotate"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, scenario.Patience)
	defer cancel()
	for ctx.Err() == nil {
		if now := refreshIn(r.auth()); now != "" && now != before {
			r.logf("the new login is on the host")
			return nil
		}
		scenario.Sleep(ctx, 5*time.Millisecond)
	}
	return fmt.Errorf("codex of %s rotated nothing", r.id)
}

func (l *loginRun) atRelease(ctx context.Context, r *run, f *fault) error {
	if err := l.begun(ctx, r); err != nil {
		return err
	}
	if err := l.rotates(ctx, r); err != nil {
		return err
	}
	if err := r.signal(ctx, r.id, protocol.SignalClose, protocol.Close{By: "faults"}); err != nil {
		return err
	}
	r.pause(ctx, 600*time.Millisecond)
	if f.name == "codex killed" {
		r.signalCodex(9) // it may have exited
		return nil
	}
	if err := l.strike(ctx, r, f); err != nil && f.name != "TCP reset" { // perhaps nobody is connected any more
		return err
	}
	return nil
}

// race lets two sessions, each of which rotates, ask for the seed at once.
func race(ctx context.Context, l *loginRun) error {
	both := []*run{l.session("a"), l.session("b")}
	return each(both, func(r *run) error {
		r.pause(ctx, 300*time.Millisecond)
		if err := l.begun(ctx, r); err != nil {
			return err
		}
		if err := l.rotates(ctx, r); err != nil {
			return err
		}
		return l.close(ctx, r)
	})
}

// oldHolder lets a session that gave the seed back try to save its own version.
func oldHolder(ctx context.Context, l *loginRun) error {
	a, b := l.session("a"), l.session("b")
	if err := l.begun(ctx, a); err != nil {
		return err
	}
	held, err := l.view(ctx)
	if err != nil {
		return err
	}
	if err := l.close(ctx, a); err != nil {
		return err
	}
	if err := l.begun(ctx, b); err != nil {
		return err
	}
	for _, holder := range []string{a.id, b.id} { // also in the name of the new holder, with the old epoch
		before, err := l.view(ctx)
		if err != nil {
			return err
		}
		ref := *before.Ref
		err = l.update(ctx, protocol.UpdateSaveSeed, inquiry.SaveSeed{Holder: holder, Epoch: held.Epoch, From: before.Generation,
			Auth: strings.Repeat("0", 64), Ref: ref})
		if err == nil {
			l.res.Find(twoHolders, "an old holder (epoch %d, now %d) saved as %s", held.Epoch, before.Epoch, holder)
		} else if !strings.Contains(err.Error(), "hold") {
			return fmt.Errorf("the old holder was refused with %w", err)
		}
		if after, err := l.view(ctx); err != nil || after.Generation != before.Generation {
			return fmt.Errorf("the generation was %d and is %d (%v)", before.Generation, after.Generation, err)
		}
	}
	if err := l.rotates(ctx, b); err != nil {
		return err
	}
	return l.close(ctx, b)
}

// issuerFails makes the token endpoint fail in this way, and then work again.
func issuerFails(kind string) func(context.Context, *loginRun) error {
	return func(ctx context.Context, l *loginRun) error {
		r := l.session("a")
		if err := l.begun(ctx, r); err != nil {
			return err
		}
		l.issuer.Fail(scriptedauth.Fault{Kind: kind, Times: -1})
		l.issuer.Expire("")
		if err := r.send(ctx, "hello, rotate"); err != nil {
			return err
		}
		t, err := r.turn(ctx, len(r.said))
		if err != nil {
			return err
		}
		if t.Status == "completed" {
			return fmt.Errorf("the turn is %s, and nothing was rotated", t.Status)
		}
		if v, err := l.view(ctx); err != nil || v.Health == "dead" {
			l.res.Find(deadMarks, "after %s the seed is %s (%s)", kind, v.Health, v.Reason)
		}
		l.issuer.Mend()
		if err := l.rotates(ctx, r); err != nil {
			return err
		}
		return l.close(ctx, r)
	}
}
