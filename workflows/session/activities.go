package session

import (
	"fairlead.dev/fairlead/activities/audits"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/activities/workspaces"
)

// The activity structs, as nil pointers: workflows use only the names of the methods.
var (
	auditJobs *audits.Activities
	placeJobs *places.Activities
	pumpJobs  *pumps.Activities
	snapJobs  *snaps.Activities
	workJobs  *workspaces.Activities
)
