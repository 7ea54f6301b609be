// Package credentials holds the end-to-end tests of seeds, logins, keys and of where no secret is.
package credentials

import (
	"testing"

	"fairlead.dev/fairlead/deploy/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
