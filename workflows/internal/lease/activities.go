package lease

import (
	"fairlead.dev/fairlead/activities/overseer"
)

// A nil pointer: workflows use only the names of the methods.
var (
	askJobs *overseer.Engine
)
