// Package credentials has the end-to-end tests of seeds, logins and keys, and
// of the absence of secrets.
package credentials

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
