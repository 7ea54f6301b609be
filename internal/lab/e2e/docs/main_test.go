// Package docs holds the end-to-end tests of what the documents show: the demo and the commands of the pages.
package docs

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
