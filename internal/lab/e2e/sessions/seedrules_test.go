package sessions

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// The rules of a seed start follow-ups of each session with the seed, also those that have the
// seed themselves start none, and a rule of the session takes the place of the seed's.
func TestRulesOfASeedStartFollowUpsOfEachOfItsSessions(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	file("home/config.toml", scriptedmodel.ConfigTOML(e2e.Lab.Model.BaseURL(), e2e.Lab.Token))
	settings := func(rules string) string { return file("settings.yaml", "follow_ups:\n"+rules) }
	const review = "  - {name: review, after: {turns: 1}, prompt: what was first, sandbox: read-only}\n"

	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "seed", "import", "ruled", home, "--settings", settings("  - {name: review, prompt: p}\n")); r.Code != 2 || !strings.Contains(r.Stderr, "line 1: follow_ups: follow-up 1: give one of turns") {
		t.Errorf("a rule that says not when: %v", r)
	}
	e2e.OK(t, "seed", "import", "ruled", home, "--settings", settings(review+"  - {name: learn, after: {turns: 1}, prompt: what was first, seed: team}\n"))
	var seed protocol.SeedView
	if err := e2e.Lab.JSON(e2e.Within(t), &seed, "seed", "show", "ruled"); err != nil {
		t.Fatal(err)
	}
	if want := []protocol.SeedFollowUp{{Name: "review", When: "after each turn"}, {Name: "learn", When: "after each turn", Seed: "team"}}; !slices.Equal(seed.FollowUps, want) {
		t.Errorf("the seed has the rules %+v, want %+v", seed.FollowUps, want)
	}
	if out := e2e.OK(t, "seed", "show", "ruled"); !strings.Contains(out, "FOLLOW-UP") || !strings.Contains(out, "after each turn") {
		t.Errorf("the seed is shown as\n%s", out)
	}

	own := file("own.yaml", "follow_ups:\n  - {name: learn, after: {turns: 2}, prompt: what was first}\n")
	begun := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "start", "--host", "web-1", "--seed", "ruled", "--follow-up", own, "--id", "ruled-one")
	for _, want := range []string{"follow-up review: after each turn (from seed ruled)", "follow-up learn: after each turn, with seed team (from seed ruled), not used: the session has a rule of this name", "follow-up learn: after each 2 turns (from session)"} {
		if begun.Code != 0 || !strings.Contains(begun.Stderr, want) {
			t.Errorf("the start says not %q: %v", want, begun)
		}
	}
	e2e.Turn(t, "ruled-one", "the first words")
	second := e2e.Started(t, "ruled-one", 1)
	closed(t, second)
	e2e.Until(t, "the result of the follow-up is attached", func() (bool, error) {
		return e2e.Show(t, "ruled-one").FollowUps[0].State != protocol.FollowUpStarted, nil
	})
	v := e2e.Show(t, "ruled-one")
	if got := v.FollowUps; len(got) != 1 || !strings.HasPrefix(second, "ruled-one-review-1-") || got[0].Status != "completed" || !strings.Contains(got[0].Text, "The first was: the first words") {
		t.Errorf("its follow-ups are %+v", got)
	}
	if got, want := ruleWords(v), []string{"review seed/ruled ", "learn seed/ruled the session has a rule of this name", "learn session "}; !slices.Equal(got, want) {
		t.Errorf("its rules are %q, want %q", got, want)
	}
	if out := e2e.OK(t, "session", "show", "ruled-one"); !strings.Contains(out, "rule review: after each turn (from seed ruled)") {
		t.Errorf("it is shown as\n%s", out)
	}
	its := e2e.Show(t, second)
	if got, want := ruleWords(its), []string{"review seed/ruled another session began this one", "learn seed/ruled another session began this one"}; !slices.Equal(got, want) || len(its.FollowUps) > 0 || its.Options["sandbox"] != "read-only" || its.Seed != "ruled" {
		t.Errorf("the follow-up has the rules %q, and the follow-ups %+v", got, its.FollowUps)
	}

	// The rules of a new generation apply once the session comes to a host again.
	e2e.OK(t, "seed", "import", "ruled", home, "--settings", settings("  - {name: again, after: {turns: 1}, prompt: what was first}\n"))
	e2e.OK(t, "session", "park", "ruled-one")
	e2e.Turn(t, "ruled-one", "the second words")
	for n := range 2 {
		closed(t, e2e.Started(t, "ruled-one", n+2))
	}
	var names []string
	for _, f := range e2e.Show(t, "ruled-one").FollowUps {
		names = append(names, f.Name)
	}
	if slices.Sort(names[1:]); !slices.Equal(names, []string{"review", "again", "learn"}) {
		t.Errorf("its follow-ups are %q", names)
	}
	e2e.OK(t, "session", "close", "ruled-one")
	if list, err := lab.Lines[protocol.SessionView](e2e.Within(t), e2e.Lab, "session", "list", "--follow-ups-of", second); err != nil || len(list) > 0 {
		t.Errorf("the follow-up has follow-ups: %+v, %v", list, err)
	}
}

// ruleWords returns the rules of a session as its view has them.
func ruleWords(v protocol.SessionView) (all []string) {
	for _, r := range v.Rules {
		all = append(all, r.Name+" "+r.From+" "+r.Off)
	}
	return all
}
