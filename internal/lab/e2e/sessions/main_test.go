// Package sessions has the end-to-end tests of sessions: how they start,
// converse, are bounded, are saved and move.
package sessions

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
