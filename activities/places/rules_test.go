package places

import (
	"errors"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

func TestRulesOfASeedAreGivenToItsSessionsUnlessTheyHaveASecretOfIt(t *testing.T) {
	const secret = "marked-provider-0123456789"
	ref := &protocol.SeedRef{Name: "team"}
	with := func(prompt string) ([]protocol.FollowUp, error) {
		t.Helper()
		b, err := seeds.PackWith("", []byte("provider: {base_url: \"http://127.0.0.1:9/v1\", bearer_token: "+secret+"}\nfollow_ups:\n  - {name: review, after: {turns: 1}, prompt: \""+prompt+"\"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return rulesOf(b, ref, site.Secrets{All: seeds.NewRedactor("team", []seeds.Secret{seeds.NewSecret(secret)})})
	}
	if rules, err := with("review it"); err != nil || len(rules) != 1 || rules[0].Prompt != "review it" {
		t.Errorf("%+v, %v", rules, err)
	}
	var typed *kit.TypedError
	if _, err := with("log in with " + secret); !errors.As(err, &typed) || typed.Kind != protocol.ErrTypeBadInput || !strings.Contains(err.Error(), "the prompt of follow-up review has a secret") || strings.Contains(err.Error(), secret) {
		t.Errorf("a prompt with a secret: %v", err)
	}
	if rules, err := rulesOf(nil, nil, site.Secrets{}); rules != nil || err != nil {
		t.Errorf("no seed: %+v, %v", rules, err)
	}
}
