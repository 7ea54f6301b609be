// Package console has the end-to-end tests of the console: a person in a real browser, a real
// codex, and a whole stack.
package console

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
