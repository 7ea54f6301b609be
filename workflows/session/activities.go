package session

import (
	"fairlead.dev/fairlead/activities"
)

// The activity structs, as nil pointers: workflows use only the names of the methods. The
// worker registers the real values.
var (
	placeJobs *activities.PlaceActs
	pumpJobs  *activities.PumpActs
	snapJobs  *activities.SnapActs
	workJobs  *activities.WorkActs
)
