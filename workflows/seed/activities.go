package seed

import (
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/overseer"
)

// The activity structs, as nil pointers: workflows use only their methods' names.
var (
	askJobs   *overseer.Engine
	hostJobs  *hosts.Activities
	loginJobs *logins.Activities
)
