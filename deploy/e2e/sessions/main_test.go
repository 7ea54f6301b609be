// Package sessions holds the end-to-end tests of sessions: how they are begun, talked to,
// bounded, kept and carried elsewhere.
package sessions

import (
	"testing"

	"fairlead.dev/fairlead/deploy/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
