package session

import (
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

func TestSessionOptionsSayHowCredentialsAreGiven(t *testing.T) {
	for name, o := range map[string]Options{
		"no seed":           {Credentials: protocol.CredentialsBroker},
		"unknown way":       {Seed: "team", Credentials: "lent"},
		"unknown on_auth":   {OnAuth: "pray"},
		"misspelled broker": {Seed: "team", Credentials: "Broker"},
	} {
		if _, err := o.withDefaults(kit.MostOften); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for o, want := range map[string]string{"": "", protocol.CredentialsPlanted: "", protocol.CredentialsBroker: protocol.AuthRetry} {
		got, err := Options{Seed: "team", Credentials: o}.withDefaults(kit.MostOften)
		if err != nil || got.OnAuth != want {
			t.Errorf("%q: on_auth %q, %v", o, got.OnAuth, err)
		}
	}
}
