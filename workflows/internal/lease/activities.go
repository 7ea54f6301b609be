package lease

import (
	"fairlead.dev/fairlead/activities/overseer"
)

// The activity struct, as a nil pointer: workflows use only the names of the methods. The
// worker registers the real value.
var (
	askJobs *overseer.Engine
)
