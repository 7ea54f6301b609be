// Package docs holds the end-to-end tests of what the documents show: the demo and the README's commands.
package docs

import (
	"testing"

	"fairlead.dev/fairlead/deploy/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
