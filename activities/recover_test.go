package activities

import (
	"errors"
	"net"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// recover runs the activity as the seed's workflow would.
func (k *talk) recover(seed *protocol.SeedRef) (inquiry.RecoverSeedResult, error) {
	claim := k.claim
	claim.Generation++
	k.t.Cleanup(func() { k.claim = claim })
	hide, err := site.Hiding(k.t.Context(), k.set.site, seed)
	if err != nil {
		return inquiry.RecoverSeedResult{}, err
	}
	return logins.RecoverSeed(k.t.Context(), k.set.site, inquiry.RecoverSeedInput{Seed: *seed, Claim: claim}, 1, hide)
}

// The holder has ended after codex rotated the login. The login is in the store before
// it is wiped, even if workers are killed in between. The work stays.
func TestALoginIsRecoveredBeforeItIsWiped(t *testing.T) {
	model := scriptedmodel.Serve(t, `rules: []`)
	b := newBed(t, readyHost(t))
	k := b.prepared("found", "", "workspace-write", b.rotating(model, "found", 3))
	k.start()
	k.rewrite(login("acct-1", 1))
	b.sh(`echo mine >"$1/kept"`, k.layout.WorkDir)

	var saved *protocol.SeedRef
	for range 3 { // killed before its answer arrived
		out, err := k.recover(k.seed)
		if err != nil || out.Saved == nil || out.Wiped || out.Absent {
			t.Fatalf("recovered: %+v, %v", out, err)
		}
		if saved != nil && *saved != *out.Saved {
			t.Errorf("again it is %+v, before %+v", out.Saved, saved)
		}
		saved = out.Saved
		if out.Auth != seeds.AuthDigest([]byte(login("acct-1", 1))) || len(out.Files) != 3 {
			t.Errorf("recovered: %+v", out)
		}
	}
	if got := b.authIn(saved); got != login("acct-1", 1) {
		t.Error("what was saved is not what the host had")
	}
	if marked("found") != 0 {
		t.Error("codex may still refresh: it runs")
	}
	if k.authOnHost() == "" {
		t.Fatal("it was wiped before anybody counts on what was saved")
	}
	for range 2 {
		out, err := k.recover(saved)
		if err != nil || !out.Wiped || out.Saved != nil {
			t.Fatalf("then: %+v, %v", out, err)
		}
	}
	if k.authOnHost() != "" {
		t.Error("the credential is still there")
	}
	if b.sh(`cat "$1/kept"`, k.layout.WorkDir) != "mine\n" {
		t.Error("the work is gone")
	}
	// The old holder goes on late.
	if _, err := k.close(k.closing()); !errors.Is(err, hostexec.ErrFenced) {
		t.Errorf("the former holder's close: %v", err)
	}
}

// A login that cannot follow the seed's is neither saved nor wiped.
func TestWhatIsNoLaterLoginIsNotRecoveredAndNotWiped(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.prepared("odd", "", "workspace-write", b.rotating(nil, "odd", 1))
	whole := login("acct-1", 1)
	for name, text := range map[string]string{
		"torn": whole[:len(whole)/2], "empty": "", "another account": login("acct-2", 1),
		"an API key": `{"auth_mode":"apikey","OPENAI_API_KEY":"sk-made-up-of-somebody"}`,
	} {
		k.rewrite(text)
		out, err := k.recover(k.seed)
		var why *kit.Unsavable
		if !errors.As(err, &why) || out.Wiped || out.Saved != nil {
			t.Errorf("%s: %+v, %v", name, out, err)
			continue
		}
		noToken(t, name, err.Error())
		if there := b.sh(`[ -e "$1/auth.json" ] && echo y`, k.layout.CodexHome); there != "y\n" {
			t.Errorf("%s: it was wiped", name)
		}
	}
	for name, text := range map[string]string{"earlier": login("acct-1", -1), "the seed's": login("acct-1", 0), "logged out": `{"auth_mode":"chatgpt","tokens":null}`} {
		k.rewrite(text)
		if out, err := k.recover(k.seed); err != nil || !out.Wiped || out.Saved != nil {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	b.sh(sweep, k.layout.Dir)
	if out, err := k.recover(k.seed); err != nil || !out.Absent || !out.Wiped {
		t.Errorf("with nothing there: %+v, %v", out, err)
	}
	if left := b.sh(`[ ! -e "$1" ] || find "$1"`, k.layout.Dir); left != "" {
		t.Errorf("looking has made %s", left)
	}
}

// A login on a host that cannot be reached is not given up.
func TestALoginOnAHostThatIsAwayIsNotGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
	spec.Name, spec.Port = "away", l.Addr().(*net.TCPAddr).Port
	l.Close()
	b := newBed(t, spec)
	ref := b.rotating(nil, "away", 1)
	hide, err := site.Hiding(t.Context(), b.set.site, ref)
	if err != nil {
		t.Fatal(err)
	}
	out, err := logins.RecoverSeed(t.Context(), b.set.site, inquiry.RecoverSeedInput{Seed: *ref, Claim: protocol.Claim{Session: "away", Host: b.spec, Generation: 2}}, 1, hide)
	if err == nil || out.Absent || out.Wiped {
		t.Errorf("recovered: %+v, %v", out, err)
	} else if !strings.Contains(err.Error(), "away") {
		t.Errorf("the error does not say where: %v", err)
	}
}
