// Package cluster has `ctl cluster` and `ctl recover`. The first finds and makes what a Temporal
// cluster lacks for Fairlead. The second reconciles seeds with the store after Temporal's database
// was restored.
package cluster
