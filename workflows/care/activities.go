package care

import "fairlead.dev/fairlead/activities"

// The activity structs, as nil pointers: workflows use only the names of the methods. The
// worker registers the real values.
var (
	engine    *activities.Engine
	hosts     *activities.Hosts
	seeds     *activities.Seeds
	snapshots *activities.Snapshots
)
