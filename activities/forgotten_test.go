package activities

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.temporal.io/api/serviceerror"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/internal/protocol"
)

// asked returns what the seed's workflow answers when a pool cleans up.
func (d *fakeDesk) asked(ctx context.Context, name string) (inquiry.SeedNow, bool, error) {
	now, err := d.Now(ctx, name)
	return now, true, err
}

func noWorkflow(context.Context, string) (inquiry.SeedNow, bool, error) {
	return inquiry.SeedNow{}, false, nil
}

// The workflow of a seed was terminated and started anew, so it does not know an older
// lease. This is no reason to wipe a login that codex rotated under that lease.
func TestALoginWhoseLeaseIsForgottenIsSavedOrStays(t *testing.T) {
	b := newBed(t, readyHost(t))
	for name, c := range map[string]struct {
		holders map[string]int64
		noRef   bool
		gone    bool // the seed has no workflow
		same    bool // codex did not rotate the login
		discard bool
		saved   bool
		wiped   bool
	}{
		"free":         {saved: true, wiped: true},
		"held":         {holders: map[string]int64{"other": 101}},
		"held-anew":    {holders: map[string]int64{"forgot-held-anew": 101}},
		"empty":        {noRef: true},
		"gone":         {gone: true},
		"gone-same":    {gone: true, same: true, wiped: true},
		"held-same":    {holders: map[string]int64{"other": 101}, same: true, wiped: true},
		"anew-same":    {holders: map[string]int64{"forgot-anew-same": 101}, same: true, wiped: true},
		"held-dropped": {holders: map[string]int64{"other": 101}, discard: true, wiped: true},
		"gone-dropped": {gone: true, discard: true, wiped: true},
		"free-dropped": {discard: true, saved: true, wiped: true},
	} {
		k, d := b.held("forgot-"+name, nil)
		d.at.First, d.at.Holders = 100, c.holders
		if c.noRef {
			d.at.Ref, d.at.Auth, d.at.Generation = nil, "", 0
		}
		n := 1
		if c.same {
			n = 0
		}
		k.rewrite(login("acct-1", n))
		ask := d.asked
		if c.gone {
			ask = noWorkflow
			d.before = func(context.Context, string) error { return serviceerror.NewNotFound("no workflow") }
		}
		// The pool knows the session's newest lease. The folder names the lease under
		// which its login was planted.
		in := k.leave(c.discard)
		out, err := k.wipe(in, ask)
		if c.wiped != out.Wiped || c.wiped != (err == nil) {
			t.Errorf("%s: wiped %+v, %v", name, out, err)
		}
		if !c.wiped && (kindOfError(err) != protocol.ErrTypeLoginUnsaved || k.authOnHost() != login("acct-1", 1)) {
			t.Errorf("%s: %v; the host has %q", name, err, k.authOnHost())
		}
		if given := c.wiped && !c.saved && !c.same; out.GivenUp != given {
			t.Errorf("%s: given up: %v", name, out.GivenUp)
		}
		if c.saved {
			k.savedIs(d, 1)
		} else if got := d.took(); got != "" {
			t.Errorf("%s: the seed was told: %s", name, got)
		}
		if c.wiped {
			continue
		}
		// Nobody holds the seed any more, and its login is older than the one on the
		// host, which is therefore saved.
		ref := *k.seed
		d.before = nil
		d.at.Ref, d.at.Auth, d.at.Generation, d.at.Holders = &ref, digest(login("acct-1", 0)), 1, nil
		in.Claim.Pump++
		if out, err := k.wipe(in, d.asked); err != nil || !out.Wiped || out.GivenUp {
			t.Errorf("%s: wiped later: %+v, %v", name, out, err)
		}
		k.savedIs(d, 1)
	}
}

// A login that another seed's forgotten lease left in the folder is not removed by
// a session that comes with a new seed.
func TestASessionThatComesInWithAnotherSeedKeepsAForgottenLogin(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("forgot-in", nil)
	d.at.First, d.at.Holders = 100, map[string]int64{"other": 101}
	k.rewrite(login("acct-1", 1))
	f, err := folder.LookFolder(t.Context(), k.host(), k.layout.Dir)
	if err != nil {
		t.Fatal(err)
	}
	now := d.state()
	if _, err := places.LoginLeft(t.Context(), b.set.Place.Site, k.host(), k.layout, "forgot-in", f.Mark.Login(), &now); !places.IsUnsaved(err) {
		t.Errorf("the login may go: %v", err)
	}
}

// A session that closes or parks saves a login of a lease that its seed does not know.
// Only then does it wipe the login.
func TestAClosingSessionSavesALoginWhoseLeaseIsForgotten(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("forgot-close", nil)
	d.at.First, d.at.Holders = 100, map[string]int64{"other": 101}
	k.rewrite(login("acct-1", 1))
	in := k.closing()
	if out, err := k.close(in); !places.IsUnsaved(err) || out.Wiped || k.authOnHost() != login("acct-1", 1) {
		t.Errorf("closed while another session holds the seed: %+v, %v", out, err)
	}
	d.at.Ref, d.at.Holders = nil, nil
	if out, err := k.close(in); !places.IsUnsaved(err) || out.Wiped || k.authOnHost() != login("acct-1", 1) {
		t.Errorf("closed while the seed has no content: %+v, %v", out, err)
	}
	d.at.Ref = k.seed
	if out, err := k.close(in); err != nil || !out.Wiped {
		t.Errorf("closed: %+v, %v", out, err)
	}
	k.savedIs(d, 1)

	k, d = b.held("forgot-drop", nil)
	d.at.First, d.at.Holders = 100, map[string]int64{"other": 101}
	k.rewrite(login("acct-1", 1))
	in = k.closing()
	in.Discard = true
	if out, err := k.close(in); err != nil || !out.Wiped || !out.Unsaved {
		t.Errorf("discarded: %+v, %v", out, err)
	}

	for id, before := range map[string]func(context.Context, string) error{
		"forgot-out": nil,
		"forgot-all": func(context.Context, string) error { return serviceerror.NewNotFound("no workflow") },
	} {
		k, d = b.held(id, nil)
		d.at.First, d.at.Holders, d.before = 100, map[string]int64{"other": 101}, before
		k.sh(`rm -f "$1/auth.json"`, k.layout.CodexHome)
		if out, err := k.close(k.closing()); err != nil || !out.Wiped {
			t.Errorf("%s: closed with no login on the host: %+v, %v", id, out, err)
		}
	}
}

// A seed takes no login of an unknown lease (epoch 0). The hint names the ways in which
// a person can deal with such a login, and each of them works.
func TestALoginOfAnUnknownLeaseSaysWhatAPersonCanDo(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("forgot-epoch", nil)
	d.at.First, d.at.Holders = 100, nil
	k.rewrite(login("acct-1", 1))
	planted := &protocol.SeedRef{Name: k.seed.Name}
	// No workflow of a seed takes a login under epoch 0.
	d.before = func(_ context.Context, what string) error {
		if what == "rotated" || what == "save" {
			return kit.ErrSeedFenced
		}
		return nil
	}
	left := func(now *inquiry.SeedNow) (bool, error) {
		return places.LoginLeft(t.Context(), b.set.Place.Site, k.host(), k.layout, "forgot-epoch", planted, now)
	}
	free, held := d.state(), d.state()
	held.Holders = map[string]int64{"forgot-epoch": 101}
	heldAnew := places.HeldAnew(t.Context(), b.set.Place.Site, k.host(), k.layout, "forgot-epoch", planted, &held)
	_, unsaved := left(&free)
	_, noSeed := left(nil)
	for name, err := range map[string]error{"free": unsaved, "held anew": heldAnew, "no seed": noSeed} {
		var typed *kit.TypedError
		if !places.IsUnsaved(err) || !errors.As(err, &typed) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if h := typed.Hint; strings.Contains(h, "as soon as") || !strings.Contains(h, "`ctl seed import "+planted.Name) ||
			!strings.Contains(h, "`ctl seed revive "+planted.Name) || !strings.Contains(h, "--discard") {
			t.Errorf("%s: the hint is %q", name, h)
		}
	}

	imported := free
	imported.Auth = digest(login("acct-1", 1))
	if givenUp, err := left(&imported); givenUp || err != nil {
		t.Errorf("after the login was imported: given up %v, %v", givenUp, err)
	}
	revived := free
	revived.First = 0
	if givenUp, err := left(&revived); !givenUp || err != nil {
		t.Errorf("after the seed was revived: given up %v, %v", givenUp, err)
	}
	known := *planted
	known.Epoch = 7
	planted, held.Holders = &known, map[string]int64{"other": 101}
	d.at.Holders = held.Holders
	var typed *kit.TypedError
	if _, err := left(&held); !errors.As(err, &typed) || !strings.Contains(typed.Hint, "is saved as soon as") {
		t.Errorf("of a known lease: %v", err)
	}
}
