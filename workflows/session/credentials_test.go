package session

import (
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestTheOrganisationsDefaultCountsOnlyBeforeTheThreadIsBegun(t *testing.T) {
	seed := &protocol.SeedRef{Name: "team"}
	for name, c := range map[string]struct {
		opt  Options
		st   State
		want bool
	}{
		"nothing is said":     {st: State{}, want: true},
		"the session says":    {opt: Options{Credentials: protocol.CredentialsPlanted}},
		"the seed says":       {st: State{policyState: policyState{SeedWay: protocol.CredentialsPlanted}}},
		"it is decided":       {st: State{policyState: policyState{ByDefault: &ChosenCredentials{Way: "gateway", Seed: "team"}}}},
		"for another seed":    {st: State{policyState: policyState{ByDefault: &ChosenCredentials{Way: "gateway", Seed: "other"}}, turnState: turnState{MayHaveTurn: true}}, want: true},
		"the thread is begun": {st: State{turnState: turnState{MayHaveTurn: true}}},
	} {
		c.st.Seed = seed
		if got := (&core{opt: c.opt, st: &c.st}).unsaid(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if (&core{st: &State{}}).unsaid() {
		t.Error("without a seed: true")
	}
}
