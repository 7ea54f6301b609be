package conversation

import (
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestWhatTheModelGatewaySaysIsAKindOfEnding(t *testing.T) {
	for message, want := range map[string]string{
		`{"error":{"message":"[model gateway: auth] the provider refuses the key","type":"auth","code":null}}`:                protocol.EndAuth,
		`unexpected status 502 Bad Gateway: {"error":{"message":"[model gateway: unreachable] p after 4 attempts: refused"}}`: protocol.EndNetwork,
		`{"error":{"message":"[model gateway: of tomorrow] x"}}`:                                                              "bad_request",
		`{"error":{"message":"[model gateway: auth"}}`:                                                                        "bad_request",
	} {
		if p := classify(wire.TurnError{Message: message, Info: []byte(`"badRequest"`)}); p.Kind != want || p.Message != message || p.Hint == "" {
			t.Errorf("%s is %+v, expected %s", message, p, want)
		}
	}
}
