// Package fleet has the end-to-end tests of hosts, zones, pools and workers.
package fleet

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
