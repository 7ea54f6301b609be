// Package approvals holds the end-to-end tests of what codex asks and who decides.
package approvals

import (
	"os"
	"testing"

	"fairlead.dev/fairlead/deploy/e2e"
)

func TestMain(m *testing.M) {
	if os.Getenv("DESK_TOLD") != "" {
		os.Exit(desk(os.Stdin, os.Stdout, os.Getenv("DESK_TOLD")))
	}
	e2e.Main(m)
}
