package workflows

import (
	"encoding/json"
	"testing"

	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/newer"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

// Where workers take signed commands only, every start has a signature beside its fields.
func TestASignedStartIsNotTakenForOneOfANewerProgram(t *testing.T) {
	const signed = `{"auth":{"principal":"alice","at":"2026-11-29T02:00:00Z","nonce":"n","signature":"s"}}`
	for _, in := range []newer.Input{&session.Input{}, &batch.Input{}, &schedule.FireInput{}, &seed.Input{}, &seed.PoolInput{}, &hostpool.Input{}} {
		if err := json.Unmarshal([]byte(signed), in); err != nil {
			t.Fatal(err)
		}
		if lacks := in.Unknown(); len(lacks) > 0 {
			t.Errorf("a signed %T lacks %q", in, lacks)
		}
	}
}
