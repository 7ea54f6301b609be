// Package approvals has the end-to-end tests of codex's requests and of who
// decides them.
package approvals

import (
	"os"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

func TestMain(m *testing.M) {
	if os.Getenv("DESK_TOLD") != "" {
		os.Exit(desk(os.Stdin, os.Stdout, os.Getenv("DESK_TOLD")))
	}
	e2e.Main(m)
}
