package schedule

import (
	"fairlead.dev/fairlead/activities/batches"
)

// The activity struct, as a nil pointer: workflows use only the names of the methods. The
// worker registers the real value.
var (
	batchJobs *batches.Activities
)
