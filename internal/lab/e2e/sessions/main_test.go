// Package sessions has the end-to-end tests of sessions: how they start,
// converse, are bounded, are saved and move.
package sessions

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/teamworker"
)

func TestMain(m *testing.M) {
	teamworker.Main() // the binary may be started as the worker of a team
	e2e.Main(m)
}
