// Package clients has the end-to-end tests of clients that are generated from the OpenAPI
// document, in Go and in TypeScript: they drive a real session on a real worker.
package clients

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
