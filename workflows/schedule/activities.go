package schedule

import (
	"fairlead.dev/fairlead/activities/batches"
)

// A nil pointer: workflows use only the names of the methods.
var (
	batchJobs *batches.Activities
)
