// Package outages has the end-to-end tests of what a session outlives: its
// worker, its connection, its codex and the server.
package outages

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
