// Package credentials has the end-to-end tests of seeds, logins and keys, and
// of the absence of secrets.
package credentials

import (
	"net"
	"os"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

// A million tokens of output cost 1,000, so that what a budget permits does not depend on how
// long codex's requests are.
func TestMain(m *testing.M) {
	var err error
	if clonable, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		panic(err)
	}
	os.Exit(e2e.MainWith(m, "egress: {allow: [\"localhost:"+portOf(clonable.Addr())+"\"], private: [\"127.0.0.0/8\"]}\n"+
		"models: {bodies: {keep: 1h}, prices: {\"*\": {input: 0, output: 1000}}, budgets: [{seed: shared-key, money: 6}, {tenant: frugal, tokens: 50000000, requests: 60}]}\n", nil))
}
