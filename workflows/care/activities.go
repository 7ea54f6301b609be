package care

import (
	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/snaps"
)

// Nil pointers: workflows use only the names of the methods.
var (
	askJobs   *overseer.Engine
	batchJobs *batches.Activities
	loginJobs *logins.Activities
	placeJobs *places.Activities
	snapJobs  *snaps.Activities
)
