package workflows

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// onRecord makes a seed's world keep records. Sessions and workers give its commands.
func (p *poolWorld) onRecord() {
	p.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.SeedID("team")})
	p.keeps(nil)
}

// credentialEvents returns the records that no command asked for.
func (p *poolWorld) credentialEvents() (all []string) {
	p.t.Helper()
	for _, r := range recorded(p.t, p.ledger.lines, p.head()) {
		if !strings.HasPrefix(r.Verb, "credential.") {
			continue
		}
		if r.Principal != "worker" || r.Source != "workflow" || r.Object != "seed/team" || r.Outcome != "accepted" {
			p.t.Errorf("the record is %+v", r)
		}
		all = append(all, r.Verb+": "+r.Reason)
	}
	return all
}

// costs checks how many activities wrote records: one for each command or event at most.
func (p *poolWorld) costs(most int) {
	p.t.Helper()
	if p.ledger.writes > most {
		p.t.Errorf("%d records cost %d events, want %d at most", len(p.ledger.lines), p.ledger.writes, most)
	}
}

func TestASavedLoginIsOnRecordOnce(t *testing.T) {
	p := newSeedWorld(t)
	p.onRecord()
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 100)) })
	for i := range 2 { // a repeat saves nothing
		p.at(time.Duration(i+2)*time.Second, func() { p.takes(p.send(protocol.UpdateSaveSeed, saves("a", 1, 1, "2"))) })
	}
	p.runSeed(time.Minute)
	sameLines(t, p.credentialEvents(), "credential.save: generation 2: codex of session a rotated the login")
	p.costs(2)
}

func TestALoginThatIsFetchedFromAHostIsOnRecord(t *testing.T) {
	p := newSeedWorld(t)
	p.onRecord()
	p.seeds.answers = []fetch{brings("2"), wipes}
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 100)) })
	p.at(2*time.Second, func() { p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 100}) })
	p.runSeed(time.Minute)
	sameLines(t, p.credentialEvents(), "credential.save: generation 2: codex of session a rotated the login, and it was fetched from host web-1")
	p.costs(2)
}

func TestADoubtAndItsEndAreOnRecordOnceEach(t *testing.T) {
	p := newSeedWorld(t)
	p.onRecord()
	began := p.Now().Add(time.Minute)
	report := func(verdict, why string) {
		p.SignalWorkflow(lease.SignalReport, lease.Report{Holder: "a", Epoch: 1, Verdict: verdict, Reason: why, Began: began})
	}
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 100)) })
	p.at(2*time.Second, func() { report(lease.VerdictAlive, "") }) // a healthy seed is nothing to tell
	p.at(3*time.Second, func() { report(lease.VerdictSuspect, "401") })
	p.at(4*time.Second, func() { report(lease.VerdictSuspect, "401 again") })
	p.at(time.Minute, func() { report(lease.VerdictAlive, "") })
	p.at(2*time.Minute, func() { report(lease.VerdictAlive, "") })
	p.runSeed(3 * time.Minute)
	sameLines(t, p.credentialEvents(), "credential.doubt: 401", "credential.revive: it was suspect: 401 again")
	p.costs(3)
}

func TestWhatAVerificationFindsIsOnRecord(t *testing.T) {
	p, _ := newVerifyWorld(t, []string{"unknown", "unknown"}, []string{"dead", "login 2"})
	p.onRecord()
	p.at(time.Minute, func() { p.takes(p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{})) })
	p.at(2*time.Minute, func() { p.takes(p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{})) }) // its issuer is not asked again
	p.at(3*time.Minute, func() { p.takes(p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{Force: true})) })
	p.runSeed(4 * time.Minute)
	sameLines(t, p.credentialEvents(), "credential.dead: because it is dead", "credential.save: generation 2: its issuer refreshed the login",
		"credential.revive: it was dead: because it is dead")
	// An import and three verifications, whose commands are on record, and what two of these found.
	p.costs(6)
	records := says(recorded(t, p.ledger.lines, p.head()))
	if n := len(slices.DeleteFunc(records, func(s string) bool { return !strings.Contains(s, "seed.write") })); n != 4 {
		t.Errorf("%d commands are on record: %q", n, records)
	}
}

// A lost login is on record as the doubt that it causes.
func TestALoginThatIsLostIsOnRecord(t *testing.T) {
	p := newSeedWorld(t)
	p.onRecord()
	p.seeds.answers = []fetch{findsNothing}
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 100)) })
	p.at(2*time.Second, func() {
		p.takes(p.send(protocol.UpdateRotatedSeed, inquiry.RotatedSeed{Holder: "a", Epoch: 1, Auth: "auth2"}))
	})
	p.at(3*time.Second, func() { p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 100}) })
	p.at(time.Minute, func() { p.takes(p.send(protocol.UpdateReviveSeed, protocol.ReviveSeed{})) })
	p.runSeed(2 * time.Minute)
	sameLines(t, p.credentialEvents(), fmt.Sprintf("credential.doubt: codex of session %s rotated the login, and it was neither saved nor is it on %s any more", "a", "web-1"))
	p.costs(3) // the revival is a command
}
