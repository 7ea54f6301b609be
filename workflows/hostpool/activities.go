package hostpool

import (
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
)

// Nil pointers: workflows use only the names of the methods.
var (
	askJobs   *overseer.Engine
	hostJobs  *hosts.Activities
	placeJobs *places.Activities
	pumpJobs  *pumps.Activities
)
