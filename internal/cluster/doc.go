// Package cluster knows what a Temporal cluster must offer to Fairlead.
//
// Check looks at a namespace of a cluster and returns one Finding for each requirement, with
// the command that fixes what is missing. It changes nothing. Prepare registers the missing
// search attributes. Lacking tells a worker at its start whether it can work there; it needs
// no permission beyond those that workers need.
//
// All calls are bounded by their context alone.
package cluster
