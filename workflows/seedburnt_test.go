package workflows

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// If somebody else may have used a refresh token, the seed uses it only if a person says
// so, even after a turn that worked.
func TestALoginThatMayBeSpentIsNotUsedWithoutAPersonsWord(t *testing.T) {
	p, f := newVerifyWorld(t, []string{"unknown", "unknown"}, []string{"unknown", "login 2"})
	p.at(time.Second, func() {
		p.takes(p.send(protocol.UpdateExportSeed, protocol.ExportSeed{By: "ann@desk", Recipient: "age1qqq"}))
	})
	var asked, forced *updated
	p.at(2*time.Second, func() { asked = p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{By: "ann"}) })
	p.once("the answer", func() bool { return asked != nil && asked.result != nil }, func() {
		if v := p.seed(); v.Health != protocol.Suspect || v.Generation != 1 {
			t.Errorf("seed is %+v", v)
		}
		forced = p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{By: "ann", Force: true})
	})
	p.once("the answer to force", func() bool { return forced != nil && forced.result != nil }, func() {
		if v := p.seed(); v.Health != protocol.Healthy || v.Generation != 2 {
			t.Errorf("seed is %+v", v)
		}
	})
	p.runSeed(time.Minute)
	if in := f.refreshed; len(in) != 2 || !in[0].Look || in[1].Look || in[1].Force == "" {
		t.Errorf("refreshed %+v", in)
	}
}

func TestATurnSaysNothingOfARefreshTokenThatMayBeSpent(t *testing.T) {
	p, _ := newVerifyWorld(t, nil, []string{"lost"})
	a := on("a", "web-1", 1)
	a.Brokered = true
	p.at(time.Second, func() { p.acquires(a, on("b", "web-2", 1)) })
	p.at(2*time.Second, func() {
		p.send(protocol.UpdateRefreshSeed, inquiry.RefreshSeed{Holder: "a", Epoch: 1, From: 1})
	})
	p.once("it was lost", func() bool { return p.seed().Health == protocol.Suspect }, func() {
		p.SignalWorkflow(lease.SignalReport, lease.Report{Holder: "a", Epoch: 1, Verdict: lease.VerdictAlive, Began: p.Now().Add(time.Hour)})
		p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 1, Clean: true, Proven: p.Now().Add(time.Hour)})
	})
	p.at(30*time.Second, func() {
		if v := p.seed(); v.Health != protocol.Suspect || len(v.HeldBy) != 0 || v.Queue != 1 {
			t.Errorf("a turn has cleared it: %+v", v)
		}
	})
	p.runSeed(time.Minute)
}

func TestAnOlderLoginIsNotImportedOverWhatItBecame(t *testing.T) {
	p := newSeedWorld(t)
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 1)) })
	p.at(2*time.Second, func() {
		p.takes(p.send(protocol.UpdateSaveSeed, saves("a", 1, 1, "2")))
		p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 1, Clean: true})
	})
	p.at(3*time.Second, func() {
		p.refuses(p.send(protocol.UpdatePutSeed, login("1")), protocol.RefusedState)
		if v := p.seed(); v.Generation != 2 {
			t.Errorf("seed is %+v", v)
		}
		forced := login("1")
		forced.Force = true
		p.takes(p.send(protocol.UpdatePutSeed, login("2")))
		p.takes(p.send(protocol.UpdatePutSeed, forced))
	})
	p.runSeed(4 * time.Second)
}

// If the worker keeps the login, there is nothing to fetch from the session's host.
func TestABrokersSeedIsFreeWhenItsSessionHasEnded(t *testing.T) {
	p := newSeedWorld(t)
	a := on("a", "web-1", 1)
	a.Brokered = true
	p.at(time.Second, func() { p.acquires(a, on("b", "web-2", 1)) })
	p.at(2*time.Second, func() { p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 1}) }) // not clean, but the host never had the login
	p.at(3*time.Second, func() {
		if v := p.seed(); strings.Join(v.HeldBy, "") != "b" {
			t.Errorf("seed is %+v", v)
		}
	})
	p.runSeed(4 * time.Second)
}

func TestADeadLoginIsNotAskedForAgain(t *testing.T) {
	p, f := newVerifyWorld(t, nil, []string{"dead"})
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 1)) })
	var answers []*updated
	for _, m := range []time.Duration{1, 2} {
		p.at(m*time.Minute, func() {
			answers = append(answers, p.send(protocol.UpdateRefreshSeed, inquiry.RefreshSeed{Holder: "a", Epoch: 1, From: 1}))
		})
	}
	p.runSeed(3 * time.Minute)
	for _, u := range answers {
		var app *temporal.ApplicationError
		if !errors.As(u.err, &app) || app.Type() != protocol.RefusedDead {
			t.Errorf("answered %v", u.err)
		}
	}
	if len(f.refreshed) != 1 || len(answers) != 2 {
		t.Errorf("refreshed %+v for %d", f.refreshed, len(answers))
	}
}
