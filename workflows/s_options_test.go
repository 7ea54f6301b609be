package workflows

import (
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestSessionOptionsSayHowCredentialsAreGiven(t *testing.T) {
	for name, o := range map[string]SessionOptions{
		"no seed":           {Credentials: protocol.CredentialsBroker},
		"unknown way":       {Seed: "team", Credentials: "lent"},
		"unknown on_auth":   {OnAuth: "pray"},
		"misspelled broker": {Seed: "team", Credentials: "Broker"},
	} {
		if _, err := o.withDefaults(mostOften); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for o, want := range map[string]string{"": "", protocol.CredentialsPlanted: "", protocol.CredentialsBroker: protocol.AuthRetry} {
		got, err := SessionOptions{Seed: "team", Credentials: o}.withDefaults(mostOften)
		if err != nil || got.OnAuth != want {
			t.Errorf("%q: on_auth %q, %v", o, got.OnAuth, err)
		}
	}
}
