package care

import (
	"fairlead.dev/fairlead/activities"
)

// The activity structs, as nil pointers: workflows use only the names of the methods. The
// worker registers the real values.
var (
	askJobs   *activities.Engine
	batchJobs *activities.BatchActs
	loginJobs *activities.LoginActs
	placeJobs *activities.PlaceActs
	snapJobs  *activities.SnapActs
)
