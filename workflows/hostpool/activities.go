package hostpool

import (
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
)

// The activity structs, as nil pointers: workflows use only the names of the methods. The
// worker registers the real values.
var (
	askJobs   *overseer.Engine
	hostJobs  *hosts.Activities
	placeJobs *places.Activities
	pumpJobs  *pumps.Activities
)
