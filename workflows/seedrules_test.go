package workflows

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

// followedBy returns the children that a session started, as "rule of id: prompt".
func (w *world) followedBy() (all []string) {
	for _, in := range w.children {
		all = append(all, untagged(w.t, in.ID)+": "+in.First.Text)
	}
	return all
}

// ruled returns the rules that a session shows, each with where it is from and why it is not
// used.
func ruled(v protocol.SessionView) (all []string) {
	for _, r := range v.Rules {
		all = append(all, strings.TrimSuffix(r.Name+" "+r.From+" "+r.Off, " "))
	}
	return all
}

func TestRulesOfTheSeedComeBeforeTheSessionsAndTheSessionsRuleTakesThePlaceOfTheSeeds(t *testing.T) {
	w := newWorld(t)
	w.fake.rules = []protocol.FollowUp{
		{Name: "learn", Prompt: "the seed's learn", Turns: 1, Seed: "cheap"},
		{Name: "review", Prompt: "the seed's review", Turns: 1},
		{Name: "files", Prompt: "the seed's files", Files: []string{"*.sql"}},
	}
	w.fake.pumps = append(w.fake.pumps, touches(0, "files"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("the turn is kept", func() bool { return len(w.view().FollowUps) == 4 }, func() {
		w.SignalWorkflow(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Seed: "team", FollowUps: []protocol.FollowUp{{Name: "own", Prompt: "own", Turns: 1}, {Name: "review", Prompt: "own review", Turns: 1}}})
	want := []string{"s1-learn-1: the seed's learn", "s1-files-2: the seed's files", "s1-own-3: own", "s1-review-4: own review"}
	if got := w.followedBy(); !slices.Equal(got, want) {
		t.Errorf("started were %q, want %q", got, want)
	}
	if w.children[0].Options.Seed != "cheap" || w.children[2].Options.Seed != "team" {
		t.Errorf("they have the seeds %q and %q", w.children[0].Options.Seed, w.children[2].Options.Seed)
	}
	want = []string{"learn seed/team", "review seed/team the session has a rule of this name", "files seed/team", "own session", "review session"}
	if got := ruled(w.lastView()); !slices.Equal(got, want) {
		t.Errorf("shown are %q, want %q", got, want)
	}
	if in := w.fake.ran[0].Pump.Watched; len(in) != 1 || in[0].Name != "files" {
		t.Errorf("the pump watches %+v", in)
	}
}

func TestRulesOfTheSeedDoNotApplyToWhatASessionBeganNorWithoutSnapshots(t *testing.T) {
	for what, c := range map[string]struct {
		opt session.Options
		off string
	}{
		"a follow-up":  {session.Options{Origin: protocol.OriginSession("s0")}, "another session began this one"},
		"a child":      {session.Options{Origin: protocol.OriginParent("s0")}, "another session began this one"},
		"no snapshots": {session.Options{Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotOff}}, "the session takes no snapshots"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.fake.rules = []protocol.FollowUp{{Name: "review", Prompt: "review it", Turns: 1}}
			w.fake.pumps = append(w.fake.pumps, touches(1))
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.whenTurn(1, "completed", func() { w.SignalWorkflow(protocol.SignalClose, protocol.Close{}) })
			c.opt.Seed = "team"
			w.start(c.opt)
			if err := w.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			if got, want := ruled(w.lastView()), []string{"review seed/team " + c.off}; !slices.Equal(got, want) || len(w.children) > 0 {
				t.Errorf("started were %q, and shown %q, want %q", w.followedBy(), got, want)
			}
		})
	}
}

// A session that comes to a host again has the rules of the generation that it then holds.
func TestRulesOfAnotherGenerationApplyOnceTheSessionComesToAHostAgain(t *testing.T) {
	w := newWorld(t)
	w.fake.rules = []protocol.FollowUp{{Name: "first", Prompt: "first", Turns: 1}, {Name: "third", Prompt: "third", Turns: 3}}
	w.fake.pumps = append(w.fake.pumps, touches(0))
	w.fake.rest = touches(0)
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("the first follow-up", func() bool { return len(w.view().FollowUps) == 1 }, func() {
		w.fake.mu.Lock()
		defer w.fake.mu.Unlock()
		w.fake.rules = []protocol.FollowUp{{Name: "third", Prompt: "third anew", Turns: 2}}
		w.send(protocol.SignalPark, protocol.Park{})
	})
	parked := func(turn int) func() bool {
		return func() bool { v := w.view(); return v.State == protocol.Parked && v.Turn.N == turn }
	}
	w.once("it is parked", parked(1), func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.once("the second follow-up", func() bool { return len(w.view().FollowUps) == 2 }, func() {
		w.fake.mu.Lock()
		defer w.fake.mu.Unlock()
		w.fake.rules = nil
		w.send(protocol.SignalPark, protocol.Park{})
	})
	w.once("it is parked again", parked(2), func() { w.send(protocol.SignalMessage, hello("m3")) })
	w.whenTurn(3, "completed", func() { w.send(protocol.SignalMessage, hello("m4")) })
	w.whenTurn(4, "completed", func() { w.SignalWorkflow(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{Seed: "team"})
	if got, want := w.followedBy(), []string{"s1-first-1: first", "s1-third-2: third anew"}; !slices.Equal(got, want) {
		t.Errorf("started were %q, want %q", got, want)
	}
	if v := w.lastView(); len(v.Rules) != 0 {
		t.Errorf("shown are %+v", v.Rules)
	}
}

// What a rule of the seed starts counts for the owner of the session, whom the session keeps
// before it knows of any rule.
func TestWhatARuleOfTheSeedStartsIsForTheOwner(t *testing.T) {
	const may = "  - {name: all, roles: [operator, seed-admin], to: [ann]}\n"
	w := newWorld(t)
	w.guard(may, "ann")
	w.answers = []poolAnswer{{Granted: lease.Granted{Queued: "a host"}}}
	w.at(time.Second, func() { w.fill() })
	w.startBy("ann", session.Options{Seed: "team"})
	in := carriedAs[session.Input](t, w.continued())
	if f := in.Carry.Follow; f.Owner != "ann" || f.Rules != nil {
		t.Errorf("the next run has %+v", f)
	}

	w = newWorld(t)
	w.guard(may, "ann")
	w.fake.rules = []protocol.FollowUp{{Name: "review", Prompt: "review it", Turns: 1}}
	w.fake.pumps = append(w.fake.pumps, touches(1))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, w.by("ann", protocol.SignalMessage, hello("m1"))) })
	w.once("the follow-up", func() bool { return len(w.view().FollowUps) == 1 }, func() {
		w.SignalWorkflow(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{}))
	})
	w.startBy("ann", session.Options{Seed: "team"})
	if len(w.children) != 1 || w.children[0].Judged != "ann" {
		t.Errorf("started were %+v", w.children)
	}
}

func TestASeedShowsTheRulesOfItsNewestBundle(t *testing.T) {
	p, _ := newVerifyWorld(t, []string{"fresh"}, nil)
	rules := []protocol.SeedFollowUp{{Name: "review", When: "after each turn"}, {Name: "learn", When: "after each 3 turns", Seed: "pool cheap"}}
	shows := func(want []protocol.SeedFollowUp) {
		t.Helper()
		if v := p.seed(); !slices.Equal(v.FollowUps, want) {
			t.Errorf("its rules are %+v, want %+v", v.FollowUps, want)
		}
	}
	p.at(time.Second, func() {
		shows(nil)
		with := login("2")
		with.FollowUps = rules
		p.takes(p.send(protocol.UpdatePutSeed, with))
	})
	p.at(2*time.Second, func() {
		shows(rules)
		for _, bad := range [][]protocol.SeedFollowUp{{{Name: "a b", When: "w"}}, {{Name: "a"}}, {{Name: "a", When: "w"}, {Name: "a", When: "w"}}, make([]protocol.SeedFollowUp, 9), {{Name: "a", When: strings.Repeat("w", 301)}}} {
			with := login("3")
			with.FollowUps = bad
			p.refuses(p.send(protocol.UpdatePutSeed, with), protocol.RefusedBadInput)
		}
		shows(rules)
		p.takes(p.send(protocol.UpdatePutSeed, login("4")))
	})
	p.at(3*time.Second, func() { shows(nil) })
	p.runSeed(time.Minute)
}
