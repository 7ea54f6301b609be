package activities

import (
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/places"
)

// A login that codex rotated under a lost lease is saved to the seed before
// anything is planted under the session's new lease.
func TestALoginOfALostLeaseIsSavedUnderTheNewOne(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("anew", nil)
	k.rewrite(login("acct-1", 1))
	// The seed's workflow was started anew, with the login that was first imported.
	d.at.Holders = map[string]int64{"anew": 9}
	seed := *k.seed
	seed.Epoch = 9
	in := places.PrepareSessionInput{Claim: k.next(), Seed: &seed, Sandbox: "workspace-write"}
	for range 2 { // an attempt after a kill repeats this
		if _, err := b.prepare(in); err != nil {
			t.Fatal(err)
		}
		k.savedIs(d, 1)
		if k.authOnHost() != login("acct-1", 1) {
			t.Error("the login on the host is not the one that was saved")
		}
	}
	if got := d.took(); got != "rotated, save" {
		t.Errorf("the seed was told: %s", got)
	}
	f, err := folder.LookFolder(t.Context(), k.host(), k.layout.Dir)
	if err != nil || !f.Prepared || f.Mark.Seed == nil || f.Mark.Seed.Epoch != 9 || f.Mark.Seed.Generation != 2 {
		t.Errorf("the folder is marked with %+v, %v", f.Mark.Seed, err)
	}
}

// A login that cannot be saved stays on the host, and nothing is planted over it.
func TestALoginOfAnotherAccountIsNotPlantedOver(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("anew-other", nil)
	other := login("acct-2", 1)
	k.rewrite(other)
	d.at.Holders = map[string]int64{"anew-other": 9}
	seed := *k.seed
	seed.Epoch = 9
	_, err := b.prepare(places.PrepareSessionInput{Claim: k.next(), Seed: &seed, Sandbox: "workspace-write"})
	if err == nil || k.authOnHost() != other || d.state().Generation != 1 {
		t.Errorf("prepared: %v; the seed is at generation %d", err, d.state().Generation)
	}
}
