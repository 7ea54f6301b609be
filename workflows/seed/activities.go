package seed

import (
	"fairlead.dev/fairlead/activities"
)

// The activity structs, as nil pointers: workflows use only the names of the methods. The
// worker registers the real values.
var (
	askJobs   *activities.Engine
	hostJobs  *activities.HostActs
	loginJobs *activities.LoginActs
)
