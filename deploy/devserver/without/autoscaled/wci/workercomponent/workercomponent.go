// Package workercomponent has no worker that would start workers.
package workercomponent

import "go.uber.org/fx"

var Module = fx.Options()
